// CPU kernels of softmax and log_softmax and their gradients. Along the last dimension a row stays
// in cache while it is read twice or three times; along another one, a block of columns does.
#include <limits>

#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/softmax.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class C>
constexpr int chunk = 64 / sizeof(C);  // a register of elements

// Calls body(values, i, n) on a row in chunks of constant length; the last is filled up with `rest`.
template <class T, class Body>
inline void for_each_chunk(const T* x, int64_t n, ComputeType<T> rest, const Body& body) {
  using C = ComputeType<T>;
  constexpr int width = chunk<C>;
  int64_t i = 0;
  C values[width];
  for (; i + width <= n; i += width) {
    for (int j = 0; j < width; ++j) values[j] = static_cast<C>(x[i + j]);
    body(values, i, width);
  }
  if (i == n) return;
  for (int j = 0; j < width; ++j) values[j] = rest;
  for (int64_t j = 0; i + j < n; ++j) values[j] = static_cast<C>(x[i + j]);
  body(values, i, static_cast<int>(n - i));
}

template <class C>
inline C fold_max(const C* lane) {
  C most = lane[0];
  for (int j = 1; j < chunk<C>; ++j) most = math::maximum(most, lane[j]);
  return most;
}
template <class C>
inline C fold_sum(C* lane) {
  for (int w = chunk<C> / 2; w > 0; w /= 2) {
    for (int j = 0; j < w; ++j) lane[j] += lane[j + w];
  }
  return lane[0];
}

template <class T>
ComputeType<T> row_max(const T* x, int64_t n) {
  using C = ComputeType<T>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  C lane[chunk<C>];
  std::fill_n(lane, chunk<C>, lowest);
  for_each_chunk(x, n, lowest, [&](const C* v, int64_t, int) {
    for (int j = 0; j < chunk<C>; ++j) lane[j] = math::maximum(lane[j], v[j]);
  });
  return fold_max(lane);
}

template <class T>
inline void store_chunk(T* out, const ComputeType<T>* values, int n) {
  if (n == chunk<ComputeType<T>>) {
    for (int j = 0; j < chunk<ComputeType<T>>; ++j) out[j] = static_cast<T>(values[j]);
  } else {
    for (int j = 0; j < n; ++j) out[j] = static_cast<T>(values[j]);
  }
}

// The sum of exp(x - most); where `out` is given the exponentials are left there.
template <class T>
ComputeType<T> row_exp_sum(const T* x, int64_t n, ComputeType<T> most, T* out) {
  using C = ComputeType<T>;
  C lane[chunk<C>] = {};
  for_each_chunk(x, n, -std::numeric_limits<C>::infinity(), [&](C* v, int64_t i, int m) {
    for (int j = 0; j < chunk<C>; ++j) v[j] = math::exp(v[j] - most);
    for (int j = 0; j < chunk<C>; ++j) lane[j] += v[j];
    if (out) store_chunk(out + i, v, m);
  });
  return fold_sum(lane);
}

template <class T, bool Log>
void softmax_row(const T* x, T* out, int64_t n) {
  using C = ComputeType<T>;
  const C most = row_max(x, n);
  // Half precision would lose digits by storing exponentials before they are scaled.
  constexpr bool keep = !Log && !is_reduced_type<T>;
  const C total = row_exp_sum(x, n, most, keep ? out : nullptr);
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
  constexpr int width = 4 * chunk<C>;
  C lane[width] = {};
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    for (int j = 0; j < width; ++j) {
      lane[j] += share<Log>(static_cast<C>(g[i + j]), static_cast<C>(y[i + j]));
    }
  }
  C total = 0;
  for (; i < n; ++i) total += share<Log>(static_cast<C>(g[i]), static_cast<C>(y[i]));
  for (int j = 0; j < chunk<C>; ++j) {
    lane[j] += lane[j + chunk<C>] + lane[j + 2 * chunk<C>] + lane[j + 3 * chunk<C>];
  }
  total += fold_sum(lane);
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
      out[at] = static_cast<T>(gradient<Log>(static_cast<C>(g[at]), static_cast<C>(y[at]), total[j]));
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
