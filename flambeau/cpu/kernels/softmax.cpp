// CPU kernels of softmax and log_softmax and their gradients. Along the last dimension a row stays
// in cache while it is read twice or three times; along another one, a block of columns does.
#include <limits>
#include <memory>

#include "flambeau/cpu/kernels/blocks.h"
#include "flambeau/cpu/kernels/exp_rows.h"
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
    float room[row_in_cache];
    beyond_cache &= n <= row_in_cache;
    float* powers = beyond_cache ? room : out;
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
    for (int64_t j = 0; j < taken; ++j) v[k][j] = static_cast<C>(x[j * n + k]);
    for (int j = 0; j < rows; ++j) most[j] = v[k][j] > most[j] ? v[k][j] : most[j];
  }
  for (int64_t k = 0; k < n; ++k) {
    C e[rows];
    for (int j = 0; j < rows; ++j) v[k][j] -= most[j];
    for (int j = 0; j < rows; ++j) e[j] = exp_below(v[k][j]);
    for (int j = 0; j < rows; ++j) total[j] += e[j];
    if constexpr (!Log) {
      for (int j = 0; j < rows; ++j) v[k][j] = e[j];
    }
  }
  for (int j = 0; j < rows; ++j) total[j] = Log ? std::log(total[j]) : C(1) / total[j];
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < rows; ++j) v[k][j] = Log ? v[k][j] - total[j] : v[k][j] * total[j];
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
      C room[one<C> * middle_row];
      load_row(x + i * n, room, some * n);
      softmax_row_group<Log>(room, room, n, some);
      store_row(room, out + i * n, some * n);
    } else {
      softmax_row_group<Log>(x + i * n, out + i * n, n, some);
    }
  }
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
    const std::unique_ptr<C[]> row(i < rows ? new C[n] : nullptr);
    for (; i < rows; ++i) {
      load_row(x + i * n, row.get(), n);
      softmax_row<Log>(row.get(), row.get(), n, false);
      store_row(row.get(), out + i * n, n);
    }
  } else {
    for (; i < rows; ++i) softmax_row<Log>(x + i * n, out + i * n, n, beyond_cache);
    if (beyond_cache) _mm_sfence();
  }
}

// Of a block of columns, rows `stride` apart: the largest elements, and the sums of exponentials,
// which are left in `kept` unless that is null; if it lies beside the tensors, so are the elements
// in between.
template <class T>
void exp_sum_columns(const T* x, int64_t size, int64_t stride, int64_t n, ComputeType<T>* most,
                     ComputeType<T>* total, ComputeType<T>* kept = nullptr, int64_t kept_stride = 0,
                     bool beside = false) {
  using C = ComputeType<T>;
  C room[column_block];
  for (int64_t j = 0; j < n; ++j) most[j] = -std::numeric_limits<C>::infinity(), total[j] = 0;
  const auto kept_row = [&](int64_t i) { return kept ? kept + i * kept_stride : room; };
  // Short pieces of rows that lie far apart, which the processor does not foresee.
  const auto prefetch_row = [&](int64_t i) {
    constexpr int64_t line = 64 / sizeof(T);
    for (int64_t j = 0; j < n; j += line) __builtin_prefetch(x + i * stride + j);
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
    const C* row = beside ? to : computed(x + i * stride, room, n);
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
      room_.reset(new C[size * n]);
      data = room_.get();
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
  std::unique_ptr<C[]> room_;
};

template <class T>
void log_softmax_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n, bool) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block], room[column_block], result[column_block];
  exp_sum_columns(x, size, stride, n, most, total);
  for (int64_t j = 0; j < n; ++j) total[j] = math::log(total[j]);
  for (int64_t i = 0; i < size; ++i) {
    const C* row = computed(x + i * stride, room, n);
    IVDEP for (int64_t j = 0; j < n; ++j) result[j] = row[j] - most[j] - total[j];
    store_row(result, out + i * stride, n);
  }
}

