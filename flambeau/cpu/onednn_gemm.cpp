// Single-precision products through oneDNN.
#include <dnnl.h>
#include <omp.h>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"

namespace flambeau::cpu {

void sgemm(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<const float> a,
           BlasMatrix<const float> b, float beta, float* out, int64_t ld_out) {
  // OpenMP keeps the number of threads per calling thread; ours is one number for the process.
  omp_set_num_threads(get_num_threads());
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n,
                                          k, alpha, a.data, a.ld, b.data, b.ld, beta, out, ld_out);
  CHECK(status == dnnl_success, RuntimeError,
        "mm: oneDNN refused a product of {}x{} and {}x{} (status {})", m, k, k, n,
        static_cast<int>(status));
}

}  // namespace flambeau::cpu
