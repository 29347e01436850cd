// Small triangular systems in our own loops; see linalg_solve.cpp for when.
#pragma once

#include "flambeau/kernels/linalg.h"

namespace flambeau {

namespace cpu {
// Up to so many rows they are faster than a call of BLAS for each matrix.
constexpr int64_t small_triangle = 48;
}  // namespace cpu

namespace kernels {
// b becomes the solution of op(a) x = b; float32 or float64, matrices as in kernels/linalg.h.
SLOT(small_triangular_solve,
     void(const Tensor& a, const Tensor& b, bool upper, Transposed how, bool unit_diagonal))
}  // namespace kernels

}  // namespace flambeau
