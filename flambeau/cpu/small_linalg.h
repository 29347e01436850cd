// Factors of matrices so small that a call of LAPACK costs more than the arithmetic. The same
// pivots, results and error codes as getrf, getri, getrs, potrf, sytrf, geqrf and ungqr;
// matrices lie column by column.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
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

// What sytrf makes of the lower triangle: Bunch and Kaufman's choice of a pivot, or of a block of
// two, that keeps elements from growing.
template <class T>
int small_sytrf(int n, T* data, int* pivots) {
  const T bound = (1 + std::sqrt(T(17))) / 8;
  const auto a = [&](int i, int j) -> T& { return data[j * n + i]; };
  int info = 0;
  for (int k = 0, step = 1; k < n; k += step) {
    step = 1;
    int at = k, largest = k;  // the row to exchange with, that of the largest element below
    T below = 0;
    for (int i = k + 1; i < n; ++i) {
      if (std::abs(a(i, k)) > below) below = std::abs(a(i, k)), largest = i;
    }
    const T here = std::abs(a(k, k));
    if (std::max(here, below) == 0 || std::isnan(here)) {
      if (info == 0) info = k + 1;
      pivots[k] = k + 1;
      continue;
    }
    if (here < bound * below) {
      T beside = 0;
      for (int j = k; j < largest; ++j) beside = std::max(beside, std::abs(a(largest, j)));
      for (int i = largest + 1; i < n; ++i) beside = std::max(beside, std::abs(a(i, largest)));
      if (here < bound * below * (below / beside)) {
        at = largest;
        step = std::abs(a(largest, largest)) >= bound * beside ? 1 : 2;
      }
    }
    const int last = k + step - 1;
    if (at != last) {
      for (int i = at + 1; i < n; ++i) std::swap(a(i, last), a(i, at));
      for (int i = last + 1; i < at; ++i) std::swap(a(i, last), a(at, i));
      std::swap(a(last, last), a(at, at));
      if (step == 2) std::swap(a(last, k), a(at, k));
    }
    pivots[k] = pivots[last] = step == 1 ? at + 1 : -(at + 1);
    if (step == 1) {
      const T inverse = 1 / a(k, k);
      for (int j = k + 1; j < n; ++j) {
        const T factor = inverse * a(j, k);
        for (int i = j; i < n; ++i) a(i, j) -= a(i, k) * factor;
      }
      for (int i = k + 1; i < n; ++i) a(i, k) *= inverse;
      continue;
    }
    const T side = a(k + 1, k), one = a(k + 1, k + 1) / side, two = a(k, k) / side;
    const T scale = 1 / (one * two - 1) / side;
    for (int j = k + 2; j < n; ++j) {
      const T first = scale * (one * a(j, k) - a(j, k + 1));
      const T second = scale * (two * a(j, k + 1) - a(j, k));
      for (int i = j; i < n; ++i) a(i, j) -= a(i, k) * first + a(i, k + 1) * second;
      a(j, k) = first, a(j, k + 1) = second;
    }
  }
  return info;
}

// The same for many matrices: each takes a lane of vectors, so that a step is done for all of them
// at once. Element (i, j) of all matrices is the vector at j * n + i.
constexpr int lane_bytes = 16;  // what every x86-64 has instructions for
template <class T>
constexpr int matrix_lanes = lane_bytes / sizeof(T);
template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float type __attribute__((vector_size(lane_bytes)));
};
template <>
struct LanesOf<double> {
  typedef double type __attribute__((vector_size(lane_bytes)));
};
template <class T>
using Lanes = typename LanesOf<T>::type;

// In the lanes whose place is `other`: exchanges two rows of all columns.
template <class T>
void exchange_in_lanes(int n, Lanes<T>* a, int row, int other, const Lanes<T>& place) {
  const auto here = place == static_cast<T>(other);
  for (int j = 0; j < n; ++j) {
    Lanes<T>&x = a[j * n + row], &y = a[j * n + other];
    const Lanes<T> one = x, two = y;
    x = here ? two : one;
    y = here ? one : two;
  }
}