template <class T>
void softmax_columns(const T* x, T* out, int64_t size, int64_t stride, int64_t n,
                     bool beyond_cache) {
  using C = ComputeType<T>;
  C most[column_block], total[column_block], room[column_block], result[column_block];
  T stored[column_block];
  const KeptExponentials<T> kept(out, size, stride, n, beyond_cache);
  exp_sum_columns(x, size, stride, n, most, total, kept.data, kept.row_stride, kept.beside);
  for (int64_t j = 0; j < n; ++j) total[j] = C(1) / total[j];
  for (int64_t i = 0; i < size; ++i) {
    if (kept.data) {
      const C* row = kept.data + i * kept.row_stride;
      IVDEP for (int64_t j = 0; j < n; ++j) result[j] = row[j] * total[j];
    } else {
      const C* row = computed(x + i * stride, room, n);
      IVDEP for (int64_t j = 0; j < n; ++j) result[j] = exp_below(row[j] - most[j]) * total[j];
    }
    T* to = out + i * stride;
    if (beyond_cache) {
      store_row(result, stored, n);
      copy_past_cache(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(stored),
                      n * static_cast<int64_t>(sizeof(T)));
    } else {
      store_row(result, to, n);
    }
  }
  if (beyond_cache) _mm_sfence();
}

// Note [Tall columns]
// Columns of more rows than a cache holds are read as they lie in memory, a band of rows at a time
// and all columns of it: first every band's largest elements and its sums of exponentials, which
// are then joined, and after that the results. So nothing is read more than twice, and bands are
// what threads share. They do not depend on how many there are, nor do the results.
constexpr int64_t band_elements = 65536, least_band = 64;
constexpr int64_t group_rows = 8, group_columns = 1024;  // that stay next to the processor

template <class T>
class TallColumns {
 public:
  using C = ComputeType<T>;
  TallColumns(const SliceShape& shape, const T* x)
      : shape_(shape),
        x_(x),
        rows_(std::max(least_band, band_elements / shape.inner)),
        bands_((shape.size + rows_ - 1) / rows_),
        most_(new C[shape.outer * bands_ * shape.inner]),
        total_(new C[shape.outer * bands_ * shape.inner]) {
    for_each_band([this](int64_t at, int64_t rows, int64_t band) {
      sum_band(x_ + at, rows, &most_[band * shape_.inner], &total_[band * shape_.inner]);
    });
    const int64_t n = shape_.inner;
    parallel_for(0, shape_.outer * n, std::max<int64_t>(1, default_grain / 8 / bands_),
                 [this, n](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) join_bands(i / n * bands_ * n + i % n);
                 });
  }
  static bool are_worth_it(const SliceShape& s) {
    return s.inner >= 16 && s.size >= 2 * least_band && s.size * s.inner >= 2 * band_elements;
  }
  // finish(most, total, x, out, n) computes n neighbours in a row of the results.
  template <class Finish>
  void write(T* out, bool beyond_cache, const Finish& finish) const {
    for_each_band([&](int64_t at, int64_t rows, int64_t band) {
      const int64_t first = band / bands_ * bands_ * shape_.inner;
      C room[column_block], result[column_block];
      T stored[column_block];
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < shape_.inner; j += column_block) {
          const int64_t n = std::min(column_block, shape_.inner - j),
                        k = at + row * shape_.inner + j;
          finish(&most_[first + j], &total_[first + j], computed(x_ + k, room, n), result, n);
          store_row(result, beyond_cache ? stored : out + k, n);
          if (beyond_cache)
            copy_past_cache(reinterpret_cast<char*>(out + k), reinterpret_cast<char*>(stored),
                            n * static_cast<int64_t>(sizeof(T)));
        }
      }
      if (beyond_cache) _mm_sfence();
    });
  }
  C most(int64_t outer, int64_t column) const {
    return most_[outer * bands_ * shape_.inner + column];
  }
  C total(int64_t outer, int64_t column) const {
    return total_[outer * bands_ * shape_.inner + column];
  }
  template <class Change>
  void change_totals(const Change& change) {
    for (int64_t outer = 0; outer < shape_.outer; ++outer) {
      C* total = &total_[outer * bands_ * shape_.inner];
      IVDEP for (int64_t j = 0; j < shape_.inner; ++j) total[j] = change(total[j]);
    }
  }

 private:
  template <class Body>
  void for_each_band(const Body& body) const {
    const int64_t grain = std::max<int64_t>(1, default_grain / 8 / (rows_ * shape_.inner));
    parallel_for(0, shape_.outer * bands_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t band = begin; band < end; ++band) {
        const int64_t row = band % bands_ * rows_;
        body((band / bands_ * shape_.size + row) * shape_.inner, std::min(rows_, shape_.size - row),
             band);
      }
    });
  }

  // A few rows at a time: of those the largest elements first. While all are minus infinity, the
  // sum is zero.
  void sum_band(const T* x, int64_t rows, C* most, C* total) const {
    std::fill_n(most, shape_.inner, -std::numeric_limits<C>::infinity());
    std::fill_n(total, shape_.inner, C(0));
    // Not a page apart, or a load would wait for a store to another row.
    C room[is_reduced_type<T> ? group_rows : 1][group_columns + 48], base[group_columns];
    for (int64_t row = 0; row < rows; row += group_rows) {
      const int64_t some = std::min(group_rows, rows - row);
      for (int64_t column = 0; column < shape_.inner; column += group_columns) {
        const int64_t n = std::min(group_columns, shape_.inner - column);
        const C* group[group_rows];
        C *top = most + column, *sum = total + column;
        std::copy_n(top, n, base);
        for (int64_t k = 0; k < some; ++k) {
          const T* from = x + (row + k) * shape_.inner + column;
          const C* line = group[k] = computed(from, room[is_reduced_type<T> ? k : 0], n);
          IVDEP for (int64_t j = 0; j < n; ++j) top[j] = line[j] > top[j] ? line[j] : top[j];
        }
        IVDEP for (int64_t j = 0; j < n; ++j) {
          const C now = finite_base(top[j]);
          sum[j] *= exp_below(base[j] - now);
          base[j] = now;
        }
        for (int64_t k = 0; k < some; ++k) add_powers(group[k], base, sum, n);
      }
    }
  }
  // In a function of its own, where GCC sees that the arrays do not overlap.
  [[gnu::noinline]] static void add_powers(const C* __restrict line, const C* __restrict base,
                                           C* __restrict sum, int64_t n) {
    IVDEP for (int64_t j = 0; j < n; ++j) sum[j] += exp_below(line[j] - base[j]);
  }
  static C finite_base(C most) { return most == -std::numeric_limits<C>::infinity() ? C(0) : most; }

  // The sums of one column's bands, of which the first one is at `at`.
  void join_bands(int64_t at) {
    C most = most_[at], total = 0;
    for (int64_t band = 1; band < bands_; ++band) {
      const C other = most_[at + band * shape_.inner];
      most = other > most ? other : most;
    }
    const C base = finite_base(most);
    for (int64_t band = 0; band < bands_; ++band) {
      const int64_t k = at + band * shape_.inner;
      total += total_[k] * exp_below(most_[k] - base);
    }
    most_[at] = most;
    total_[at] = total;
  }

  const SliceShape shape_;
  const T* const x_;
  const int64_t rows_, bands_;  // rows of a band, bands of a slice
  const std::unique_ptr<C[]> most_, total_;
};

