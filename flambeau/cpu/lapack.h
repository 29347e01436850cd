// LAPACK by element type: getrf<float>(...) is sgetrf, with the argument order of LAPACK's own
// documentation. Also what every kernel on top of it shares: batches of column-major matrices,
// work space, and the loop over the batch.
#pragma once

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <algorithm>
#include <complex>
#include <memory>
#include <type_traits>
#include <vector>

#include <cblas.h>
#include <lapacke.h>

#include "flambeau/base/parallel.h"
#include "flambeau/kernels/linalg.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {

#define LAPACK_FUNCTION(name, real_name, complex_name)                        \
  template <class T, class... Args>                                           \
  int name(Args... args) {                                                    \
    if constexpr (std::is_same_v<T, float>) {                                 \
      return scipy_LAPACKE_s##real_name##_work(LAPACK_COL_MAJOR, args...);    \
    } else if constexpr (std::is_same_v<T, double>) {                         \
      return scipy_LAPACKE_d##real_name##_work(LAPACK_COL_MAJOR, args...);    \
    } else if constexpr (std::is_same_v<T, std::complex<float>>) {            \
      return scipy_LAPACKE_c##complex_name##_work(LAPACK_COL_MAJOR, args...); \
    } else {                                                                  \
      return scipy_LAPACKE_z##complex_name##_work(LAPACK_COL_MAJOR, args...); \
    }                                                                         \
  }
#define LAPACK_REAL_FUNCTION(name)                                    \
  template <class T, class... Args>                                   \
  int name(Args... args) {                                            \
    if constexpr (std::is_same_v<T, float>) {                         \
      return scipy_LAPACKE_s##name##_work(LAPACK_COL_MAJOR, args...); \
    } else {                                                          \
      return scipy_LAPACKE_d##name##_work(LAPACK_COL_MAJOR, args...); \
    }                                                                 \
  }
#define LAPACK_COMPLEX_FUNCTION(name)                                 \
  template <class T, class... Args>                                   \
  int name(Args... args) {                                            \
    if constexpr (std::is_same_v<T, std::complex<float>>) {           \
      return scipy_LAPACKE_c##name##_work(LAPACK_COL_MAJOR, args...); \
    } else {                                                          \
      return scipy_LAPACKE_z##name##_work(LAPACK_COL_MAJOR, args...); \
    }                                                                 \
  }
LAPACK_FUNCTION(getrf, getrf, getrf)
LAPACK_FUNCTION(getrs, getrs, getrs)
LAPACK_FUNCTION(getri, getri, getri)
LAPACK_FUNCTION(potrf, potrf, potrf)
LAPACK_FUNCTION(potri, potri, potri)
LAPACK_REAL_FUNCTION(lauum)
LAPACK_FUNCTION(sytrf, sytrf, sytrf)
LAPACK_FUNCTION(sytrs, sytrs, sytrs)
LAPACK_COMPLEX_FUNCTION(hetrf)
LAPACK_COMPLEX_FUNCTION(hetrs)
LAPACK_FUNCTION(geqrf, geqrf, geqrf)
LAPACK_FUNCTION(ungqr, orgqr, ungqr)
LAPACK_FUNCTION(unmqr, ormqr, unmqr)
LAPACK_FUNCTION(gesdd, gesdd, gesdd)
LAPACK_REAL_FUNCTION(syevd)
LAPACK_COMPLEX_FUNCTION(heevd)
LAPACK_FUNCTION(geev, geev, geev)
LAPACK_FUNCTION(gels, gels, gels)
LAPACK_FUNCTION(gelsy, gelsy, gelsy)
LAPACK_FUNCTION(gelsd, gelsd, gelsd)
LAPACK_FUNCTION(gelss, gelss, gelss)
#undef LAPACK_FUNCTION
#undef LAPACK_REAL_FUNCTION
#undef LAPACK_COMPLEX_FUNCTION

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

constexpr DTypeSet lapack_dtypes = dtypes::Complex | DType::float32 | DType::float64;

// A batch of matrices as LAPACK takes them.
template <class T>
struct Matrices {
  T* data;
  int64_t count = 1, step = 0;
  int rows = 0, cols = 0, ld = 1;

  explicit Matrices(const Tensor& t) : data(t.data<T>()) {
    const int64_t m = t.size(-2), n = t.size(-1);
    CHECK(std::max(m, n) <= INT32_MAX, RuntimeError,
          "linalg: a matrix of shape {} is too large for LAPACK", t.sizes());
    rows = static_cast<int>(m), cols = static_cast<int>(n);
    ld = std::max(rows, 1);
    step = m * n;
    for (const int64_t size : t.sizes().first(t.dim() - 2)) count *= size;
  }
  [[nodiscard]] T* operator[](int64_t i) const { return data + i * step; }
};

// Work space as long as the function itself asks for when it is called with a length of -1.
template <class T, class Call>
std::vector<T> workspace(const Call& call) {
  T wanted{};
  call(&wanted, -1);
  return std::vector<T>(static_cast<size_t>(std::max(std::real(wanted), Real<T>(1))));
}

// Calls body(first, last) for chunks of the batch, in parallel where the work is worth it. The
// library itself keeps to the calling thread.
template <class Body>
void for_batch(int64_t count, double work_each, const Body& body) {
  static const bool single_threaded = (scipy_openblas_set_num_threads(1), true);
  static_cast<void>(single_threaded);
  constexpr double work_per_thread = 40000;
  const auto grain = static_cast<int64_t>(work_per_thread / std::max(work_each, 50.0));
  parallel_for(0, count, std::max<int64_t>(grain, 1), body);
}

// The same for systems of which each has `length` independent columns (or rows): where there are
// too few systems to keep all threads busy alike, they are cut. Calls body(i, begin, size).
template <class Body>
void for_systems(int64_t count, int64_t length, double work_each, const Body& body) {
  constexpr int64_t step = 16, fewest = 64;
  const int64_t threads = get_num_threads();
  const bool uneven = count % threads != 0 && count < 8 * threads && !in_parallel_region();
  const int64_t parts = uneven ? std::clamp<int64_t>(length / fewest, 1, threads) : 1;
  const int64_t steps = (length + step - 1) / step;
  for_batch(count * parts, work_each / static_cast<double>(parts),
            [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) {
                const int64_t part = i % parts, begin = steps * part / parts * step;
                const int64_t end = std::min(length, steps * (part + 1) / parts * step);
                body(i / parts, begin, static_cast<int>(end - begin));
              }
            });
}

inline double cube(int n) { return static_cast<double>(n) * n * n; }

}  // namespace flambeau::cpu
