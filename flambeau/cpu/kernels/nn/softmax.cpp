// CPU kernels of softmax and log_softmax and their gradients. Along the last dimension a row stays
// in cache while it is read twice or three times; along another one, a block of columns does.
#include <limits>
#include <memory>

#include "flambeau/cpu/kernels/nn/exp_rows.h"
#include "flambeau/cpu/kernels/nn/tall_columns.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/softmax.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// With `beyond_cache` nobody will read the result soon.
template <bool Log, class C>
void softmax_row(const C* x, C* out, int64_t n, bool beyond_cache) {
  const C most = row_max(x, n);
  if constexpr (std::is_same_v<C, float>) {
    constexpr int64_t row_in_cache = 4096;
    float scratch[row_in_cache];
    beyond_cache &= n <= row_in_cache;
    float* powers = beyond_cache ? scratch : out;
    const float total = row_exp_sum<!Log>(x, n, most, powers);
    if constexpr (Log) {
      const float log_total = std::log(total);
      transform_row(x, out, n, beyond_cache,
                    [=](Floats v, int64_t) { return v - most - log_total; });
    } else {
      const float scale = 1.0f / total;
      transform_row(powers, out, n, beyond_cache, [=](Floats v, int64_t) { return v * scale; });
    }
  } else {
    const C total = row_exp_sum<!Log>(x, n, most, out);
    const C last = Log ? std::log(total) : C(1) / total;
    IVDEP for (int64_t i = 0; i < n; ++i) out[i] = Log ? x[i] - most - last : out[i] * last;
  }
}

// As many rows of at most `short_row` elements as a register has lanes, one in each; or, unless
// Full, only the first `some` of them.
constexpr int64_t short_row = 20;
template <bool Log, bool Full, class T>
void softmax_short_rows(const T* x, T* out, int64_t n, int64_t some) {
  using C = ComputeType<T>;
  constexpr int rows = one<C>;
  const int64_t taken = Full ? rows : some;
  C v[short_row][rows], most[rows], total[rows] = {};
  std::fill_n(most, rows, -std::numeric_limits<C>::infinity());
  for (int64_t k = 0; k < n; ++k) {
    if constexpr (!Full) std::fill_n(v[k], rows, C(0));
#pragma GCC unroll 16
    for (int64_t j = 0; j < taken; ++j) v[k][j] = static_cast<C>(x[j * n + k]);
    for (int j = 0; j < rows; ++j) most[j] = v[k][j] > most[j] ? v[k][j] : most[j];
  }
  for (int64_t k = 0; k < n; ++k) {
    C e[rows];
    for (int j = 0; j < rows; ++j) v[k][j] -= most[j];
    for (int j = 0; j < rows; ++j) e[j] = exp_below(v[k][j]);
    for (int j = 0; j < rows; ++j) total[j] += e[j];
    if constexpr (!Log) copy_lanes<rows>(e, v[k]);
  }
  for (int j = 0; j < rows; ++j) total[j] = Log ? std::log(total[j]) : C(1) / total[j];
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < rows; ++j) v[k][j] = Log ? v[k][j] - total[j] : v[k][j] * total[j];
#pragma GCC unroll 16
    for (int64_t j = 0; j < taken; ++j) out[j * n + k] = static_cast<T>(v[k][j]);
  }
}

template <bool Log, class C>
void softmax_row_group(const C* x, C* out, int64_t n, int64_t rows) {
  constexpr int width = one<C>;
  C most[width][width], total[width][width];
  exp_sums_of_rows<!Log>(x, out, n, rows, most, total);
  C last[width];
  for (int j = 0; j < width; ++j) last[j] = Log ? math::log(total[0][j]) : C(1) / total[0][j];
  for (int64_t row = 0; row < rows; ++row) {
    const C *from = x + row * n, top = most[0][row], by = last[row];
    C* to = out + row * n;
    IVDEP for (int64_t i = 0; i < n; ++i) to[i] = Log ? from[i] - top - by : to[i] * by;
  }
}

