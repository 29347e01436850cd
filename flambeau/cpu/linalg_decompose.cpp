// QR factors, singular values, eigenvalues and least squares, through LAPACK.
#include "flambeau/cpu/lapack.h"
#include "flambeau/cpu/small_linalg.h"

namespace flambeau::cpu {
namespace {

int length_of(const auto& vector) { return static_cast<int>(vector.size()); }

void qr_factor(const Tensor& a, const Tensor& tau) {
  dispatch<lapack_dtypes>("geqrf_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    const int64_t k = std::min(m.rows, m.cols);
    const bool small = std::max(m.rows, m.cols) <= small_size;
    for_batch(m.count, cube(m.cols), [&](int64_t first, int64_t last) {
      T* factors = tau.data<T>();
      first = take_in_lanes<T>(small, first, last,
                               [&](auto i) { lanes_geqrf(m.rows, m.cols, m[i], factors + i * k); });
      if (first == last) return;
      std::vector<T> work = workspace<T>([&](T* space, int length) {
        return geqrf<T>(m.rows, m.cols, m[first], m.ld, factors, space, length);
      });
      for (int64_t i = first; i < last; ++i) {
        geqrf<T>(m.rows, m.cols, m[i], m.ld, factors + i * k, work.data(), length_of(work));
      }
    });
  });
}

void householder_product(const Tensor& a, const Tensor& tau) {
  dispatch<lapack_dtypes>("householder_product_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    const int k = static_cast<int>(tau.size(-1));
    const bool small = m.rows <= small_size;
    for_batch(m.count, cube(m.cols), [&](int64_t first, int64_t last) {
      const T* factors = tau.data<T>();
      first = take_in_lanes<T>(small, first, last, [&](auto i) {
        lanes_ungqr(m.rows, m.cols, k, m[i], factors + i * k);
      });
      if (first == last) return;
      std::vector<T> work = workspace<T>([&](T* space, int length) {
        return ungqr<T>(m.rows, m.cols, k, m[first], m.ld, factors, space, length);
      });
      for (int64_t i = first; i < last; ++i) {
        ungqr<T>(m.rows, m.cols, k, m[i], m.ld, factors + i * k, work.data(), length_of(work));
      }
    });
  });
}

void householder_multiply(const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
                          bool adjoint) {
  dispatch<lapack_dtypes>("ormqr_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> q(a), x(c);
    const int k = static_cast<int>(tau.size(-1));
    const char side = left ? 'L' : 'R', how = !adjoint ? 'N' : is_complex_type<T> ? 'C' : 'T';
    for_batch(x.count, cube(q.rows), [&](int64_t first, int64_t last) {
      const T* factors = tau.data<T>();
      const auto multiply = [&](int64_t i, T* space, int length) {
        return unmqr<T>(side, how, x.rows, x.cols, k, q[i], q.ld, factors + i * k, x[i], x.ld,
                        space, length);
      };
      std::vector<T> work =
          workspace<T>([&](T* space, int length) { return multiply(first, space, length); });
      for (int64_t i = first; i < last; ++i) multiply(i, work.data(), length_of(work));
    });
  });
}

// The real work space of gesdd for complex matrices, as its documentation bounds it.
int64_t svd_real_work(char job, int64_t m, int64_t n) {
  const int64_t small = std::min(m, n), large = std::max(m, n);
  if (job == 'N') return std::max<int64_t>(7 * small, 1);
  return std::max<int64_t>(
      {small * (5 * small + 7), small * (2 * large + 2 * small + 1), int64_t{1}});
}

void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  dispatch<lapack_dtypes>("svd_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = Real<T>;
    const Matrices<T> m(a);
    const bool vectors = u.defined();
    const Matrices<T> left(vectors ? u : a), right(vectors ? vh : a);
    const int k = std::min(m.rows, m.cols);
    const bool all = vectors && (left.cols > k || right.rows > k);
    const char job = !vectors ? 'N' : all ? 'A' : 'S';
    const bool small = !vectors && std::max(m.rows, m.cols) <= small_svd;
    for_batch(m.count, 10 * cube(k), [&](int64_t first, int64_t last) {
      first = take_in_lanes<T>(small, first, last, [&](auto i) {
        lanes_svdvals(m.rows, m.cols, m[i], s.data<R>() + i * k);
      });
      if (first == last) return;
      std::vector<int> indices(8 * std::max(k, 1));
      std::vector<R> real_work(is_complex_type<T> ? svd_real_work(job, m.rows, m.cols) : 1);
      const auto factor = [&](int64_t i, T* space, int length) {
        R* values = s.data<R>() + i * k;
        T* lefts = vectors ? left[i] : nullptr;
        T* rights = vectors ? right[i] : nullptr;
        if constexpr (is_complex_type<T>) {
          return gesdd<T>(job, m.rows, m.cols, m[i], m.ld, values, lefts, left.ld, rights, right.ld,
                          space, length, real_work.data(), indices.data());
        } else {
          return gesdd<T>(job, m.rows, m.cols, m[i], m.ld, values, lefts, left.ld, rights, right.ld,
                          space, length, indices.data());
        }
      };
      std::vector<T> work =
          workspace<T>([&](T* space, int length) { return factor(first, space, length); });
      for (int64_t i = first; i < last; ++i) {
        info.data<int>()[i] = factor(i, work.data(), length_of(work));
      }
    });
  });
}

