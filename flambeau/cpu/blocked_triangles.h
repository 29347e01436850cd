// Large triangular systems of real numbers, halved until our own loops solve them: all the rest is
// matrix products, which OpenBLAS does at twice the speed of its own triangular functions.
#pragma once

#include <cblas.h>

#include <algorithm>

#include "flambeau/cpu/triangular.h"

namespace flambeau::cpu {

// A triangle of a matrix that lies column by column, perhaps transposed.
template <class T>
struct Triangle {
  const T* data;
  int64_t ld;
  bool transposed, upper, unit_diagonal;  // upper: after transposing

  [[nodiscard]] const T* at(int64_t i, int64_t j) const {
    return transposed ? data + i * ld + j : data + j * ld + i;
  }
};

// c -= op(a) b, column by column.
template <class T>
void subtract_product(const Triangle<T>& a, int64_t i, int64_t j, int64_t m, int64_t n, int64_t k,
                      const T* b, T* c, int64_t ld) {
  const auto how = a.transposed ? CblasTrans : CblasNoTrans;
  const auto call = [&](auto gemm) {
    gemm(CblasColMajor, how, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
         static_cast<int>(k), T(-1), a.at(i, j), static_cast<int>(a.ld), b, static_cast<int>(ld),
         T(1), c, static_cast<int>(ld));
  };
  if constexpr (sizeof(T) == 4) {
    call(scipy_cblas_sgemm);
  } else {
    call(scipy_cblas_dgemm);
  }
}

// Rows [first, first + n) of the triangle: b, its rows of `columns` columns, becomes the solution.
template <class T>
void solve_triangle(const Triangle<T>& a, int64_t first, int64_t n, T* b, int64_t columns,
                    int64_t ld) {
  constexpr int64_t leaf = 32;
  if (n <= leaf) {
    const DType dtype = sizeof(T) == 4 ? DType::float32 : DType::float64;
    const int64_t row = a.transposed ? a.ld : 1, column = a.transposed ? 1 : a.ld;
    return kernels::small_triangular_solve(
        DeviceType::cpu,
        {dtype, a.upper, a.unit_diagonal, n, columns, a.at(first, first), row, column, b, ld});
  }
  const int64_t half = (n / leaf + 1) / 2 * leaf, rest = n - half;
  if (a.upper) {
    solve_triangle(a, first + half, rest, b + half, columns, ld);
    subtract_product(a, first, first + half, half, columns, rest, b + half, b, ld);
    solve_triangle(a, first, half, b, columns, ld);
  } else {
    solve_triangle(a, first, half, b, columns, ld);
    subtract_product(a, first + half, first, rest, columns, half, b, b + half, ld);
    solve_triangle(a, first + half, rest, b + half, columns, ld);
  }
}

// Columns [begin, begin + columns) of the inverse of a lower triangle of n rows. What stands above
// its diagonal is zero and not computed.
template <class T>
void invert_lower(const Triangle<T>& a, int64_t n, int64_t begin, int64_t columns, T* out) {
  constexpr int64_t width = 64;
  std::fill_n(out, n * columns, T(0));
  for (int64_t c = 0; c < columns; ++c) out[c * n + begin + c] = T(1);
  for (int64_t c = 0; c < columns; c += width) {
    const int64_t first = begin + c;
    solve_triangle<T>(a, first, n - first, out + c * n + first, std::min(width, columns - c), n);
  }
}

}  // namespace flambeau::cpu