template <bool Log, class T>
void softmax_middle_rows(const T* x, T* out, int64_t rows, int64_t n) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < rows; i += one<C>) {
    const int64_t some = std::min<int64_t>(one<C>, rows - i);
    if constexpr (is_reduced_type<T>) {
      C scratch[one<C> * middle_row];
      load_row(x + i * n, scratch, some * n);
      softmax_row_group<Log>(scratch, scratch, n, some);
      store_row(scratch, out + i * n, some * n);
    } else {
      softmax_row_group<Log>(x + i * n, out + i * n, n, some);
    }
  }
}

// The logarithm of a share, less than that of one also where a sum was rounded down.
template <class Sum>
inline Floats log_share(Floats x, Sum most, Sum rest) {
  return smaller_or_second(all_lanes(0), x - most - rest);
}
inline double log_share(double x, double most, double rest) { return x - most - rest; }

template <bool Log, class T>
void softmax_converted(const T* x, T* out, int64_t n, float* scratch) {
  load_row(x, scratch, n);
  softmax_row<Log>(scratch, scratch, n, false);
  store_row(scratch, out, n);
}

// Of numbers of 16 bits: see Note [Powers in one pass].
template <class T>
void softmax_long_rows(const T* x, T* out, int64_t rows, int64_t n, float* scratch,
                       bool beyond_cache) {
  const SubnormalsFlushed flushed;
  float base[float_lanes];
  for (int64_t i = 0; i < rows; ++i, x += n, out += n) {
    const int64_t next = i % float_lanes;
    if (next == 0) bases_of_rows(x, n, std::min<int64_t>(float_lanes, rows - i), base);
    float totals[float_lanes];
    store_floats(sum_powers<true>(x, n, base[next], scratch), totals);
    float total = fold_sum<float_lanes>(totals);
    if (!is_usual_sum(total, n)) total = sum_below_largest<true>(x, n, base[next], scratch);
    if (!is_usual_sum(total, n)) {
      softmax_converted<false>(x, out, n, scratch);
      continue;
    }
    transform_by_two(scratch, out, n, beyond_cache,
                     [scale = 1.0f / total](Floats* values, int64_t) {
#pragma GCC unroll 2
                       for (int k = 0; k < 2; ++k) values[k] *= scale;
                     });
  }
}
template <class T>
void log_softmax_long_rows(const T* x, T* out, int64_t rows, int64_t n, float* scratch,
                           bool beyond_cache) {
  logs_of_long_rows(x, n, rows, [&](int64_t row, double log) {
    const T* from = x + row * n;
    T* to = out + row * n;
    if (log != log) return softmax_converted<true>(from, to, n, scratch);
    const auto most = static_cast<float>(log), rest = static_cast<float>(log - most);
    transform_by_two(from, to, n, beyond_cache, [=](Floats* values, int64_t) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) values[k] = log_share(values[k], most, rest);
    });
  });
}

template <bool Log, class T>
void softmax_rows(const T* x, T* out, int64_t rows, int64_t n, bool beyond_cache) {
  using C = ComputeType<T>;
  int64_t i = 0;
  if (n > short_row && n <= middle_row && rows > 1) {
    return softmax_middle_rows<Log>(x, out, rows, n);
  }
  if (n <= short_row) {
    for (; i + one<C> <= rows; i += one<C>) {
      softmax_short_rows<Log, true>(x + i * n, out + i * n, n, one<C>);
    }
    if (i + 1 < rows) {
      return softmax_short_rows<Log, false>(x + i * n, out + i * n, n, rows - i);
    }
  }
  if constexpr (is_reduced_type<T>) {
    const std::unique_ptr<C[]> scratch(i < rows ? new C[n + 2 * two_registers] : nullptr);
    if (n > middle_row) {
      const auto each = Log ? log_softmax_long_rows<T> : softmax_long_rows<T>;
      each(x, out, rows, n, scratch.get(), beyond_cache);
    } else {
      for (; i < rows; ++i) softmax_converted<Log>(x + i * n, out + i * n, n, scratch.get());
    }
    if (beyond_cache) _mm_sfence();
  } else {
    for (; i < rows; ++i) softmax_row<Log>(x + i * n, out + i * n, n, beyond_cache);
    if (beyond_cache) _mm_sfence();
  }
}

