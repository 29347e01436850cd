// QR factors, singular values, eigenvalues and least squares on CUDA, through cuSOLVER.
#include "flambeau/cuda/linalg/cusolver.h"

namespace flambeau::cuda {
namespace {

// Work space of as many elements as a function asked for, and a place for its answer.
template <class T>
struct Work {
  int length = 0;
  Workspace memory, info;
  Work(int wanted, int device)
      : length(wanted), memory(wanted * sizeof(T), device), info(sizeof(int), device) {}
  [[nodiscard]] T* get() const { return memory.template get<T>(); }
  [[nodiscard]] int* answer() const { return info.template get<int>(); }
};

template <class T>
constexpr int adjoint_of = is_complex_type<T> ? CUBLAS_OP_C : CUBLAS_OP_T;

// --- QR ------------------------------------------------------------------------------------------

template <class T>
void factor_qr(const SolverGuard& guard, const MatrixBatch<T>& m, T* tau, int device) {
  constexpr const char* op = "geqrf";
  int wanted = 0;
  check_solver(solver<T>().geqrf_size(guard.solver(), m.rows, m.cols, m.data, m.ld, &wanted), op);
  const Work<T> work(wanted, device);
  const int64_t k = std::min(m.rows, m.cols);
  for (int64_t i = 0; i < m.count; ++i) {
    check_solver(solver<T>().geqrf(guard.solver(), m.rows, m.cols, m[i], m.ld, tau + i * k,
                                   work.get(), work.length, work.answer()),
                 op);
  }
}

// c becomes op(Q) c or c op(Q), Q being the product of k reflections.
template <class T>
void multiply_q(const SolverGuard& guard, const MatrixBatch<T>& q, const T* tau, int k,
                const MatrixBatch<T>& c, bool left, bool adjoint, int device) {
  constexpr const char* op = "ormqr";
  const int side = left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  const int how = adjoint ? adjoint_of<T> : CUBLAS_OP_N;
  int wanted = 0;
  check_solver(solver<T>().unmqr_size(guard.solver(), side, how, c.rows, c.cols, k, q.data, q.ld,
                                      tau, c.data, c.ld, &wanted),
               op);
  const Work<T> work(wanted, device);
  for (int64_t i = 0; i < c.count; ++i) {
    check_solver(solver<T>().unmqr(guard.solver(), side, how, c.rows, c.cols, k, q[i], q.ld,
                                   tau + i * k, c[i], c.ld, work.get(), work.length, work.answer()),
                 op);
  }
}

void qr_factor(const Tensor& a, const Tensor& tau) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("geqrf", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    factor_qr(guard, MatrixBatch<T>(a), static_cast<T*>(tau.raw()), device);
  });
}
KERNEL_FOR(qr_factor, qr_factor)

void householder_product(const Tensor& a, const Tensor& tau) {
  constexpr const char* op = "householder_product";
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a);
    const int k = static_cast<int>(tau.size(-1));
    const T* factors = static_cast<const T*>(tau.raw());
    int wanted = 0;
    check_solver(
        solver<T>().ungqr_size(guard.solver(), m.rows, m.cols, k, m.data, m.ld, factors, &wanted),
        op);
    const Work<T> work(wanted, device);
    for (int64_t i = 0; i < m.count; ++i) {
      check_solver(solver<T>().ungqr(guard.solver(), m.rows, m.cols, k, m[i], m.ld, factors + i * k,
                                     work.get(), work.length, work.answer()),
                   op);
    }
  });
}
KERNEL_FOR(householder_product, householder_product)

void householder_multiply(const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
                          bool adjoint) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("ormqr", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply_q(guard, MatrixBatch<T>(a), static_cast<const T*>(tau.raw()),
               static_cast<int>(tau.size(-1)), MatrixBatch<T>(c), left, adjoint, device);
  });
}
KERNEL_FOR(householder_multiply, householder_multiply)

// --- Singular values -----------------------------------------------------------------------------

// The factors of matrices with at least as many rows as columns.
template <class T>
void factor_svd(const SolverGuard& guard, const MatrixBatch<T>& m, signed char job, T* u,
                int64_t u_cols, RealType<T>* s, T* vh, int64_t vh_rows, int* info, int device) {
  constexpr const char* op = "svd";
  int wanted = 0;
  check_solver(solver<T>().gesvd_size(guard.solver(), m.rows, m.cols, &wanted), op);
  const Work<T> work(wanted, device);
  const Workspace real_work(std::max(m.cols, 1) * sizeof(RealType<T>), device);
  for (int64_t i = 0; i < m.count; ++i) {
    check_solver(solver<T>().gesvd(guard.solver(), job, job, m.rows, m.cols, m[i], m.ld,
                                   s + i * m.cols, u ? u + i * m.rows * u_cols : nullptr, m.ld,
                                   vh ? vh + i * vh_rows * m.cols : nullptr,
                                   static_cast<int>(std::max<int64_t>(vh_rows, 1)), work.get(),
                                   work.length, real_work.get<RealType<T>>(), info + i),
                 op);
  }
}