template <bool Log, class T>
void softmax_tall(const SliceShape& shape, const T* x, T* out, bool beyond_cache) {
  using C = ComputeType<T>;
  TallColumns<T> columns(shape, x);
  columns.change_totals([](C total) { return Log ? math::log(total) : C(1) / total; });
  columns.write(
      out, beyond_cache, [](const C* most, const C* total, const C* row, C* result, int64_t n) {
        IVDEP for (int64_t j = 0; j < n; ++j) {
          result[j] = Log ? row[j] - most[j] - total[j] : exp_below(row[j] - most[j]) * total[j];
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
  const std::unique_ptr<C[]> room(is_reduced_type<T> ? new C[n] : nullptr);
  for (int64_t i = 0; i < rows; ++i, x += n) {
    const C* row = computed(x, room.get(), n);
    const C most = row_max(row, n);
    const C total = row_exp_sum<false>(row, n, most, static_cast<C*>(nullptr));
    out[i] = static_cast<T>(finish_logsumexp(most, total, row, n, 1));
  }
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
  const TallColumns<T> columns(shape, x);
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    const T* slice = x + outer * shape.size * shape.inner;
    for (int64_t j = 0; j < shape.inner; ++j) {
      out[outer * shape.inner + j] = static_cast<T>(finish_logsumexp(
          columns.most(outer, j), columns.total(outer, j), slice + j, shape.size, shape.inner));
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
    const bool kept = !Log && beyond_cache && 64 * shape.size <= kept_elements;
    if (!kept && TallColumns<T>::are_worth_it(shape))
      return softmax_tall<Log>(shape, x, y, beyond_cache);
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