// Of a block of columns, rows `stride` apart: the largest elements, and the sums of exponentials,
// which are left in `kept` unless that is null; if it lies beside the tensors, so are the elements
// in between.
template <class T>
[[gnu::noinline]] void exp_sum_columns(const T* x, int64_t size, int64_t stride, int64_t n,
                                       ComputeType<T>* most, ComputeType<T>* total,
                                       ComputeType<T>* kept = nullptr, int64_t kept_stride = 0,
                                       bool beside = false) {
  using C = ComputeType<T>;
  C scratch[column_block];
  for (int64_t j = 0; j < n; ++j) most[j] = -std::numeric_limits<C>::infinity(), total[j] = 0;
  const auto kept_row = [&](int64_t i) { return kept ? kept + i * kept_stride : scratch; };
  // Short chunks of rows that lie far apart, which the processor does not foresee.
  const auto prefetch_row = [&](int64_t i) {
    constexpr int64_t line = 64 / sizeof(T);
    for (int64_t j = 0; j < n; j += line) prefetch(x + i * stride + j);
  };
  constexpr int64_t ahead = 8;
  for (int64_t i = 0; i < size; ++i) {
    if (i + ahead < size) prefetch_row(i + ahead);
    const C* row = computed(x + i * stride, kept_row(i), n);
    if (beside && !is_reduced_type<T>) {
      C* to = kept_row(i);
      IVDEP for (int64_t j = 0; j < n; ++j) to[j] = row[j];
    }
    IVDEP for (int64_t j = 0; j < n; ++j) most[j] = row[j] > most[j] ? row[j] : most[j];
  }
  for (int64_t i = 0; i < size; ++i) {
    C* to = kept_row(i);
    const C* row = beside ? to : computed(x + i * stride, scratch, n);
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const C power = exp_below(row[j] - most[j]);
      to[j] = power;
      total[j] += power;
    }
  }
}

// Elements of a block of columns that stay in the cache in float.
constexpr int64_t kept_elements = 262144;

// Where the exponentials of a block of columns are kept between the passes: beside the output, if
// that is of another type or too large for the cache, while they fit the cache themselves; else in
// the output.
template <class T>
class KeptExponentials {
 public:
  using C = ComputeType<T>;
  KeptExponentials(T* out, int64_t size, int64_t stride, int64_t n, bool beyond_cache) {
    if ((is_reduced_type<T> || beyond_cache) && size * n <= kept_elements) {
      scratch_.reset(new C[size * n]);
      data = scratch_.get();
      row_stride = n;
      beside = true;
    } else if constexpr (!is_reduced_type<T>) {
      data = out;
      row_stride = stride;
    }
  }
  C* data = nullptr;  // null: to be computed again
  int64_t row_stride = 0;
  bool beside = false;

 private:
  std::unique_ptr<C[]> scratch_;
};

template <class T>
void log_softmax_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n, bool) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block], scratch[column_block], result[column_block];
  exp_sum_columns(x, size, stride, n, most, total);
  for (int64_t j = 0; j < n; ++j) total[j] = math::log(total[j]);
  for (int64_t i = 0; i < size; ++i) {
    const C* row = computed(x + i * stride, scratch, n);
    IVDEP for (int64_t j = 0; j < n; ++j) result[j] = row[j] - most[j] - total[j];
    store_row(result, out + i * stride, n);
  }
}

