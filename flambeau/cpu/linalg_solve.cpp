// LU, Cholesky and LDL factors, determinants and solutions of linear systems, through LAPACK.
#include "flambeau/cpu/lapack.h"
#include "flambeau/cpu/small_linalg.h"
#include "flambeau/cpu/triangular.h"

namespace flambeau::cpu {
namespace {

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
                                    : getrf<T>(m.rows, m.cols, m[i], m.ld, exchanged);
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
    for_batch(
        x.count, cube(a.cols) + double(a.cols) * a.cols * x.cols, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            const int* exchanged = pivots.data<int>() + i * a.rows;
            if (small) {
              small_getrs(a.rows, x.cols, a[i], a.ld, exchanged, x[i], x.ld);
              continue;
            }
            getrs<T>(static_cast<char>(how), a.rows, x.cols, a[i], a.ld, exchanged, x[i], x.ld);
          }
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

void matrix_inverse(const Tensor& a, const Tensor& info) {
  dispatch<lapack_dtypes>("inverse_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
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
  if (left && a.size(-1) <= small_triangle && !a.is_complex()) {
    return kernels::small_triangular_solve(DeviceType::cpu, a, b, upper, how, unit_diagonal);
  }
  dispatch<lapack_dtypes>("triangular_solve_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a), x(b);
    const auto transpose = how == Transposed::no    ? CblasNoTrans
                           : how == Transposed::yes ? CblasTrans
                                                    : CblasConjTrans;
    for_batch(x.count, double(x.rows) * x.cols * m.rows, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        trsm<T>(left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, transpose,
                unit_diagonal ? CblasUnit : CblasNonUnit, x.rows, x.cols, m[i], m.ld, x[i], x.ld);
      }
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
  kernels::ldl_factor.fill(cpu, ldl_factor);
  kernels::ldl_solve.fill(cpu, ldl_solve);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