void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool with_vectors) {
  dispatch<lapack_dtypes>("linalg_eigh_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = Real<T>;
    const Matrices<T> m(a);
    const char job = with_vectors ? 'V' : 'N', part = upper ? 'U' : 'L';
    for_batch(m.count, 5 * cube(m.rows), [&](int64_t first, int64_t last) {
      const auto factor = [&](int64_t i, T* space, int n_space, R* reals, int n_reals, int* ints,
                              int n_ints) {
        R* w = values.data<R>() + i * m.rows;
        if constexpr (is_complex_type<T>) {
          return heevd<T>(job, part, m.rows, m[i], m.ld, w, space, n_space, reals, n_reals, ints,
                          n_ints);
        } else {
          static_cast<void>(reals), static_cast<void>(n_reals);
          return syevd<T>(job, part, m.rows, m[i], m.ld, w, space, n_space, ints, n_ints);
        }
      };
      T wanted{};
      R wanted_reals = 1;
      int wanted_ints = 1;
      factor(first, &wanted, -1, &wanted_reals, -1, &wanted_ints, -1);
      std::vector<T> work(static_cast<size_t>(std::max(std::real(wanted), R(1))));
      std::vector<R> reals(static_cast<size_t>(std::max(wanted_reals, R(1))));
      std::vector<int> ints(std::max(wanted_ints, 1));
      for (int64_t i = first; i < last; ++i) {
        info.data<int>()[i] = factor(i, work.data(), length_of(work), reals.data(),
                                     length_of(reals), ints.data(), length_of(ints));
      }
    });
  });
}

// LAPACK gives the eigenvectors of a real matrix as real columns: one for a real eigenvalue, the
// real and the imaginary part for a conjugate pair.
template <class R>
void unpack_real_eig(int n, const R* real, const R* imag, const R* columns, std::complex<R>* values,
                     std::complex<R>* vectors) {
  for (int j = 0; j < n; ++j) values[j] = {real[j], imag[j]};
  if (!vectors) return;
  for (int j = 0; j < n; ++j) {
    const R* column = columns + int64_t{j} * n;
    std::complex<R>* out = vectors + int64_t{j} * n;
    if (imag[j] == 0 || j + 1 == n) {
      for (int i = 0; i < n; ++i) out[i] = column[i];
    } else {
      for (int i = 0; i < n; ++i) {
        out[i] = {column[i], column[n + i]};
        out[n + i] = {column[i], -column[n + i]};
      }
      ++j;
    }
  }
}

template <class T>
void eig_chunks(const Matrices<T>& m, const Tensor& values, const Tensor& vectors,
                const Tensor& info, int64_t first, int64_t last) {
  using R = Real<T>;
  using C = std::complex<R>;
  const bool with_vectors = vectors.defined();
  const char job = with_vectors ? 'V' : 'N';
  const int n = m.rows;
  const auto vectors_of = [&](int64_t i) {
    return with_vectors ? vectors.data<C>() + i * m.step : nullptr;
  };
  if constexpr (is_complex_type<T>) {
    std::vector<R> reals(2 * std::max(n, 1));
    const auto factor = [&](int64_t i, T* space, int length) {
      return geev<T>('N', job, n, m[i], m.ld, values.data<T>() + i * n, static_cast<T*>(nullptr), 1,
                     vectors_of(i), m.ld, space, length, reals.data());
    };
    std::vector<T> work =
        workspace<T>([&](T* space, int length) { return factor(first, space, length); });
    for (int64_t i = first; i < last; ++i) {
      info.data<int>()[i] = factor(i, work.data(), length_of(work));
    }
  } else {
    std::vector<R> real(std::max(n, 1)), imag(std::max(n, 1));
    std::vector<R> columns(with_vectors ? m.step : 1);
    const auto factor = [&](int64_t i, T* space, int length) {
      return geev<T>('N', job, n, m[i], m.ld, real.data(), imag.data(), static_cast<T*>(nullptr), 1,
                     columns.data(), m.ld, space, length);
    };
    std::vector<T> work =
        workspace<T>([&](T* space, int length) { return factor(first, space, length); });
    for (int64_t i = first; i < last; ++i) {
      info.data<int>()[i] = factor(i, work.data(), length_of(work));
      unpack_real_eig(n, real.data(), imag.data(), columns.data(), values.data<C>() + i * n,
                      vectors_of(i));
    }
  }
}

