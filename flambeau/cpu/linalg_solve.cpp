// LU, Cholesky and LDL factors, determinants and solutions of linear systems, through LAPACK.
#include <numeric>

#include "flambeau/cpu/blocked_triangles.h"
#include "flambeau/cpu/lapack.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/cpu/small_linalg.h"

namespace flambeau::cpu {
namespace {

// getrf of large matrices, some columns after the others: what is left to their right is divided
// among the threads, and most of it is a matrix product.
template <class T>
int getrf_by_products(int m, int n, T* a, int ld, int* pivots) {
  constexpr int width = 64;
  constexpr int64_t work_per_thread = 3 << 19;
  const int all = std::min(m, n);
  const auto exchange = [&](T* column, int first, int last) {
    for (int k = first; k < last; ++k) std::swap(column[k], column[pivots[k] - 1]);
  };
  int info = 0;
  for (int k = 0; k < all; k += width) {
    const int some = std::min(width, all - k), below = m - k - some;
    T* corner = a + int64_t{k} * ld + k;
    const int failed = getrf<T>(m - k, some, corner, ld, pivots + k);
    if (failed > 0 && info == 0) info = failed + k;
    for (int i = k; i < k + some; ++i) pivots[i] += k;
    const int64_t grain = work_per_thread / (int64_t{some} * (m - k)) + 1;
    parallel_for(k + some, n, grain, [&](int64_t first, int64_t last) {
      for (int64_t j = first; j < last; ++j) exchange(a + j * ld, k, k + some);
      const Triangle<T> lower{corner, ld, false, false, true};
      T* rows = a + first * ld + k;
      solve_triangle<T>(lower, 0, some, rows, last - first, ld);
      if (below > 0)
        subtract_product<T>(lower, some, 0, below, last - first, some, rows, rows + some, ld);
    });
  }
  parallel_for(0, all, 4 * default_grain / all + 1, [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j)
      exchange(a + j * ld, std::min<int>(all, static_cast<int>(j) / width * width + width), all);
  });
  return info;
}
template <class T>
int large_getrf(int m, int n, T* a, int ld, int* pivots) {
  if constexpr (!is_complex_type<T>) {
    constexpr int large = 192;
    if (std::min(m, n) >= large) return getrf_by_products(m, n, a, ld, pivots);
  }
  return getrf<T>(m, n, a, ld, pivots);
}

void lu_factor(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  dispatch<lapack_dtypes>("lu_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    const int64_t n_pivots = std::min(m.rows, m.cols);
    const bool small = std::max(m.rows, m.cols) <= small_size;
    for_batch(m.count, cube(m.cols), [&](int64_t first, int64_t last) {
      first = take_in_lanes<T>(small && m.rows == m.cols, first, last, [&](auto i) {
        lanes_lu(m.rows, m[i], pivots.data<int>() + i * n_pivots, info.data<int>() + i);
      });
      for (int64_t i = first; i < last; ++i) {
        int* exchanged = pivots.data<int>() + i * n_pivots;
        info.data<int>()[i] = small ? small_getrf(m.rows, m.cols, m[i], m.ld, exchanged)
                                    : large_getrf(m.rows, m.cols, m[i], m.ld, exchanged);
      }
    });
  });
}

void pivot_order(const Tensor& pivots, const Tensor& order) {
  const int64_t n = pivots.size(-1), rows = order.size(-1), count = pivots.numel() / n;
  for (int64_t i = 0; i < count; ++i) {
    int64_t* row = order.data<int64_t>() + i * rows;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t other = pivots.data<int>()[i * n + k] - 1;
      CHECK(other >= 0 && other < rows, RuntimeError,
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?");
      std::swap(row[k], row[other]);
    }
  }
}

// Of fewer right sides, matrix products are no faster than triangular functions.
constexpr int fewest_columns = 4;

// getrs, by matrix products. Columns of b lie n apart.
template <class T>
void solve_with_factors(int n, int columns, const T* lu, const int* pivots, T* b, bool transposed) {
  const auto exchange = [&] {
    for (int c = 0; c < columns; ++c) {
      T* x = b + int64_t{c} * n;
      for (int step = 0; step < n; ++step) {
        const int k = transposed ? n - 1 - step : step;
        std::swap(x[k], x[pivots[k] - 1]);
      }
    }
  };
  const auto solve = [&](bool lower) {
    solve_triangle<T>({lu, n, transposed, lower == transposed, lower}, 0, n, b, columns, n);
  };
  if (!transposed) exchange();
  solve(!transposed);
  solve(transposed);
  if (transposed) exchange();
}