template <class T>
void softmax_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n,
                     bool beyond_cache) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block], scratch[column_block], result[column_block];
  T stored[column_block];
  const KeptExponentials<T> kept(out, size, stride, n, beyond_cache);
  exp_sum_columns(x, size, stride, n, most, total, kept.data, kept.row_stride, kept.beside);
  for (int64_t j = 0; j < n; ++j) total[j] = C(1) / total[j];
  for (int64_t i = 0; i < size; ++i) {
    if (kept.data) {
      const C* row = kept.data + i * kept.row_stride;
      IVDEP for (int64_t j = 0; j < n; ++j) result[j] = row[j] * total[j];
    } else {
      const C* row = computed(x + i * stride, scratch, n);
      IVDEP for (int64_t j = 0; j < n; ++j) result[j] = exp_below(row[j] - most[j]) * total[j];
    }
    T* to = out + i * stride;
    if (beyond_cache) {
      store_row(result, stored, n);
      copy_non_temporal(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(stored),
                        n * static_cast<int64_t>(sizeof(T)));
    } else {
      store_row(result, to, n);
    }
  }
  if (beyond_cache) _mm_sfence();
}

// exp(distance) for the results of softmax.
template <class T, class V>
inline V power_of(V distance) {
  if constexpr (is_reduced_type<T>) {
    return exp2_flushed(distance * log2_e);
  } else {
    return exp_below(distance);
  }
}

template <bool Log, class T>
void softmax_tall(const SliceShape& shape, const T* x, T* out, bool beyond_cache) {
  using C = ComputeType<T>;
  TallColumns<T> columns(shape, x);
  const int64_t n = columns.padded();
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    C *most = columns.most(outer), *total = columns.total(outer);
    IVDEP for (int64_t j = 0; j < n; ++j) {
      if constexpr (!Log) {
        total[j] = C(1) / total[j];
      } else if constexpr (std::is_same_v<C, double>) {
        total[j] = math::log(total[j]);
      } else {
        // Together, since neither is near zero where most is not the largest element; unless that
        // is so large that doubles would lose the other.
        const double rest = math::log(static_cast<double>(total[j])), log = most[j] + rest;
        const bool together = __builtin_fabsf(most[j]) < 0x1p20f;
        most[j] = together ? static_cast<float>(log) : most[j];
        total[j] = static_cast<float>(together ? log - most[j] : rest);
      }
    }
  }
  columns.write(out, beyond_cache, [](auto value, auto most, auto total) {
    if constexpr (Log) {
      return log_share(value, most, total);
    } else {
      return power_of<T>(value - most) * total;
    }
  });
}

// An infinite maximum is the result itself, unless there is a NaN beside it.
template <class T, class C>
C finish_logsumexp(C most, C total, const T* x, int64_t size, int64_t stride) {
  if (!std::isinf(most)) return std::log(total) + most;
  for (int64_t i = 0; i < size; ++i) {
    const C v = static_cast<C>(x[i * stride]);
    if (v != v) return v;
  }
  return most;
}

template <class T>
void logsumexp_rows(const T* x, T* out, int64_t rows, int64_t n) {
  using C = ComputeType<T>;
  const std::unique_ptr<C[]> scratch(is_reduced_type<T> ? new C[n] : nullptr);
  const auto ask_all = [&](int64_t i) {
    const C* row = computed(x + i * n, scratch.get(), n);
    const C most = row_max(row, n);
    const C total = row_exp_sum<false>(row, n, most, static_cast<C*>(nullptr));
    out[i] = static_cast<T>(finish_logsumexp(most, total, row, n, 1));
  };
  if constexpr (std::is_same_v<C, float>) {
    if (n > middle_row) {
      return logs_of_long_rows(x, n, rows, [&](int64_t i, double log) {
        if (log != log) return ask_all(i);
        out[i] = static_cast<T>(static_cast<float>(log));
      });
    }
  }
  for (int64_t i = 0; i < rows; ++i) ask_all(i);
}

template <class T>
void logsumexp_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block];
  exp_sum_columns(x, size, stride, n, most, total);
  for (int64_t j = 0; j < n; ++j) {
    out[j] = static_cast<T>(finish_logsumexp(most[j], total[j], x + j, size, stride));
  }
}