void eig(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info) {
  dispatch<lapack_dtypes>("linalg_eig_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a);
    for_batch(m.count, 25 * cube(m.rows), [&](int64_t first, int64_t last) {
      eig_chunks<T>(m, values, vectors, info, first, last);
    });
  });
}

// One method of least squares on one problem; what it needs besides the matrices.
template <class T>
struct LeastSquaresCall {
  LeastSquares method;
  Real<T> rcond;
  int m, n, columns, lda, ldb;
  std::vector<int> ints;
  std::vector<Real<T>> reals, spare_values;

  int operator()(T* a, T* b, Real<T>* values, int* rank, T* space, int length) {
    if (!values) values = spare_values.data();
    if (method == LeastSquares::gels) {
      return gels<T>('N', m, n, columns, a, lda, b, ldb, space, length);
    }
    if (method == LeastSquares::gelsy) std::fill(ints.begin(), ints.end(), 0);
    if constexpr (is_complex_type<T>) {
      Real<T>* r = reals.data();
      if (method == LeastSquares::gelsy) {
        return gelsy<T>(m, n, columns, a, lda, b, ldb, ints.data(), rcond, rank, space, length, r);
      }
      if (method == LeastSquares::gelss) {
        return gelss<T>(m, n, columns, a, lda, b, ldb, values, rcond, rank, space, length, r);
      }
      return gelsd<T>(m, n, columns, a, lda, b, ldb, values, rcond, rank, space, length, r,
                      ints.data());
    } else {
      if (method == LeastSquares::gelsy) {
        return gelsy<T>(m, n, columns, a, lda, b, ldb, ints.data(), rcond, rank, space, length);
      }
      if (method == LeastSquares::gelss) {
        return gelss<T>(m, n, columns, a, lda, b, ldb, values, rcond, rank, space, length);
      }
      return gelsd<T>(m, n, columns, a, lda, b, ldb, values, rcond, rank, space, length,
                      ints.data());
    }
  }

  // What gelsd asks for; the others need less.
  void allocate() {
    const int64_t small = std::max(std::min(m, n), 1);
    const int64_t levels = 2 + std::ilogb(static_cast<double>(small));
    constexpr int64_t leaf = 32;  // at least what LAPACK's ilaenv calls SMLSIZ, 25
    ints.resize(std::max<int64_t>(small * (3 * levels + 11), n));
    reals.resize(10 * small + 2 * small * leaf + 8 * small * levels + 3 * leaf * columns +
                 std::max((leaf + 1) * (leaf + 1), small * (1 + columns) + 2 * columns) + 2 * n);
    spare_values.resize(small);
  }
};

void least_squares(const Tensor& a, const Tensor& b, LeastSquares method, double rcond,
                   const Tensor& rank, const Tensor& singular_values, const Tensor& info) {
  dispatch<lapack_dtypes>("linalg_lstsq_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Matrices<T> m(a), x(b);
    const int64_t k = std::min(m.rows, m.cols);
    for_batch(m.count, 10 * cube(m.cols), [&](int64_t first, int64_t last) {
      LeastSquaresCall<T> solve{
          method, static_cast<Real<T>>(rcond), m.rows, m.cols, x.cols, m.ld, x.ld, {}, {}, {}};
      solve.allocate();
      const auto values_of = [&](int64_t i) {
        return singular_values.numel() > 0 ? singular_values.data<Real<T>>() + i * k : nullptr;
      };
      int found = 0;
      std::vector<T> work = workspace<T>([&](T* space, int length) {
        return solve(m[first], x[first], values_of(first), &found, space, length);
      });
      for (int64_t i = first; i < last; ++i) {
        info.data<int>()[i] = solve(m[i], x[i], values_of(i), &found, work.data(), length_of(work));
        if (rank.numel() > 0) rank.data<int64_t>()[i] = found;
      }
    });
  });
}

const bool filled = [] {
  constexpr DeviceType cpu = DeviceType::cpu;
  kernels::qr_factor.fill(cpu, qr_factor);
  kernels::householder_product.fill(cpu, householder_product);
  kernels::householder_multiply.fill(cpu, householder_multiply);
  kernels::svd.fill(cpu, svd);
  kernels::eigh.fill(cpu, eigh);
  kernels::eig.fill(cpu, eig);
  kernels::least_squares.fill(cpu, least_squares);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