void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("svd", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = RealType<T>;
    const MatrixBatch<T> m(a);
    const bool vectors = u.defined();
    const int64_t k = std::min(m.rows, m.cols);
    const int64_t u_cols = vectors ? u.size(-1) : 0, vh_rows = vectors ? vh.size(-2) : 0;
    const bool all = vectors && (u_cols > k || vh_rows > k);
    const auto job = static_cast<signed char>(!vectors ? 'N' : all ? 'A' : 'S');
    R* values = static_cast<R*>(s.raw());
    int* codes = info.data<int>();
    T* left = vectors ? static_cast<T*>(u.raw()) : nullptr;
    T* right = vectors ? static_cast<T*>(vh.raw()) : nullptr;
    if (m.rows >= m.cols) {
      return factor_svd(guard, m, job, left, u_cols, values, right, vh_rows, codes, device);
    }
    // A wide matrix is taken by its adjoint, V S U^H.
    const Workspace transposed(m.step * m.count * sizeof(T), device);
    conjugate_transpose("svd", m, transposed.get<T>());
    const MatrixBatch<T> tall(transposed.get<T>(), m.cols, m.rows, m.count);
    const Workspace v(m.count * m.cols * vh_rows * sizeof(T), device);
    const Workspace uh(m.count * u_cols * m.rows * sizeof(T), device);
    factor_svd(guard, tall, job, v.get<T>(), vh_rows, values, uh.get<T>(), u_cols, codes, device);
    if (!vectors) return;
    conjugate_transpose(
        "svd", MatrixBatch<T>(v.get<T>(), m.cols, static_cast<int>(vh_rows), m.count), right);
    conjugate_transpose(
        "svd", MatrixBatch<T>(uh.get<T>(), static_cast<int>(u_cols), m.rows, m.count), left);
  });
}
KERNEL_FOR(svd, svd)

// --- Eigenvalues ---------------------------------------------------------------------------------

void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool with_vectors) {
  constexpr const char* op = "eigh";
  const int device = a.device().index;
  const SolverGuard guard(device);
  const int job = with_vectors, part = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = RealType<T>;
    const MatrixBatch<T> m(a);
    R* w = static_cast<R*>(values.raw());
    int* codes = info.data<int>();
    if (m.count == 1) {
      int wanted = 0;
      check_solver(
          solver<T>().heevd_size(guard.solver(), job, part, m.rows, m.data, m.ld, w, &wanted), op);
      const Work<T> work(wanted, device);
      check_solver(solver<T>().heevd(guard.solver(), job, part, m.rows, m.data, m.ld, w, work.get(),
                                     work.length, codes),
                   op);
      return;
    }
    const GenericSolver& library = generic_solver();
    size_t on_device = 0, on_host = 0;
    check_solver(library.syev_batched_size(guard.solver(), guard.params(), job, part, m.rows,
                                           solver_type<T>, m.data, m.ld, solver_type<R>, w,
                                           solver_type<T>, &on_device, &on_host, m.count),
                 op);
    const Workspace work(on_device, device);
    std::vector<char> host(on_host);
    check_solver(
        library.syev_batched(guard.solver(), guard.params(), job, part, m.rows, solver_type<T>,
                             m.data, m.ld, solver_type<R>, w, solver_type<T>, work.get(), on_device,
                             host.data(), on_host, codes, m.count),
        op);
  });
}
KERNEL_FOR(eigh, eigh)

// The eigenvectors of a real matrix come as real columns: one for a real eigenvalue, the real and
// the imaginary part for a conjugate pair.
template <class R>
__global__ void __launch_bounds__(block_size)
    unpack_vectors(const R* columns, const DeviceComplex<R>* values, DeviceComplex<R>* out, int n) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= static_cast<int64_t>(n) * n) return;
  const int64_t i = e % n, j = e / n;
  const R imaginary = values[j].imag();
  if (imaginary == R(0)) {
    out[e] = DeviceComplex<R>(columns[e], R(0));
  } else {
    // The one of a pair with the positive part comes first.
    const int64_t first = imaginary > R(0) ? j : j - 1;
    const R x = columns[first * n + i], y = columns[(first + 1) * n + i];
    out[e] = DeviceComplex<R>(x, imaginary > R(0) ? y : -y);
  }
}