// small_getrf of square matrices in lanes. `pivot_rows` are the rows of the pivots, from zero;
// `beside` (or null) has its rows exchanged alike.
template <class T>
void lanes_getrf(int n, Lanes<T>* a, Lanes<T>* pivot_rows, int* info, Lanes<T>* beside) {
  const Lanes<T> zero = {}, one = zero + T(1);
  std::fill_n(info, matrix_lanes<T>, 0);
  for (int k = 0; k < n; ++k) {
    Lanes<T>* column = a + k * n;
    Lanes<T> best = column[k] < zero ? -column[k] : column[k], place = zero + static_cast<T>(k);
    for (int i = k + 1; i < n; ++i) {
      const Lanes<T> size = column[i] < zero ? -column[i] : column[i];
      const auto larger = size > best;
      best = larger ? size : best;
      place = larger ? zero + static_cast<T>(i) : place;
    }
    pivot_rows[k] = place;
    for (int i = k + 1; i < n; ++i) {
      exchange_in_lanes<T>(n, a, k, i, place);
      if (beside) exchange_in_lanes<T>(n, beside, k, i, place);
    }
    for (int l = 0; l < matrix_lanes<T>; ++l) {
      if (best[l] == T(0) && info[l] == 0) info[l] = k + 1;
    }
    // Below a pivot of zero there are only zeros: nothing is taken away.
    const Lanes<T> scale = one / (column[k] == zero ? one : column[k]);
    for (int i = k + 1; i < n; ++i) column[i] *= scale;
    for (int j = k + 1; j < n; ++j) {
      const Lanes<T> factor = a[j * n + k];
      for (int i = k + 1; i < n; ++i) a[j * n + i] -= column[i] * factor;
    }
  }
}

// x becomes the solution of L U x = b, rows exchanged already.
template <class T>
void lanes_substitute(int n, int columns, const Lanes<T>* lu, Lanes<T>* x) {
  for (int j = 0; j < columns; ++j, x += n) {
    for (int k = 0; k < n; ++k) {
      for (int i = k + 1; i < n; ++i) x[i] -= lu[k * n + i] * x[k];
    }
    for (int k = n - 1; k >= 0; --k) {
      x[k] /= lu[k * n + k];
      for (int i = 0; i < k; ++i) x[i] -= lu[k * n + i] * x[k];
    }
  }
}

// As many matrices as there are lanes, of `size` elements each, into lanes and back.
template <class T>
void into_lanes(const T* data, int size, Lanes<T>* lanes) {
  for (int l = 0; l < matrix_lanes<T>; ++l) {
    T* lane = reinterpret_cast<T*>(lanes) + l;
    for (int e = 0; e < size; ++e) lane[e * matrix_lanes<T>] = *data++;
  }
}
template <class T>
void out_of_lanes(const Lanes<T>* lanes, int size, T* data) {
  for (int l = 0; l < matrix_lanes<T>; ++l) {
    const T* lane = reinterpret_cast<const T*>(lanes) + l;
    for (int e = 0; e < size; ++e) *data++ = lane[e * matrix_lanes<T>];
  }
}

// Of matrices [first, last), if they are small and have real numbers: calls in_lanes(i) for as many
// at a time as there are lanes, i the first of them, and returns the first that is left over.
template <class T, class InLanes>
int64_t take_in_lanes(bool small, int64_t first, int64_t last, const InLanes& in_lanes) {
  if constexpr (std::is_floating_point_v<T>) {
    for (; small && first + matrix_lanes<T> <= last; first += matrix_lanes<T>) in_lanes(first);
  }
  return first;
}

// LU factors of matrices of n x n in place, and pivots and info of each.
template <class T>
void lanes_lu(int n, T* data, int* pivots, int* info) {
  Lanes<T> a[small_size * small_size], pivot_rows[small_size];
  into_lanes<T>(data, n * n, a);
  lanes_getrf<T>(n, a, pivot_rows, info, nullptr);
  out_of_lanes<T>(a, n * n, data);
  for (int l = 0; l < matrix_lanes<T>; ++l) {
    for (int k = 0; k < n; ++k) *pivots++ = static_cast<int>(pivot_rows[k][l]) + 1;
  }
}