void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, Transposed how) {
  dispatch<lapack_dtypes>("lu_solve_cpu", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> a(lu), x(b);
    // Pivots may come from anybody: LAPACK checks none, so only those in range are followed.
    const int n_pivots = a.rows;
    for (int64_t i = 0; i < x.count * n_pivots; ++i) {
      const int pivot = pivots.data<int>()[i];
      CHECK(1 <= pivot && pivot <= a.rows, RuntimeError,
            "Pivots given to lu_solve must all be {} or equal to {}, but one is {}. Did you "
            "properly pass the result of lu_factor?",
            pivot < 1 ? "greater" : "smaller", pivot < 1 ? "1" : "LU.size(-2)", pivot);
    }
    const bool small = how == Transposed::no && a.rows <= small_size;
    const double work = cube(a.cols) + double(a.cols) * a.cols * x.cols;
    if (small && x.cols <= small_size) {
      return for_batch(x.count, work, [&](int64_t first, int64_t last) {
        const int *exchanged = pivots.data<int>(), n = a.rows;
        first = take_in_lanes<T>(true, first, last, [&](auto i) {
          lanes_getrs(n, x.cols, a[i], exchanged + i * n, x[i]);
        });
        for (int64_t i = first; i < last; ++i)
          small_getrs(n, x.cols, a[i], a.ld, exchanged + i * n, x[i], x.ld);
      });
    }
    for_systems(x.count, x.cols, work, [&](int64_t i, int64_t begin, int columns) {
      const int* exchanged = pivots.data<int>() + i * a.rows;
      T* b = x[i] + begin * x.ld;
      if (small) return small_getrs(a.rows, columns, a[i], a.ld, exchanged, b, x.ld);
      if constexpr (!is_complex_type<T>) {
        if (columns >= fewest_columns)
          return solve_with_factors(a.rows, columns, a[i], exchanged, b, how != Transposed::no);
      }
      getrs<T>(static_cast<char>(how), a.rows, columns, a[i], a.ld, exchanged, b, x.ld);
    });
  });
}

// Whether the pivots exchange rows an odd number of times.
bool is_odd(const int* pivots, int n) {
  int exchanges = 0;
  for (int k = 0; k < n; ++k) exchanges += pivots[k] != k + 1;
  return exchanges % 2 != 0;
}

void determinant(const Tensor& lu, const Tensor& pivots, const Tensor& out) {
  dispatch<lapack_dtypes>("det_cpu", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(lu);
    for (int64_t i = 0; i < m.count; ++i) {
      T product = is_odd(pivots.data<int>() + i * m.rows, m.rows) ? T(-1) : T(1);
      for (int k = 0; k < m.rows; ++k) product *= m[i][int64_t{k} * (m.ld + 1)];
      out.data<T>()[i] = product;
    }
  });
}

void log_determinant(const Tensor& lu, const Tensor& pivots, const Tensor& sign,
                     const Tensor& logabs) {
  dispatch<lapack_dtypes>("slogdet_cpu", lu.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(lu);
    for (int64_t i = 0; i < m.count; ++i) {
      T phase = is_odd(pivots.data<int>() + i * m.rows, m.rows) ? T(-1) : T(1);
      Real<T> sum = 0;
      for (int k = 0; k < m.rows; ++k) {
        const T x = m[i][int64_t{k} * (m.ld + 1)];
        const Real<T> size = std::abs(x);
        phase *= size == 0 ? T(0) : x / size;
        sum += std::log(size);
      }
      sign.data<T>()[i] = phase;
      logabs.data<Real<T>>()[i] = sum;
    }
  });
}

// From so many rows on they are faster than LAPACK's inverses.
constexpr int large_inverse = 32;

// getrf and getri, by matrix products: the columns of U^-1 L^-1, in the order of the pivots.
template <class T>
void invert_by_products(const Matrices<T>& m, int* info) {
  const int64_t n = m.rows;
  std::vector<int> pivots(m.count * n);
  const auto inverses = memory_for<T>(m.count * m.step);
  for_batch(m.count, cube(m.rows), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      info[i] = large_getrf(m.rows, m.cols, m[i], m.ld, pivots.data() + i * n);
  });
  for_systems(m.count, n, cube(m.rows), [&](int64_t i, int64_t begin, int columns) {
    T* out = inverses.get() + i * m.step + begin * n;
    if (info[i] != 0) return;
    invert_lower<T>({m[i], n, false, false, true}, n, begin, columns, out);
    solve_triangle<T>({m[i], n, false, true, false}, 0, n, out, columns, n);
  });
  for_batch(m.count, static_cast<double>(m.step), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      // A singular matrix keeps its factors: what they look like is nobody's promise.
      if (info[i] != 0) continue;
      std::vector<int64_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      for (int64_t k = n - 1; k >= 0; --k) std::swap(order[k], order[pivots[i * n + k] - 1]);
      for (int64_t k = 0; k < n; ++k)
        std::copy_n(inverses.get() + i * m.step + order[k] * n, n, m[i] + k * n);
    }
  });
}

