// LDL factors of symmetric matrices on CUDA, by cuSOLVER, and solutions of systems with them.
#include "flambeau/cuda/cusolver.h"

namespace flambeau::cuda {
namespace {

void ldl_factor(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  constexpr const char* op = "linalg.ldl_factor";
  CHECK(!hermitian || !a.is_complex(), NotImplementedError,
        "{}: complex matrices with hermitian=True are not supported on CUDA", op);
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a);
    int length = 0;
    check_solver(solver<T>().sytrf_size(guard.solver(), m.rows, m.data, m.ld, &length), op);
    const Workspace work(length * sizeof(T), device);
    for (int64_t i = 0; i < m.count; ++i) {
      check_solver(solver<T>().sytrf(guard.solver(), CUBLAS_FILL_MODE_LOWER, m.rows, m[i], m.ld,
                                     pivots.data<int>() + i * m.rows, work.template get<T>(),
                                     length, info.data<int>() + i),
                   op);
    }
  });
}
KERNEL_FOR(ldl_factor, ldl_factor)

// One column of the right side, in a block of threads. Its values lie in global memory.
template <class T>
struct LdlColumn {
  const T* ld;  // column-major, n x n
  const int* pivots;
  T* x;
  int n;
  bool hermitian;

  __device__ const T& at(int i, int k) const { return ld[i + static_cast<int64_t>(k) * n]; }
  __device__ T turned(T value) const {
    if constexpr (is_complex_type<T>) {
      if (hermitian) return T(value.real(), -value.imag());
    }
    return value;
  }
  // The row that was exchanged with row k. Pivots may come from anybody: those out of range are
  // followed by nobody.
  __device__ int partner(int k) const {
    const int row = (pivots[k] < 0 ? -pivots[k] : pivots[k]) - 1;
    return row >= 0 && row < n ? row : k;
  }
  __device__ void exchange(int k) const {
    const int other = partner(k);
    if (threadIdx.x == 0 && other != k) {
      const T kept = x[k];
      x[k] = x[other];
      x[other] = kept;
    }
    __syncthreads();
  }

  // x becomes D^-1 L^-1 x. A negative pivot stands for a block of two rows.
  __device__ void forward() const {
    for (int k = 0; k < n;) {
      const int size = pivots[k] < 0 && k + 1 < n ? 2 : 1;
      exchange(k + size - 1);
      for (int i = k + size + static_cast<int>(threadIdx.x); i < n; i += block_size) {
        T value = x[i];
        for (int j = k; j < k + size; ++j) value = value - at(i, j) * x[j];
        x[i] = value;
      }
      __syncthreads();
      if (threadIdx.x == 0) divide(k, size);
      __syncthreads();
      k += size;
    }
  }
  __device__ void divide(int k, int size) const {
    if (size == 1) {
      x[k] = x[k] / at(k, k);
      return;
    }
    const T corner = at(k + 1, k), above = turned(corner);
    const T first = at(k, k) / above, second = at(k + 1, k + 1) / corner;
    const T a = x[k] / above, b = x[k + 1] / corner, divisor = first * second - T(1);
    x[k] = (second * a - b) / divisor;
    x[k + 1] = (first * b - a) / divisor;
  }

  // x becomes L^-T x, or with the adjoint.
  __device__ void backward() const {
    for (int k = n - 1; k >= 0;) {
      const int size = pivots[k] < 0 && k > 0 ? 2 : 1;
      for (int j = k; j > k - size; --j) take_rows_below(j, k);
      exchange(k);
      k -= size;
    }
  }
  // x[j] less the products of column j with what lies below row k.
  __device__ void take_rows_below(int j, int k) const {
    __shared__ alignas(16) char memory[block_size * sizeof(T)];
    T* sums = reinterpret_cast<T*>(memory);
    T sum(0);
    for (int i = k + 1 + static_cast<int>(threadIdx.x); i < n; i += block_size) {
      sum = sum + turned(at(i, j)) * x[i];
    }
    sums[threadIdx.x] = sum;
    for (int step = block_size / 2; step > 0; step /= 2) {
      __syncthreads();
      if (threadIdx.x < step) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) x[j] = x[j] - sums[0];
    __syncthreads();
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    ldl_solve_columns(const T* ld, const int* pivots, T* x, int n, int columns, bool hermitian) {
  const int64_t matrix = blockIdx.x / columns;
  const LdlColumn<T> column{ld + matrix * n * n, pivots + matrix * n,
                            x + static_cast<int64_t>(blockIdx.x) * n, n, hermitian};
  column.forward();
  column.backward();
}

void ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  if (b.numel() == 0) return;
  const DeviceGuard guard(b.device().index);
  for_matrix_type("linalg.ldl_solve", ld.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> a(ld), x(b);
    launch("linalg.ldl_solve", ldl_solve_columns<T>, blocks_for(x.count * x.cols, 1), block_size,
           a.data, pivots.data<int>(), x.data, a.rows, x.cols, hermitian);
  });
}
KERNEL_FOR(ldl_solve, ldl_solve)

}  // namespace
}  // namespace flambeau::cuda