template <class T>
void logsumexp_tall(const SliceShape& shape, const T* x, T* out) {
  using C = ComputeType<T>;
  TallColumns<T> columns(shape, x);
  const int64_t n = columns.padded();
  for (int64_t outer = 0; outer < shape.outer; ++outer, out += shape.inner) {
    const T* slice = x + outer * shape.size * shape.inner;
    const C* most = columns.most(outer);
    C* total = columns.total(outer);
    IVDEP for (int64_t j = 0; j < n; ++j) {
      total[j] = static_cast<C>(most[j] + math::log(static_cast<double>(total[j])));
    }
    for (int64_t j = 0; j < shape.inner; ++j) {
      const int64_t k = columns.place(j);
      const bool infinite = std::isinf(most[k]);
      out[j] = static_cast<T>(
          infinite ? finish_logsumexp(most[k], C(0), slice + j, shape.size, shape.inner)
                   : total[k]);
    }
  }
}

void logsumexp_kernel(const Tensor& input, const Tensor& out, int64_t dim) {
  const SliceShape shape(input, dim);
  dispatch<dtypes::Floating>("logsumexp", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    if (TallColumns<T>::are_worth_it(shape)) return logsumexp_tall(shape, x, y);
    for_each_slice(
        shape, 8,
        [&](int64_t at, int64_t rows) {
          logsumexp_rows(x + at, y + at / shape.size, rows, shape.size);
        },
        [&](int64_t at, int64_t n) {
          const int64_t row = shape.size * shape.inner;
          T* to = y + at / row * shape.inner + at % row;
          logsumexp_columns(x + at, to, shape.size, shape.inner, n);
        });
  });
}
KERNEL_FOR(logsumexp, logsumexp_kernel)

template <bool Log>
void softmax_kernel(const Tensor& input, const Tensor& out, int64_t dim) {
  const SliceShape shape(input, dim);
  dispatch<dtypes::Floating>("softmax_lastdim_kernel_impl", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    const bool beyond_cache = out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
    if (TallColumns<T>::are_worth_it(shape)) return softmax_tall<Log>(shape, x, y, beyond_cache);
    for_each_slice(
        shape, 8,
        [&](int64_t at, int64_t rows) {
          softmax_rows<Log>(x + at, y + at, rows, shape.size, beyond_cache);
        },
        [&](int64_t at, int64_t n) {
          const auto columns = Log ? log_softmax_columns<T> : softmax_columns<T>;
          columns(x + at, y + at, shape.size, shape.inner, n, beyond_cache);
        },
        // So many columns that what is kept fits, but lines of memory are read whole.
        is_reduced_type<T> || (beyond_cache && !Log)
            ? std::clamp<int64_t>(kept_elements / (shape.size + 1) & ~63, 64, column_block)
            : column_block);
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
  return Log ? g - exp_below(y) * total : y * (g - total);
}

template <class T, bool Log>
void backward_row(const T* g, const T* y, T* out, int64_t n) {
  using C = ComputeType<T>;
  C total = 0, of_lanes = 0;
  int64_t i = 0;
  if (n >= four<C>) {
    C lane[four<C>] = {};
    for (; i + four<C> <= n; i += four<C>) {
#pragma GCC unroll 4
      for (int k = 0; k < four<C>; k += one<C>) {
        for (int j = k; j < k + one<C>; ++j) {
          lane[j] += share<Log>(static_cast<C>(g[i + j]), static_cast<C>(y[i + j]));
        }
      }
    }
    of_lanes = fold_sum<four<C>>(lane);
  }
  for (; i < n; ++i) total += share<Log>(static_cast<C>(g[i]), static_cast<C>(y[i]));
  total += of_lanes;
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
        shape, 8,
        [&](int64_t at, int64_t rows) {
          for (int64_t i = 0; i < rows; ++i, at += shape.size) {
            backward_row<T, Log>(g + at, y + at, to + at, shape.size);
          }
        },
        [&](int64_t at, int64_t n) {
          backward_columns<T, Log>(g + at, y + at, to + at, shape.size, shape.inner, n);
        });
  });
}
KERNEL_FOR(softmax_backward, softmax_backward_kernel<false>)
KERNEL_FOR(log_softmax_backward, softmax_backward_kernel<true>)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
