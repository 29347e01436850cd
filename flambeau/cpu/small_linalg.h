// Factors of matrices so small that a call of LAPACK costs more than the arithmetic. The same
// pivots, results and error codes as getrf, getri, getrs and potrf; matrices lie column by column.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

namespace flambeau::cpu {

// Up to this many rows and columns.
constexpr int small_size = 12;

// How LAPACK compares pivots: complex numbers by the sum of their parts.
template <class T>
auto pivot_size(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else {
    return std::abs(x.real()) + std::abs(x.imag());
  }
}

// Products without the detour that the language prescribes for infinite complex numbers.
template <class T>
T product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
}

template <class T>
int small_getrf(int m, int n, T* a, int ld, int* pivots) {
  int info = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    T* column = a + int64_t{k} * ld;
    int best = k;
    for (int i = k + 1; i < m; ++i) {
      if (pivot_size(column[i]) > pivot_size(column[best])) best = i;
    }
    pivots[k] = best + 1;
    if (column[best] == T(0)) {
      if (info == 0) info = k + 1;
      continue;
    }
    if (best != k) {
      for (int j = 0; j < n; ++j) std::swap(a[int64_t{j} * ld + k], a[int64_t{j} * ld + best]);
    }
    const T inverse = T(1) / column[k];
    for (int i = k + 1; i < m; ++i) column[i] = product(column[i], inverse);
    for (int j = k + 1; j < n; ++j) {
      T* other = a + int64_t{j} * ld;
      const T factor = other[k];
      for (int i = k + 1; i < m; ++i) other[i] -= product(column[i], factor);
    }
  }
  return info;
}

// b becomes the solution of L U x = b, rows not exchanged.
template <class T>
void small_substitute(int n, const T* lu, int ld, T* b) {
  for (int k = 0; k < n; ++k) {
    const T* column = lu + int64_t{k} * ld;
    for (int i = k + 1; i < n; ++i) b[i] -= product(column[i], b[k]);
  }
  for (int k = n - 1; k >= 0; --k) {
    const T* column = lu + int64_t{k} * ld;
    b[k] /= column[k];
    for (int i = 0; i < k; ++i) b[i] -= product(column[i], b[k]);
  }
}

template <class T>
void small_getrs(int n, int columns, const T* lu, int ld, const int* pivots, T* b, int ldb) {
  for (int j = 0; j < columns; ++j) {
    T* x = b + int64_t{j} * ldb;
    for (int k = 0; k < n; ++k) std::swap(x[k], x[pivots[k] - 1]);
    small_substitute(n, lu, ld, x);
  }
}

// The matrix becomes its inverse; as getrf, says which pivot is zero.
template <class T>
int small_inverse(int n, T* a, int ld) {
  int pivots[small_size];
  const int info = small_getrf(n, n, a, ld, pivots);
  if (info != 0) return info;
  T inverse[small_size * small_size];
  std::fill_n(inverse, n * n, T(0));
  for (int j = 0; j < n; ++j) inverse[j * n + j] = T(1);
  small_getrs(n, n, a, ld, pivots, inverse, n);
  for (int j = 0; j < n; ++j) std::copy_n(inverse + j * n, n, a + int64_t{j} * ld);
  return 0;
}

// The lower factor of a matrix of which the lower triangle is read.
template <class T>
int small_potrf(int n, T* a, int ld) {
  for (int k = 0; k < n; ++k) {
    T* column = a + int64_t{k} * ld;
    const auto square = std::real(column[k]);
    if (!(square > 0)) return k + 1;  // NaN too
    const auto root = std::sqrt(square);
    column[k] = root;
    for (int i = k + 1; i < n; ++i) column[i] /= root;
    for (int j = k + 1; j < n; ++j) {
      T* other = a + int64_t{j} * ld;
      T factor = column[j];
      if constexpr (!std::is_floating_point_v<T>) factor = std::conj(factor);
      for (int i = j; i < n; ++i) other[i] -= product(column[i], factor);
    }
  }
  return 0;
}

}  // namespace flambeau::cpu
