// CPU kernels of softmax and log_softmax and their gradients. Along the last dimension a row stays
// in cache while it is read twice or three times; along another one, a block of columns does.
#include <limits>

#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/softmax.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Loops run over a register, or four, of elements; a rest is copied and filled up to one register.
template <class C>
constexpr int one = 64 / sizeof(C);
template <class C>
constexpr int four = 256 / sizeof(C);

template <int N, class C>
inline C fold_sum(C* lane) {
  if constexpr (N == 1) {
    return lane[0];
  } else {
    for (int j = 0; j < N / 2; ++j) lane[j] += lane[j + N / 2];
    return fold_sum<N / 2>(lane);
  }
}
template <int N, class C>
inline C fold_max(C* lane) {
  if constexpr (N == 1) {
    return lane[0];
  } else {
    for (int j = 0; j < N / 2; ++j) lane[j] = lane[j] > lane[j + N / 2] ? lane[j] : lane[j + N / 2];
    return fold_max<N / 2>(lane);
  }
}

template <int N, class T, class C>
inline void max_block(const T* x, C* lane) {
  for (int j = 0; j < N; ++j) {
    const C v = static_cast<C>(x[j]);
    lane[j] = v > lane[j] ? v : lane[j];
  }
}

// NaN is passed over here: it comes back through the sum of exponentials.
template <class T>
ComputeType<T> row_max(const T* x, int64_t n) {
  using C = ComputeType<T>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  int64_t i = 0;
  C lane[four<C>];
  std::fill_n(lane, four<C>, lowest);
  for (; i + four<C> <= n; i += four<C>) max_block<four<C>>(x + i, lane);
  for (; i + one<C> <= n; i += one<C>) max_block<one<C>>(x + i, lane);
  if (i < n) {
    C rest[one<C>];
    std::fill_n(rest, one<C>, lowest);
    for (int64_t j = 0; i + j < n; ++j) rest[j] = static_cast<C>(x[i + j]);
    max_block<one<C>>(rest, lane);
  }
  return n < four<C> ? fold_max<one<C>>(lane) : fold_max<four<C>>(lane);
}

// Adds exp(x - most) to the lanes, and leaves it in `out` if Keep.
template <int N, bool Keep, class T, class C, class Out>
inline void exp_block(const T* x, C most, Out* out, C* lane) {
  C v[N];
  for (int j = 0; j < N; ++j) v[j] = math::exp(static_cast<C>(x[j]) - most);
  for (int j = 0; j < N; ++j) lane[j] += v[j];
  if constexpr (Keep) {
    for (int j = 0; j < N; ++j) out[j] = static_cast<Out>(v[j]);
  }
}

template <bool Keep, class T>
ComputeType<T> row_exp_sum(const T* x, int64_t n, ComputeType<T> most, T* out) {
  using C = ComputeType<T>;
  C lane[four<C>] = {};
  int64_t i = 0;
  for (; i + four<C> <= n; i += four<C>) exp_block<four<C>, Keep>(x + i, most, out + i, lane);
  for (; i + one<C> <= n; i += one<C>) exp_block<one<C>, Keep>(x + i, most, out + i, lane);
  if (i < n) {
    C rest[one<C>];
    std::fill_n(rest, one<C>, -std::numeric_limits<C>::infinity());
    for (int64_t j = 0; i + j < n; ++j) rest[j] = static_cast<C>(x[i + j]);
    exp_block<one<C>, true>(rest, most, rest, lane);
    if constexpr (Keep) {
      for (int64_t j = 0; i + j < n; ++j) out[i + j] = static_cast<T>(rest[j]);
    }
  }
  return n < four<C> ? fold_sum<one<C>>(lane) : fold_sum<four<C>>(lane);
}

// A row that fits a register is loaded once.
template <class T, bool Log>
void softmax_short_row(const T* x, T* out, int64_t n) {
  using C = ComputeType<T>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  C row[one<C>], v[one<C>], lane[one<C>];
  std::fill_n(row, one<C>, lowest);
  for (int64_t j = 0; j < n; ++j) row[j] = static_cast<C>(x[j]);
  C most = row[0];
  for (int64_t j = 1; j < n; ++j) most = row[j] > most ? row[j] : most;
  for (int j = 0; j < one<C>; ++j) lane[j] = v[j] = math::exp(row[j] - most);
  const C total = fold_sum<one<C>>(lane);
  if constexpr (Log) {
    const C shift = std::log(total);
    for (int64_t j = 0; j < n; ++j) out[j] = static_cast<T>(row[j] - most - shift);
  } else {
    const C scale = C(1) / total;
    for (int64_t j = 0; j < n; ++j) out[j] = static_cast<T>(v[j] * scale);
  }
}

