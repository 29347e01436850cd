// LU and Cholesky factors, determinants and solutions of linear systems on CUDA, through cuSOLVER,
// and through cuBLAS where there are many small matrices.
#include "flambeau/cuda/linalg/cusolver.h"
#include "flambeau/cuda/runtime/fault.h"

namespace flambeau::cuda {
namespace {

cublasOperation_t operation(Transposed how) {
  return how == Transposed::no ? CUBLAS_OP_N : how == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_C;
}

// Without pivots (null) no rows are exchanged.
template <class T>
void factor_lu(const SolverGuard& guard, const MatrixBatch<T>& m, int* pivots, int* info,
               int device) {
  constexpr const char* op = "lu_factor";
  if (is_many(m)) {
    const MatrixList<T> list(op, m, device);
    check_blas(blas_getrf_batched<T>(guard.blas(), m.rows, as_blas(list.get()), m.ld, pivots, info,
                                     static_cast<int>(m.count)),
               op);
    return;
  }
  int length = 0;
  check_solver(solver<T>().getrf_size(guard.solver(), m.rows, m.cols, m.data, m.ld, &length), op);
  const Workspace work(length * sizeof(T), device);
  const int64_t k = std::min(m.rows, m.cols);
  for (int64_t i = 0; i < m.count; ++i) {
    check_solver(
        solver<T>().getrf(guard.solver(), m.rows, m.cols, m[i], m.ld, work.template get<T>(),
                          pivots ? pivots + i * k : nullptr, info + i),
        op);
  }
}

template <class T>
void solve_lu(const SolverGuard& guard, const MatrixBatch<T>& a, const int* pivots,
              const MatrixBatch<T>& b, cublasOperation_t how, int device) {
  constexpr const char* op = "lu_solve";
  if (is_many(a)) {
    const MatrixList<T> of_a(op, a, device), of_b(op, b, device);
    int failed = 0;  // of the arguments, on the host
    check_blas(
        blas_getrs_batched<T>(guard.blas(), how, a.rows, b.cols, as_blas(of_a.get()), a.ld, pivots,
                              as_blas(of_b.get()), b.ld, &failed, static_cast<int>(b.count)),
        op);
    return;
  }
  const Workspace info(sizeof(int), device);
  for (int64_t i = 0; i < b.count; ++i) {
    check_solver(solver<T>().getrs(guard.solver(), how, a.rows, b.cols, a[i], a.ld,
                                   pivots + i * a.rows, b[i], b.ld, info.get<int>()),
                 op);
  }
}

void lu_factor(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("lu_factor", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    factor_lu(guard, MatrixBatch<T>(a), pivots.defined() ? pivots.data<int>() : nullptr,
              info.data<int>(), device);
  });
}
KERNEL_FOR(lu_factor, lu_factor)

// A thread for each matrix: exchanges follow one another.
__global__ void __launch_bounds__(block_size)
    play_exchanges(const int* pivots, int64_t* order, int64_t count, int64_t n, int64_t rows,
                   FaultPlace fault) {
  const int64_t matrix = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (matrix >= count) return;
  pivots += matrix * n;
  order += matrix * rows;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t other = int64_t{pivots[k]} - 1;
    if (other < 0 || other >= rows) {
      report(fault, FaultKind::index, other + 1, 0, rows);
      continue;
    }
    const int64_t kept = order[k];
    order[k] = order[other];
    order[other] = kept;
  }
}

void pivot_order(const Tensor& pivots, const Tensor& order) {
  const int device = pivots.device().index;
  const DeviceGuard guard(device);
  const int64_t n = pivots.size(-1), count = pivots.numel() / n;
  launch("lu_unpack", play_exchanges, blocks_for(count, block_size), block_size,
         static_cast<const int*>(pivots.raw()), static_cast<int64_t*>(order.raw()), count, n,
         order.size(-1), fault_of(device));
}
KERNEL_FOR(pivot_order, pivot_order)

// Pivots may come from anybody: those out of range are counted, and followed by nobody.
__global__ void __launch_bounds__(block_size)
    check_pivots(const int* pivots, int64_t count, int rows, int* kept) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  const int pivot = pivots[i];
  kept[i] = pivot >= 1 && pivot <= rows ? pivot : static_cast<int>(i % rows) + 1;
}

void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, Transposed how) {
  const int device = lu.device().index;
  const SolverGuard guard(device);
  const Workspace safe(pivots.numel() * sizeof(int), device);
  launch("lu_solve", check_pivots, blocks_for(pivots.numel(), block_size), block_size,
         static_cast<const int*>(pivots.raw()), pivots.numel(), static_cast<int>(lu.size(-2)),
         safe.get<int>());
  for_matrix_type("lu_solve", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    solve_lu(guard, MatrixBatch<T>(lu), safe.get<int>(), MatrixBatch<T>(b), operation(how), device);
  });
}
KERNEL_FOR(lu_solve, lu_solve)

// --- Determinants --------------------------------------------------------------------------------

constexpr int warp_lanes = 32;

// A warp for each matrix: products along the diagonal, with the sign of the exchanges.
template <class T>
__global__ void __launch_bounds__(warp_lanes)
    determinant_kernel(const T* lu, const int* pivots, T* out, int n) {
  __shared__ T parts[warp_lanes];
  const int64_t matrix = blockIdx.x;
  lu += matrix * n * n;
  pivots += matrix * n;
  T product(1);
  for (int k = threadIdx.x; k < n; k += warp_lanes) {
    const T x = lu[static_cast<int64_t>(k) * (n + 1)];
    product = product * (pivots[k] != k + 1 ? -x : x);
  }
  parts[threadIdx.x] = product;
  __syncwarp();
  if (threadIdx.x != 0) return;
  for (int lane = 1; lane < warp_lanes; ++lane) product = product * parts[lane];
  out[matrix] = product;
}

