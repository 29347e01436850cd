// Small triangular systems in our own loops, and large ones made of them and of matrix products.
#pragma once

#include "flambeau/kernels/linalg.h"

namespace flambeau {

namespace cpu {

// Up to so many rows our loops are faster than a call of BLAS for each matrix.
constexpr int64_t small_triangle = 48;

// op(a) x = b for `count` matrices: those of a have n rows, `row` elements apart, and columns
// `column` apart; columns of b lie `ld` apart. b becomes x.
struct Triangles {
  DType dtype;  // float32 or float64
  bool upper, unit_diagonal;
  int64_t n, columns;
  const void* a;
  int64_t row, column;
  void* b;
  int64_t ld;
  int64_t count = 1, a_step = 0, b_step = 0;
};

}  // namespace cpu

namespace kernels {
SLOT(small_triangular_solve, void(const cpu::Triangles& systems))
}  // namespace kernels

}  // namespace flambeau