void eig(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info) {
  constexpr const char* op = "eig";
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = RealType<T>;
    using C = DeviceComplex<R>;
    const MatrixBatch<T> m(a);
    const bool wanted = vectors.defined();
    const int64_t n = m.rows, ld = wanted ? m.ld : 1;
    C* w = static_cast<C*>(values.raw());
    C* v = wanted ? static_cast<C*>(vectors.raw()) : nullptr;
    const bool real = !is_complex_type<T>;
    const Workspace columns(wanted && real ? m.step * sizeof(T) : 0, device);
    const GenericSolver& library = generic_solver();
    size_t on_device = 0, on_host = 0;
    void* right = real ? columns.get() : v;
    check_solver(library.geev_size(guard.solver(), guard.params(), 0, wanted, n, solver_type<T>,
                                   m.data, m.ld, solver_type<C>, w, solver_type<T>, nullptr, 1,
                                   solver_type<T>, right, ld, solver_type<T>, &on_device, &on_host),
                 op);
    const Workspace work(on_device, device);
    std::vector<char> host(on_host);
    for (int64_t i = 0; i < m.count; ++i) {
      if (!real && wanted) right = v + i * m.step;
      check_solver(library.geev(guard.solver(), guard.params(), 0, wanted, n, solver_type<T>, m[i],
                                m.ld, solver_type<C>, w + i * n, solver_type<T>, nullptr, 1,
                                solver_type<T>, right, ld, solver_type<T>, work.get(), on_device,
                                host.data(), on_host, info.data<int>() + i),
                   op);
      if (real && wanted) {
        launch(op, unpack_vectors<R>, blocks_for(m.step, block_size), block_size,
               static_cast<const R*>(columns.get()), static_cast<const C*>(w + i * n),
               v + i * m.step, m.rows);
      }
    }
  });
}
KERNEL_FOR(eig, eig)

// --- Least squares -------------------------------------------------------------------------------

// Rows [from, to) of every matrix become zero.
template <class T>
__global__ void __launch_bounds__(block_size)
    clear_rows(T* data, int64_t numel, int64_t rows, int64_t from, int64_t to) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e < numel && e % rows >= from && e % rows < to) data[e] = T(0);
}

// Solves triangles of the leading k columns of `a` for the first k rows of each matrix of b.
template <class T>
void solve_leading(const SolverGuard& guard, const MatrixBatch<T>& a, const MatrixBatch<T>& b,
                   int k, int how) {
  const T one(1);
  for (int64_t i = 0; i < b.count; ++i) {
    check_blas(blas_trsm<T>(guard.blas(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER,
                            static_cast<cublasOperation_t>(how), CUBLAS_DIAG_NON_UNIT, k, b.cols,
                            as_blas(&one), as_blas(static_cast<const T*>(a[i])), a.ld,
                            as_blas(b[i]), b.ld),
               "lstsq");
  }
}

void least_squares(const Tensor& a, const Tensor& b, LeastSquares /*gels*/, double /*rcond*/,
                   const Tensor& /*rank*/, const Tensor& /*singular_values*/,
                   const Tensor& /*info*/) {
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type("lstsq", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a), x(b);
    const int k = std::min(m.rows, m.cols);
    const Workspace tau(m.count * k * sizeof(T), device);
    if (m.rows >= m.cols) {
      factor_qr(guard, m, tau.get<T>(), device);
      multiply_q(guard, m, tau.get<T>(), k, x, true, true, device);
      return solve_leading(guard, m, x, k, CUBLAS_OP_N);
    }
    // Of all solutions the shortest: A^H = Q R, x = Q R^-H b.
    const Workspace transposed(m.step * m.count * sizeof(T), device);
    conjugate_transpose("lstsq", m, transposed.get<T>());
    const MatrixBatch<T> tall(transposed.get<T>(), m.cols, m.rows, m.count);
    factor_qr(guard, tall, tau.get<T>(), device);
    solve_leading(guard, tall, x, k, adjoint_of<T>);
    const int64_t numel = x.step * x.count;
    launch("lstsq", clear_rows<T>, blocks_for(numel, block_size), block_size, x.data, numel,
           int64_t{x.rows}, int64_t{k}, int64_t{x.rows});
    multiply_q(guard, tall, tau.get<T>(), k, x, true, false, device);
  });
}
KERNEL_FOR(least_squares, least_squares)

}  // namespace
}  // namespace flambeau::cuda