// small_getrs for up to small_size columns.
template <class T>
void lanes_getrs(int n, int columns, const T* lu, const int* pivots, T* b) {
  Lanes<T> a[small_size * small_size], x[small_size * small_size];
  T* column = b;
  for (int l = 0; l < matrix_lanes<T>; ++l, pivots += n) {
    for (int j = 0; j < columns; ++j, column += n) {
      for (int k = 0; k < n; ++k) std::swap(column[k], column[pivots[k] - 1]);
    }
  }
  into_lanes<T>(lu, n * n, a);
  into_lanes<T>(b, n * columns, x);
  lanes_substitute<T>(n, columns, a, x);
  out_of_lanes<T>(x, n * columns, b);
}

// Inverses of matrices of n x n in place. The singular ones become anything.
template <class T>
void lanes_inverse(int n, T* data, int* info) {
  Lanes<T> a[small_size * small_size], inverse[small_size * small_size], pivot_rows[small_size];
  into_lanes<T>(data, n * n, a);
  for (int e = 0; e < n * n; ++e) inverse[e] = Lanes<T>{} + T(e % (n + 1) == 0);
  lanes_getrf<T>(n, a, pivot_rows, info, inverse);
  lanes_substitute<T>(n, n, a, inverse);
  out_of_lanes<T>(inverse, n * n, data);
}

// I - tau v v' times columns of m rows, where v has a one in row k and `below` in those beneath it.
template <class T>
void reflect_in_lanes(int m, int k, const Lanes<T>* below, const Lanes<T>& tau, Lanes<T>* columns,
                      int count) {
  for (int j = 0; j < count; ++j, columns += m) {
    Lanes<T> along = columns[k];
    for (int i = k + 1; i < m; ++i) along += below[i] * columns[i];
    along *= tau;
    columns[k] -= along;
    for (int i = k + 1; i < m; ++i) columns[i] -= below[i] * along;
  }
}

// geqrf of m x n matrices in place: R above, the reflections below the diagonal and in tau.
// Lengths are taken of columns divided by their largest element, so that no square overflows.
template <class T>
void lanes_geqrf(int m, int n, T* data, T* taus) {
  const Lanes<T> zero = {}, one = zero + T(1);
  const auto size = [&](const Lanes<T>& x) { return x < zero ? -x : x; };
  Lanes<T> a[small_size * small_size], tau[small_size];
  into_lanes<T>(data, m * n, a);
  const int reflections = std::min(m, n);
  for (int k = 0; k < reflections; ++k) {
    Lanes<T>*column = a + k * m, largest = zero, squares = zero, length;
    for (int i = k + 1; i < m; ++i) {
      largest = size(column[i]) > largest ? size(column[i]) : largest;
    }
    const auto flat = largest == zero;  // nothing below the diagonal: no reflection
    const Lanes<T> first = column[k];
    largest = size(first) > largest ? size(first) : largest;
    const Lanes<T> unit = largest == zero ? one : largest;
    for (int i = k; i < m; ++i) squares += (column[i] / unit) * (column[i] / unit);
    for (int l = 0; l < matrix_lanes<T>; ++l) length[l] = std::sqrt(squares[l]);
    length *= unit;
    const Lanes<T> end = flat ? first : (first < zero ? length : -length);
    tau[k] = flat ? zero : (end - first) / end;
    const Lanes<T> divisor = flat ? one : first - end;
    for (int i = k + 1; i < m; ++i) column[i] /= divisor;
    reflect_in_lanes<T>(m, k, column, tau[k], column + m, n - k - 1);
    column[k] = end;
  }
  out_of_lanes<T>(a, m * n, data);
  out_of_lanes<T>(tau, reflections, taus);
}

