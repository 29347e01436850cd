// What the CPU's matrix products are made of; see gemm.cpp for how one is chosen.
#pragma once

#include "flambeau/kernels/matmul.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau {

namespace kernels {
// Our own loops: small products, matrix times vector, integers. Any strides, any size.
SLOT(gemm_direct, void(const Gemm& product))
}  // namespace kernels

namespace cpu {

// A square of half precision with this side is still widened and multiplied in our own loops.
constexpr int64_t small_side = 32;
// So many rows or columns of half precision are summed by themselves, as a vector is.
constexpr int64_t narrow_columns = 4;

// Element offsets of one index of a batch.
struct BatchOffsets {
  int64_t a = 0, b = 0, out = 0, addend = 0;
};
inline BatchOffsets batch_offsets(const Gemm& p, int64_t index) {
  BatchOffsets at;
  for (size_t d = p.batch.size(); d-- > 0;) {
    // Of the outermost dimension what is left is the index: a division takes as long as all else.
    const int64_t i = d == 0 ? index : index % p.batch[d];
    if (d > 0) index /= p.batch[d];
    at.a += i * p.a.batch[d];
    at.b += i * p.b.batch[d];
    at.out += i * p.out.batch[d];
    if (p.addend.data) at.addend += i * p.addend.batch[d];
  }
  return at;
}

// A matrix as BLAS takes it: unit stride along one dimension, `ld` elements along the other.
template <class T>
struct BlasMatrix {
  T* data;
  bool transposed;
  int64_t ld;
};

// out[m, n] = alpha * a @ b + beta * out, row-major. All threads, unless already in a parallel
// region.
void sgemm(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<const float> a,
           BlasMatrix<const float> b, float beta, float* out, int64_t ld_out);
// bfloat16 with sums in float; the result is of `out_dtype`, float32 or bfloat16.
bool has_bgemm();
bool has_tiles();  // AMX, and leave to use it
void bgemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const BFloat16> a,
           BlasMatrix<const BFloat16> b, void* out, int64_t ld_out, DType out_dtype,
           const BFloat16* bias = nullptr);
// The same for double and complex numbers, through OpenBLAS, split among our threads.
template <class T>
void blas_gemm(int64_t m, int64_t n, int64_t k, T alpha, BlasMatrix<const T> a,
               BlasMatrix<const T> b, T beta, T* out, int64_t ld_out);

}  // namespace cpu
}  // namespace flambeau
