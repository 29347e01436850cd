// Products of doubles and complex numbers through OpenBLAS. It is kept to one thread; large
// products are cut into chunks for ours.
#include <cblas.h>

#include <algorithm>
#include <complex>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"

namespace flambeau::cpu {
namespace {

constexpr int64_t work_per_thread = 64 * 64 * 64;

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, double alpha,
          const double* a, blasint lda, const double* b, blasint ldb, double beta, double* c,
          blasint ldc) {
  scipy_cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
          std::complex<float> alpha, const std::complex<float>* a, blasint lda,
          const std::complex<float>* b, blasint ldb, std::complex<float> beta,
          std::complex<float>* c, blasint ldc) {
  scipy_cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
          std::complex<double> alpha, const std::complex<double>* a, blasint lda,
          const std::complex<double>* b, blasint ldb, std::complex<double> beta,
          std::complex<double>* c, blasint ldc) {
  scipy_cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}

}  // namespace

template <class T>
void blas_gemm(int64_t m, int64_t n, int64_t k, T alpha, BlasMatrix<const T> a,
               BlasMatrix<const T> b, T beta, T* out, int64_t ld_out) {
  static const bool single_threaded = (scipy_openblas_set_num_threads(1), true);
  static_cast<void>(single_threaded);
  CHECK(std::max({m, n, k, a.ld, b.ld, ld_out}) <= INT32_MAX, RuntimeError,
        "mm: a product of {}x{} and {}x{} is too large for BLAS", m, k, k, n);
  const auto ta = a.transposed ? CblasTrans : CblasNoTrans;
  const auto tb = b.transposed ? CblasTrans : CblasNoTrans;
  // Chunks of the longer side, in multiples of what the library's innermost loops work on.
  constexpr int64_t step = 16;
  const bool by_rows = m >= n;
  const int64_t length = by_rows ? m : n, other = by_rows ? n : m;
  const int64_t chunks = (length + step - 1) / step;
  const int64_t grain = work_per_thread / std::max<int64_t>(step * other * k, 1) + 1;
  parallel_for(0, chunks, grain, [&](int64_t first, int64_t last) {
    const int64_t begin = first * step, count = std::min(length, last * step) - begin;
    if (by_rows) {
      const T* rows = a.data + begin * (a.transposed ? 1 : a.ld);
      call(ta, tb, count, n, k, alpha, rows, a.ld, b.data, b.ld, beta, out + begin * ld_out,
           ld_out);
    } else {
      const T* columns = b.data + begin * (b.transposed ? b.ld : 1);
      call(ta, tb, m, count, k, alpha, a.data, a.ld, columns, b.ld, beta, out + begin, ld_out);
    }
  });
}

template void blas_gemm(int64_t, int64_t, int64_t, double, BlasMatrix<const double>,
                        BlasMatrix<const double>, double, double*, int64_t);
template void blas_gemm(int64_t, int64_t, int64_t, std::complex<float>,
                        BlasMatrix<const std::complex<float>>,
                        BlasMatrix<const std::complex<float>>, std::complex<float>,
                        std::complex<float>*, int64_t);
template void blas_gemm(int64_t, int64_t, int64_t, std::complex<double>,
                        BlasMatrix<const std::complex<double>>,
                        BlasMatrix<const std::complex<double>>, std::complex<double>,
                        std::complex<double>*, int64_t);

}  // namespace flambeau::cpu