// ungqr: the first n columns of the product of `reflections` reflections, in place.
template <class T>
void lanes_ungqr(int m, int n, int reflections, T* data, const T* taus) {
  const Lanes<T> zero = {}, one = zero + T(1);
  Lanes<T> a[small_size * small_size], tau[small_size];
  into_lanes<T>(data, m * n, a);
  into_lanes<T>(taus, reflections, tau);
  for (int j = reflections; j < n; ++j) {
    for (int i = 0; i < m; ++i) a[j * m + i] = i == j ? one : zero;
  }
  for (int k = reflections - 1; k >= 0; --k) {
    Lanes<T>* column = a + k * m;
    reflect_in_lanes<T>(m, k, column, tau[k], column + m, n - k - 1);
    for (int i = 0; i < k; ++i) column[i] = zero;
    column[k] = one - tau[k];
    for (int i = k + 1; i < m; ++i) column[i] *= -tau[k];
  }
  out_of_lanes<T>(a, m * n, data);
}

// Singular values of m x n matrices, the largest first: pairs of columns are rotated until all are
// orthogonal (one-sided Jacobi); then their lengths are the values.
constexpr int small_svd = 8;

// Turns columns p and q, in the lanes where they are not orthogonal; whether there are any.
template <class T>
bool make_orthogonal(int m, Lanes<T>* p, Lanes<T>* q) {
  constexpr T eps = std::numeric_limits<T>::epsilon();
  const Lanes<T> zero = {}, one = zero + T(1);
  Lanes<T> pp = zero, qq = zero, pq = zero;
  for (int i = 0; i < m; ++i) pp += p[i] * p[i], qq += q[i] * q[i], pq += p[i] * q[i];
  // Elements are at most one: what is smaller than eps squared changes no value by eps.
  const auto skew = pq * pq > eps * eps * (pp * qq + eps * eps / 16);
  bool any = false;
  for (int l = 0; l < matrix_lanes<T>; ++l) any |= skew[l] != 0;
  if (!any) return false;
  const Lanes<T> ratio = (qq - pp) / (skew ? pq + pq : one);
  Lanes<T> root = one + ratio * ratio, inverse;
  for (int l = 0; l < matrix_lanes<T>; ++l) root[l] = std::sqrt(root[l]);
  Lanes<T> tangent = ratio < zero ? -one / (root - ratio) : one / (root + ratio);
  tangent = skew ? tangent : zero;
  for (int l = 0; l < matrix_lanes<T>; ++l) inverse[l] = std::sqrt(T(1) + tangent[l] * tangent[l]);
  const Lanes<T> cosine = one / inverse, sine = cosine * tangent;
  for (int i = 0; i < m; ++i) {
    const Lanes<T> x = p[i], y = q[i];
    p[i] = cosine * x - sine * y;
    q[i] = sine * x + cosine * y;
  }
  return true;
}

template <class T>
void lanes_svdvals(int m, int n, const T* data, T* values) {
  constexpr int max_rounds = 40;
  const Lanes<T> zero = {};
  Lanes<T> given[small_svd * small_svd], a[small_svd * small_svd], largest = zero;
  into_lanes<T>(data, m * n, given);
  for (int e = 0; e < m * n; ++e) {
    const Lanes<T> size = given[e] < zero ? -given[e] : given[e];
    largest = size > largest ? size : largest;
  }
  largest = largest == zero ? zero + T(1) : largest;
  const int rows = std::max(m, n), columns = std::min(m, n);
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i)
      a[j * rows + i] = given[m >= n ? j * m + i : i * m + j] / largest;
  }
  bool rotated = true;
  for (int round = 0; rotated && round < max_rounds; ++round) {
    rotated = false;
    for (int p = 0; p < columns; ++p) {
      for (int q = p + 1; q < columns; ++q)
        rotated |= make_orthogonal<T>(rows, a + p * rows, a + q * rows);
    }
  }
  for (int l = 0; l < matrix_lanes<T>; ++l, values += columns) {
    for (int j = 0; j < columns; ++j) {
      T squares = 0;
      for (int i = 0; i < rows; ++i) squares += a[j * rows + i][l] * a[j * rows + i][l];
      values[j] = std::sqrt(squares) * largest[l];
    }
    std::sort(values, values + columns, std::greater<T>());
  }
}

}  // namespace flambeau::cpu
