// Sums of exponentials of columns of more rows than a cache holds, of which softmax and logsumexp
// are made.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/nn/exp_rows.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Note [Tall columns]
// Columns of more rows than a cache holds are read as they lie in memory, a band of rows at a time
// and all columns of it: first every band's largest elements and its sums of exponentials, which
// are then joined, and after that the results. So nothing is read more than twice, and bands are
// what threads share. They do not depend on how many there are, nor do the results. What is known
// of columns stands in the order of two registers, those that fill the last ones among them.
constexpr int64_t band_elements = 16384, min_band = 64, max_bands = 64;
constexpr int64_t group_rows = 8, group_columns = 1024;  // that stay next to the processor

template <class C>
C finite_base(C most) {
  return most == -std::numeric_limits<C>::infinity() ? C(0) : most;
}
// In a function of its own, where GCC sees that the arrays do not overlap.
template <class C>
[[gnu::noinline]] void add_powers(const C* __restrict line, const C* __restrict base,
                                  C* __restrict sum, int64_t n) {
  IVDEP for (int64_t j = 0; j < n; ++j) sum[j] += exp_below(line[j] - base[j]);
}

// Joins what is known of the bands of n columns side by side, `step` apart, in the first one's
// place.
template <class C>
[[gnu::noinline]] void join_bands(C* most, C* total, int64_t bands, int64_t step, int64_t n) {
  C base[column_block];
  std::copy_n(most, n, base);
  for (int64_t band = 1; band < bands; ++band) {
    const C* other = most + band * step;
    IVDEP for (int64_t j = 0; j < n; ++j) base[j] = other[j] > base[j] ? other[j] : base[j];
  }
  IVDEP for (int64_t j = 0; j < n; ++j) {
    const C largest = base[j];
    base[j] = finite_base(largest);
    total[j] *= exp_below(most[j] - base[j]);
    most[j] = largest;
  }
  for (int64_t band = 1; band < bands; ++band) {
    const C *other = most + band * step, *sum = total + band * step;
    IVDEP for (int64_t j = 0; j < n; ++j) total[j] += sum[j] * exp_below(other[j] - base[j]);
  }
}