void matrix_inverse(const Tensor& a, const Tensor& info) {
  dispatch<lapack_dtypes>("inverse_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    if constexpr (!is_complex_type<T>) {
      if (m.rows > large_inverse) return invert_by_products(m, info.data<int>());
    }
    for_batch(m.count, 2 * cube(m.rows), [&](int64_t first, int64_t last) {
      if (m.rows <= small_size) {
        first = take_in_lanes<T>(
            true, first, last, [&](auto i) { lanes_inverse(m.rows, m[i], info.data<int>() + i); });
        for (int64_t i = first; i < last; ++i) {
          info.data<int>()[i] = small_inverse(m.rows, m[i], m.ld);
        }
        return;
      }
      std::vector<int> pivots(std::max(m.rows, 1));
      std::vector<T> work = workspace<T>([&](T* space, int length) {
        return getri<T>(m.rows, m[0], m.ld, pivots.data(), space, length);
      });
      for (int64_t i = first; i < last; ++i) {
        int& failed = info.data<int>()[i];
        failed = getrf<T>(m.rows, m.cols, m[i], m.ld, pivots.data());
        // A singular matrix keeps its factors: what they look like is nobody's promise.
        if (failed == 0) {
          failed = getri<T>(m.rows, m[i], m.ld, pivots.data(), work.data(),
                            static_cast<int>(work.size()));
        }
      }
    });
  });
}

template <class T>
void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE how, CBLAS_DIAG diagonal, int m, int n,
          const T* a, int lda, T* b, int ldb) {
  const T one(1);
  if constexpr (std::is_same_v<T, float>) {
    scipy_cblas_strsm(CblasColMajor, side, uplo, how, diagonal, m, n, one, a, lda, b, ldb);
  } else if constexpr (std::is_same_v<T, double>) {
    scipy_cblas_dtrsm(CblasColMajor, side, uplo, how, diagonal, m, n, one, a, lda, b, ldb);
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    scipy_cblas_ctrsm(CblasColMajor, side, uplo, how, diagonal, m, n, &one, a, lda, b, ldb);
  } else {
    scipy_cblas_ztrsm(CblasColMajor, side, uplo, how, diagonal, m, n, &one, a, lda, b, ldb);
  }
}

void triangular_solve(const Tensor& a, const Tensor& b, bool left, bool upper, Transposed how,
                      bool unit_diagonal) {
  const int64_t n = a.size(-1), columns = b.size(-1);
  const bool transposed = how != Transposed::no;
  if (left && n <= small_triangle && !a.is_complex()) {
    return kernels::small_triangular_solve(
        DeviceType::cpu,
        {a.dtype(), upper != transposed, unit_diagonal, n, columns, a.raw(), transposed ? n : 1,
         transposed ? 1 : n, b.raw(), n, b.numel() / (n * columns), n * n, n * columns});
  }
  dispatch<lapack_dtypes>("triangular_solve_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a), x(b);
    const auto transpose = how == Transposed::no    ? CblasNoTrans
                           : how == Transposed::yes ? CblasTrans
                                                    : CblasConjTrans;
    const double work = double(x.rows) * x.cols * m.rows;
    for_systems(x.count, left ? x.cols : x.rows, work, [&](int64_t i, int64_t begin, int size) {
      if constexpr (!is_complex_type<T>) {
        if (left && size >= fewest_columns) {
          const Triangle<T> triangle{m[i], m.ld, transposed, upper != transposed, unit_diagonal};
          return solve_triangle<T>(triangle, 0, n, x[i] + begin * x.ld, size, x.ld);
        }
      }
      trsm<T>(left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, transpose,
              unit_diagonal ? CblasUnit : CblasNonUnit, left ? x.rows : size, left ? size : x.cols,
              m[i], m.ld, x[i] + begin * (left ? x.ld : 1), x.ld);
    });
  });
}

void cholesky(const Tensor& a, const Tensor& info, bool upper) {
  dispatch<lapack_dtypes>("cholesky_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    const bool small = !upper && m.rows <= small_size;
    for_batch(m.count, cube(m.rows) / 3, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        info.data<int>()[i] = small ? small_potrf(m.rows, m[i], m.ld)
                                    : potrf<T>(upper ? 'U' : 'L', m.rows, m[i], m.ld);
      }
    });
  });
}