template <class T, bool Log>
void softmax_row(const T* x, T* out, int64_t n) {
  using C = ComputeType<T>;
  if (n <= one<C>) return softmax_short_row<T, Log>(x, out, n);
  const C most = row_max(x, n);
  // Half precision would lose digits by storing exponentials before they are scaled.
  constexpr bool keep = !Log && !is_reduced_type<T>;
  const C total = row_exp_sum<keep>(x, n, most, out);
  if constexpr (Log) {
    const C log_total = std::log(total);
    IVDEP for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(static_cast<C>(x[i]) - most - log_total);
    }
  } else if constexpr (keep) {
    const C scale = C(1) / total;
    IVDEP for (int64_t i = 0; i < n; ++i) out[i] *= scale;
  } else {
    const C scale = C(1) / total;
    IVDEP for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(math::exp(static_cast<C>(x[i]) - most) * scale);
    }
  }
}

// A block of columns, rows `stride` apart.
template <class T, bool Log>
void softmax_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block];
  for (int64_t j = 0; j < n; ++j) most[j] = -std::numeric_limits<C>::infinity(), total[j] = 0;
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * stride;
    IVDEP for (int64_t j = 0; j < n; ++j) {
      most[j] = math::maximum(most[j], static_cast<C>(row[j]));
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * stride;
    IVDEP for (int64_t j = 0; j < n; ++j) {
      total[j] += math::exp(static_cast<C>(row[j]) - most[j]);
    }
  }
  for (int64_t j = 0; j < n; ++j) total[j] = Log ? std::log(total[j]) : C(1) / total[j];
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * stride;
    T* to = out + i * stride;
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const C v = static_cast<C>(row[j]) - most[j];
      to[j] = static_cast<T>(Log ? v - total[j] : math::exp(v) * total[j]);
    }
  }
}

template <bool Log>
void softmax_kernel(const Tensor& input, const Tensor& out, int64_t dim) {
  const SliceShape shape(input, dim);
  dispatch<dtypes::Floating>("softmax_lastdim_kernel_impl", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    for_each_slice(
        shape, 8, [&](int64_t at) { softmax_row<T, Log>(x + at, y + at, shape.size); },
        [&](int64_t at, int64_t n) {
          softmax_columns<T, Log>(x + at, y + at, shape.size, shape.inner, n);
        });
  });
}
KERNEL_FOR(softmax, softmax_kernel<false>)
KERNEL_FOR(log_softmax, softmax_kernel<true>)

// softmax: y * (g - sum(g * y)); log_softmax: g - exp(y) * sum(g).
template <bool Log, class C>
inline C share(C g, C y) {
  return Log ? g : g * y;
}
template <bool Log, class C>
inline C gradient(C g, C y, C total) {
  return Log ? g - math::exp(y) * total : y * (g - total);
}

template <class T, bool Log>
void backward_row(const T* g, const T* y, T* out, int64_t n) {
  using C = ComputeType<T>;
  C lane[four<C>] = {};
  int64_t i = 0;
  for (; i + four<C> <= n; i += four<C>) {
    for (int j = 0; j < four<C>; ++j) {
      lane[j] += share<Log>(static_cast<C>(g[i + j]), static_cast<C>(y[i + j]));
    }
  }
  C total = 0;
  for (; i < n; ++i) total += share<Log>(static_cast<C>(g[i]), static_cast<C>(y[i]));
  if (n >= four<C>) total += fold_sum<four<C>>(lane);
  IVDEP for (int64_t k = 0; k < n; ++k) {
    out[k] = static_cast<T>(gradient<Log>(static_cast<C>(g[k]), static_cast<C>(y[k]), total));
  }
}

template <class T, bool Log>
void backward_columns(const T* g, const T* y, T* out, int64_t size, int64_t stride, int64_t n) {
  using C = ComputeType<T>;
  C total[column_block] = {};
  for (int64_t i = 0; i < size; ++i) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      total[j] += share<Log>(static_cast<C>(g[i * stride + j]), static_cast<C>(y[i * stride + j]));
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const int64_t at = i * stride + j;
      out[at] =
          static_cast<T>(gradient<Log>(static_cast<C>(g[at]), static_cast<C>(y[at]), total[j]));
    }
  }
}

template <bool Log>
void softmax_backward_kernel(const Tensor& grad, const Tensor& output, const Tensor& out,
                             int64_t dim) {
  const SliceShape shape(output, dim);
  dispatch<dtypes::Floating>("softmax_backward", output.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *g = grad.data<T>(), *y = output.data<T>();
    T* to = out.data<T>();
    for_each_slice(
        shape, 8, [&](int64_t at) { backward_row<T, Log>(g + at, y + at, to + at, shape.size); },
        [&](int64_t at, int64_t n) {
          backward_columns<T, Log>(g + at, y + at, to + at, shape.size, shape.inner, n);
        });
  });
}
KERNEL_FOR(softmax_backward, softmax_backward_kernel<false>)
KERNEL_FOR(log_softmax_backward, softmax_backward_kernel<true>)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