template <class T>
class TallColumns {
 public:
  using C = ComputeType<T>;
  TallColumns(const SliceShape& shape, const T* x)
      : shape_(shape),
        x_(x),
        rows_(std::max({min_band, band_elements / shape.inner, shape.size / max_bands})),
        bands_((shape.size + rows_ - 1) / rows_),
        padded_((shape.inner + two_registers - 1) / two_registers * two_registers),
        most_(new C[shape.outer * bands_ * padded_]),
        total_(new C[shape.outer * bands_ * padded_]) {
    for_each_band([this](int64_t at, int64_t rows, int64_t band) {
      sum_band(x_ + at, rows, &most_[band * padded_], &total_[band * padded_]);
    });
    const int64_t n = padded_, blocks = (n + column_block - 1) / column_block;
    parallel_for(0, shape_.outer * blocks, std::max<int64_t>(1, default_grain / 8192 / bands_),
                 [this, n, blocks](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t column = i % blocks * column_block;
                     const int64_t at = i / blocks * bands_ * n + column;
                     join_bands(&most_[at], &total_[at], bands_, n,
                                std::min(column_block, n - column));
                   }
                 });
  }
  static bool are_worth_it(const SliceShape& s) {
    return s.inner >= 16 && s.size >= 2 * min_band && s.size * s.inner >= 2 * band_elements;
  }
  // formula(x, most, total) is a result, of numbers or of registers.
  template <class Formula>
  void write(T* out, bool beyond_cache, const Formula& formula) const {
    for_each_band([&](int64_t at, int64_t rows, int64_t band) {
      const int64_t first = band / bands_ * bands_ * padded_;
      for (int64_t j = 0; j < shape_.inner; j += group_columns) {
        const int64_t n = std::min(group_columns, shape_.inner - j);
        write_rows(x_ + at + j, out + at + j, rows, n, &most_[first + j], &total_[first + j],
                   beyond_cache, formula);
      }
      if (beyond_cache) _mm_sfence();
    });
  }
  C* most(int64_t outer) { return &most_[outer * bands_ * padded_]; }
  C* total(int64_t outer) { return &total_[outer * bands_ * padded_]; }
  // How many numbers there are, and where that of a column is.
  [[nodiscard]] int64_t padded() const { return padded_; }
  static int64_t place(int64_t column) {
    if constexpr (!is_reduced_type<T>) return column;
    return column / two_registers * two_registers + place_in_two<T>(column % two_registers);
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

  template <class Formula>
  void write_rows(const T* x, T* out, int64_t rows, int64_t n, const C* most, const C* total,
                  bool beyond_cache, const Formula& formula) const {
    if constexpr (std::is_same_v<C, float>) {
      const SubnormalsFlushed flushed;
      for (int64_t row = 0; row < rows; ++row, x += shape_.inner, out += shape_.inner) {
        transform_by_two(x, out, n, beyond_cache, [&](Floats* values, int64_t i) {
#pragma GCC unroll 2
          for (int64_t k = 0; k < 2; ++k, i += float_lanes) {
            values[k] = formula(values[k], load_floats(most + i), load_floats(total + i));
          }
        });
      }
    } else {
      for (int64_t row = 0; row < rows; ++row, x += shape_.inner, out += shape_.inner) {
        IVDEP for (int64_t j = 0; j < n; ++j) out[j] = formula(x[j], most[j], total[j]);
      }
    }
  }

  void sum_band(const T* x, int64_t rows, C* most, C* total) const {
    constexpr bool by_powers = std::is_same_v<C, float>;
    constexpr int64_t block = by_powers ? two_registers : group_columns;
    if constexpr (by_powers) {
      for (int64_t column = 0; column < shape_.inner; column += group_columns) {
        const int64_t n = std::min(group_columns, shape_.inner - column);
        sum_powers_of_band(x + column, rows, n, most + column, total + column);
      }
    }
    // One unusual sum does not hold up many others.
    for (int64_t column = 0; column < shape_.inner; column += block) {
      const int64_t n = std::min(block, shape_.inner - column);
      if constexpr (by_powers) {
        if (n == block && are_usual(total + column, rows, n)) continue;
      }
      C tops[block] = {}, sums[block] = {};
      sum_below_largest(x + column, rows, n, tops, sums);
      for (int64_t j = 0; j < std::min(block, padded_ - column); ++j) {
        most[place(column + j)] = tops[j];
        total[place(column + j)] = sums[j];
      }
    }
  }
  static bool are_usual(const float* total, int64_t rows, int64_t n) {
    int unusual = 0;
    for (int64_t j = 0; j < n; ++j) unusual += is_usual_sum(total[j], rows) ? 0 : 1;
    return unusual == 0;
  }

  // See Note [Powers in one pass]. Not of columns that fill no two registers.
  void sum_powers_of_band(const T* x, int64_t rows, int64_t n, float* top, float* total) const {
    const SubnormalsFlushed flushed;
    n -= n % two_registers;
    std::fill_n(top, n, -std::numeric_limits<float>::infinity());
    int64_t row = 0;
    for (const int64_t asked : {std::min(group_rows, rows), rows}) {
      for (; row < asked; row += group_rows) {
        raise_tops(x + row * shape_.inner, std::min(group_rows, rows - row), n, top);
      }
      sum_powers_below(x, rows, n, top, total);
      if (are_usual(total, rows, n)) return;
    }
  }
  void raise_tops(const T* x, int64_t rows, int64_t n, float* top) const {
    for (int64_t j = 0; j < n; j += two_registers) {
      Floats largest[2] = {load_floats(top + j), load_floats(top + j + float_lanes)}, values[2];
      for (int64_t row = 0; row < rows; ++row) {
        two_registers_at(x + row * shape_.inner + j, values);
#pragma GCC unroll 2
        for (int k = 0; k < 2; ++k) largest[k] = larger_or_second(values[k], largest[k]);
      }
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) store_floats(largest[k], top + j + k * float_lanes);
    }
  }
  void sum_powers_below(const T* x, int64_t rows, int64_t n, const float* top, float* sums) const {
    alignas(64) float base[group_columns];
    for (int64_t j = 0; j < n; ++j) {
      base[j] = top[j] * log2_e;
      sums[j] = 0;
    }
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) add_powers_of_rows<4>(x + row * shape_.inner, n, base, sums);
    for (; row < rows; ++row) add_powers_of_rows<1>(x + row * shape_.inner, n, base, sums);
    for (int64_t j = 0; j < n; j += float_lanes) {
      // What rounding the base has left out, which one instruction finds exactly.
      const Floats rest = load_floats(base + j) - load_floats(top + j) * log2_e;
      store_floats(load_floats(sums + j) * exp2_flushed(rest), sums + j);
    }
  }
  // Two registers, to where they were found to be the soonest: the exponentials of numbers of 16
  // bits take so long that the nearest cache keeps up.
  [[gnu::always_inline]] static void ask_for_next(const T* x) {
    if constexpr (is_reduced_type<T>) return prefetch(x);
    ask_second_level(x);
    ask_second_level(x + float_lanes);
  }
  template <int rows>
  void add_powers_of_rows(const T* x, int64_t n, const float* base, float* sums) const {
    for (int64_t j = 0; j < n; j += two_registers) {
      Floats sum[2] = {load_floats(sums + j), load_floats(sums + j + float_lanes)};
#pragma GCC unroll 4
      for (int row = 0; row < rows; ++row) {
        const T* from = x + row * shape_.inner + j;
        ask_for_next(from + rows * shape_.inner);
        Floats values[2];
        two_registers_at(from, values);
#pragma GCC unroll 2
        for (int k = 0; k < 2; ++k) {
          sum[k] += exp2_flushed(values[k] * log2_e - load_floats(base + j + k * float_lanes));
        }
      }
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) store_floats(sum[k], sums + j + k * float_lanes);
    }
  }

  // A few rows at a time: of those the largest elements first. While all are minus infinity, the
  // sum is zero.
  void sum_below_largest(const T* x, int64_t rows, int64_t n, C* most, C* total) const {
    std::fill_n(most, n, -std::numeric_limits<C>::infinity());
    std::fill_n(total, n, C(0));
    // Not pages apart, or a load would wait for a store to another row.
    C scratch[is_reduced_type<T> ? group_rows : 1][group_columns + 48], base[group_columns + 16];
    for (int64_t row = 0; row < rows; row += group_rows) {
      const int64_t some = std::min(group_rows, rows - row);
      const C* group[group_rows];
      std::copy_n(most, n, base);
      for (int64_t k = 0; k < some; ++k) {
        const T* from = x + (row + k) * shape_.inner;
        const C* line = group[k] = computed(from, scratch[is_reduced_type<T> ? k : 0], n);
        IVDEP for (int64_t j = 0; j < n; ++j) most[j] = line[j] > most[j] ? line[j] : most[j];
      }
      IVDEP for (int64_t j = 0; j < n; ++j) {
        const C now = finite_base(most[j]);
        total[j] *= exp_below(base[j] - now);
        base[j] = now;
      }
      for (int64_t k = 0; k < some; ++k) add_powers(group[k], base, total, n);
    }
  }

  const SliceShape shape_;
  const T* const x_;
  const int64_t rows_, bands_, padded_;  // rows of a band, bands and columns of a slice
  const std::unique_ptr<C[]> most_, total_;
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