// The upper triangle of a Hermitian matrix, by squares: a column of large matrices is far from the
// next one.
template <class T>
void mirror(int n, T* a) {
  constexpr int side = 8;
  for (int left = 0; left < n; left += side) {
    for (int top = left; top < n; top += side) {
      for (int j = left; j < std::min(left + side, n); ++j) {
        for (int i = std::max(top, j + 1); i < std::min(top + side, n); ++i) {
          const T below = a[int64_t{j} * n + i];
          if constexpr (is_complex_type<T>) {
            a[int64_t{i} * n + j] = std::conj(below);
          } else {
            a[int64_t{i} * n + j] = below;
          }
        }
      }
    }
  }
}

void cholesky_inverse(const Tensor& a) {
  dispatch<lapack_dtypes>("cholesky_inverse_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    for_batch(m.count, cube(m.rows), [&](int64_t first, int64_t last) {
      if constexpr (is_complex_type<T>) {
        for (int64_t i = first; i < last; ++i) potri<T>('L', m.rows, m[i], m.ld);
      } else {
        const auto inverse = memory_for<T>(m.step);
        for (int64_t i = first; i < last; ++i) {
          invert_lower<T>({m[i], m.ld, false, false, false}, m.rows, 0, m.rows, inverse.get());
          std::copy_n(inverse.get(), m.step, m[i]);
          lauum<T>('L', m.rows, m[i], m.ld);
        }
      }
      for (int64_t i = first; i < last; ++i) mirror(m.rows, m[i]);
    });
  });
}

void ldl_factor(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  dispatch<lapack_dtypes>("ldl_factor_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    const auto factor = [&](int64_t i, T* space, int length) {
      int* exchanged = pivots.data<int>() + i * m.rows;
      if constexpr (is_complex_type<T>) {
        if (hermitian) return hetrf<T>('L', m.rows, m[i], m.ld, exchanged, space, length);
      }
      return sytrf<T>('L', m.rows, m[i], m.ld, exchanged, space, length);
    };
    for_batch(m.count, cube(m.rows), [&](int64_t first, int64_t last) {
      if constexpr (!is_complex_type<T>) {
        for (; m.rows <= small_size && first < last; ++first) {
          int* exchanged = pivots.data<int>() + first * m.rows;
          info.data<int>()[first] = small_sytrf(m.rows, m[first], exchanged);
        }
        if (first == last) return;
      }
      std::vector<T> work =
          workspace<T>([&](T* space, int length) { return factor(first, space, length); });
      for (int64_t i = first; i < last; ++i) {
        info.data<int>()[i] = factor(i, work.data(), static_cast<int>(work.size()));
      }
    });
  });
}

// A row to exchange is a positive number; two negative ones stand for a block of two rows.
void check_ldl_pivots(const int* pivots, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const bool block = pivots[k] < 0;
    const bool fits = block
                          ? k + 1 < n && pivots[k] >= -n && pivots[k + 1] < 0 && pivots[k + 1] >= -n
                          : pivots[k] >= 1 && pivots[k] <= n;
    CHECK(fits, RuntimeError,
          "torch.linalg.ldl_solve: pivots of a matrix of {} rows must be those that "
          "torch.linalg.ldl_factor gives, but got {} at {}",
          n, pivots[k], k);
    if (block) ++k;
  }
}

void ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  dispatch<lapack_dtypes>("ldl_solve_cpu", ld.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> a(ld), x(b);
    for_batch(x.count, double(a.rows) * a.rows * x.cols, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int* exchanged = pivots.data<int>() + i * a.rows;
        check_ldl_pivots(exchanged, a.rows);
        if constexpr (is_complex_type<T>) {
          if (hermitian) {
            hetrs<T>('L', a.rows, x.cols, a[i], a.ld, exchanged, x[i], x.ld);
            continue;
          }
        }
        sytrs<T>('L', a.rows, x.cols, a[i], a.ld, exchanged, x[i], x.ld);
      }
    });
  });
}

const bool filled = [] {
  constexpr DeviceType cpu = DeviceType::cpu;
  kernels::lu_factor.fill(cpu, lu_factor);
  kernels::pivot_order.fill(cpu, pivot_order);
  kernels::lu_solve.fill(cpu, lu_solve);
  kernels::determinant.fill(cpu, determinant);
  kernels::log_determinant.fill(cpu, log_determinant);
  kernels::matrix_inverse.fill(cpu, matrix_inverse);
  kernels::triangular_solve.fill(cpu, triangular_solve);
  kernels::cholesky.fill(cpu, cholesky);
  kernels::cholesky_inverse.fill(cpu, cholesky_inverse);
  kernels::ldl_factor.fill(cpu, ldl_factor);
  kernels::ldl_solve.fill(cpu, ldl_solve);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