template <class T>
__global__ void __launch_bounds__(warp_lanes)
    log_determinant_kernel(const T* lu, const int* pivots, T* sign, RealType<T>* logabs, int n) {
  using R = RealType<T>;
  __shared__ T phases[warp_lanes];
  __shared__ R sums[warp_lanes];
  const int64_t matrix = blockIdx.x;
  lu += matrix * n * n;
  pivots += matrix * n;
  T phase(1);
  R sum(0);
  for (int k = threadIdx.x; k < n; k += warp_lanes) {
    const T x = lu[static_cast<int64_t>(k) * (n + 1)];
    R size;
    if constexpr (is_complex_type<T>) {
      size = ::hypot(x.real(), x.imag());
    } else {
      size = x < 0 ? -x : x;
    }
    const T unit = size == R(0) ? T(0) : x / size;
    phase = phase * (pivots[k] != k + 1 ? -unit : unit);
    sum += ::log(size);
  }
  phases[threadIdx.x] = phase;
  sums[threadIdx.x] = sum;
  __syncwarp();
  if (threadIdx.x != 0) return;
  for (int lane = 1; lane < warp_lanes; ++lane) {
    phase = phase * phases[lane];
    sum += sums[lane];
  }
  sign[matrix] = phase;
  logabs[matrix] = sum;
}

void determinant(const Tensor& lu, const Tensor& pivots, const Tensor& out) {
  const DeviceGuard guard(lu.device().index);
  for_matrix_type("det", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(lu);
    if (m.count == 0) return;
    launch("det", determinant_kernel<T>, blocks_for(m.count, 1), warp_lanes,
           static_cast<const T*>(m.data), static_cast<const int*>(pivots.raw()),
           static_cast<T*>(out.raw()), m.rows);
  });
}
KERNEL_FOR(determinant, determinant)

void log_determinant(const Tensor& lu, const Tensor& pivots, const Tensor& sign,
                     const Tensor& logabs) {
  const DeviceGuard guard(lu.device().index);
  for_matrix_type("slogdet", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(lu);
    if (m.count == 0) return;
    launch("slogdet", log_determinant_kernel<T>, blocks_for(m.count, 1), warp_lanes,
           static_cast<const T*>(m.data), static_cast<const int*>(pivots.raw()),
           static_cast<T*>(sign.raw()), static_cast<RealType<T>*>(logabs.raw()), m.rows);
  });
}
KERNEL_FOR(log_determinant, log_determinant)

// --- Inverses, triangles, Cholesky ---------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size) fill_identity(T* data, int64_t numel, int64_t n) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  const int64_t place = e % (n * n);
  data[e] = place / n == place % n ? T(1) : T(0);
}

void matrix_inverse(const Tensor& a, const Tensor& info) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("inverse", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a);
    const int64_t numel = m.step * m.count;
    const Workspace copy(numel * sizeof(T), device), pivots(m.count * m.rows * sizeof(int), device);
    check(cudaMemcpyAsync(copy.get(), m.data, numel * sizeof(T), cudaMemcpyDeviceToDevice,
                          current_handle(device)),
          "inverse");
    const MatrixBatch<T> lu(copy.get<T>(), m.rows, m.cols, m.count);
    factor_lu(guard, lu, pivots.get<int>(), info.data<int>(), device);
    launch("inverse", fill_identity<T>, blocks_for(numel, block_size), block_size, m.data, numel,
           int64_t{m.rows});
    solve_lu(guard, lu, pivots.get<int>(), m, CUBLAS_OP_N, device);
  });
}
KERNEL_FOR(matrix_inverse, matrix_inverse)

void triangular_solve(const Tensor& a, const Tensor& b, bool left, bool upper, Transposed how,
                      bool unit_diagonal) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("triangular_solve", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    solve_triangles("triangular_solve", guard, MatrixBatch<T>(a), MatrixBatch<T>(b),
                    left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT,
                    upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER, operation(how),
                    unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, device);
  });
}
KERNEL_FOR(triangular_solve, triangular_solve)

void cholesky(const Tensor& a, const Tensor& info, bool upper) {
  constexpr const char* op = "cholesky";
  const int device = a.device().index;
  const SolverGuard guard(device);
  const int part = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a);
    int* codes = info.data<int>();
    if (is_many(m)) {
      const MatrixList<T> list(op, m, device);
      check_solver(solver<T>().potrf_batched(guard.solver(), part, m.rows, list.get(), m.ld, codes,
                                             static_cast<int>(m.count)),
                   op);
      return;
    }
    int length = 0;
    check_solver(solver<T>().potrf_size(guard.solver(), part, m.rows, m.data, m.ld, &length), op);
    const Workspace work(length * sizeof(T), device);
    for (int64_t i = 0; i < m.count; ++i) {
      check_solver(solver<T>().potrf(guard.solver(), part, m.rows, m[i], m.ld,
                                     work.template get<T>(), length, codes + i),
                   op);
    }
  });
}
KERNEL_FOR(cholesky, cholesky)

}  // namespace
}  // namespace flambeau::cuda
