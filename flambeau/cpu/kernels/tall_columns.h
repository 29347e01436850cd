// Sums of exponentials of columns of more rows than a cache holds, of which softmax and logsumexp
// are made.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/exp_rows.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Note [Tall columns]
// Columns of more rows than a cache holds are read as they lie in memory, a band of rows at a time
// and all columns of it: first every band's largest elements and its sums of exponentials, which
// are then joined, and after that the results. So nothing is read more than twice, and bands are
// what threads share. They do not depend on how many there are, nor do the results.
constexpr int64_t band_elements = 16384, least_band = 64, most_bands = 64;
constexpr int64_t group_rows = 8, group_columns = 1024;  // that stay next to the processor

template <class T>
class TallColumns {
 public:
  using C = ComputeType<T>;
  TallColumns(const SliceShape& shape, const T* x)
      : shape_(shape),
        x_(x),
        rows_(std::max({least_band, band_elements / shape.inner, shape.size / most_bands})),
        bands_((shape.size + rows_ - 1) / rows_),
        most_(new C[shape.outer * bands_ * shape.inner]),
        total_(new C[shape.outer * bands_ * shape.inner]) {
    for_each_band([this](int64_t at, int64_t rows, int64_t band) {
      sum_band(x_ + at, rows, &most_[band * shape_.inner], &total_[band * shape_.inner]);
    });
    const int64_t n = shape_.inner, blocks = (n + column_block - 1) / column_block;
    parallel_for(0, shape_.outer * blocks, std::max<int64_t>(1, default_grain / 8192 / bands_),
                 [this, n, blocks](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t column = i % blocks * column_block;
                     join_bands(i / blocks * bands_ * n + column,
                                std::min(column_block, n - column));
                   }
                 });
  }
  static bool are_worth_it(const SliceShape& s) {
    return s.inner >= 16 && s.size >= 2 * least_band && s.size * s.inner >= 2 * band_elements;
  }
  // formula(x, most, total) is a result, of numbers or of registers.
  template <class Formula>
  void write(T* out, bool beyond_cache, const Formula& formula) const {
    for_each_band([&](int64_t at, int64_t rows, int64_t band) {
      const int64_t first = band / bands_ * bands_ * shape_.inner;
      for (int64_t j = 0; j < shape_.inner; j += group_columns) {
        const int64_t n = std::min(group_columns, shape_.inner - j);
        write_rows(x_ + at + j, out + at + j, rows, n, &most_[first + j], &total_[first + j],
                   beyond_cache, formula);
      }
      if (beyond_cache) _mm_sfence();
    });
  }
  C* most(int64_t outer) { return &most_[outer * bands_ * shape_.inner]; }
  C* total(int64_t outer) { return &total_[outer * bands_ * shape_.inner]; }

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
      alignas(64) float tops[group_columns] = {}, totals[group_columns] = {};
      for (int64_t j = 0; j < n; ++j) {
        const int64_t k = j / two_registers * two_registers + place_in_two<T>(j % two_registers);
        tops[k] = most[j];
        totals[k] = total[j];
      }
      for (int64_t row = 0; row < rows; ++row, x += shape_.inner, out += shape_.inner) {
        transform_by_two(x, out, n, beyond_cache, [&](Floats* values, int64_t i) {
#pragma GCC unroll 2
          for (int64_t k = 0; k < 2; ++k, i += float_lanes) {
            values[k] = formula(values[k], load_floats(tops + i), load_floats(totals + i));
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
    for (int64_t column = 0; column < shape_.inner; column += group_columns) {
      const int64_t n = std::min(group_columns, shape_.inner - column);
      int64_t done = 0;
      if constexpr (std::is_same_v<C, float>) {
        done = sum_powers_of_band(x + column, rows, n, most + column, total + column);
      }
      sum_below_largest(x + column + done, rows, n - done, most + column + done,
                        total + column + done);
    }
  }

  // See Note [Powers in one pass]. Returns for how many columns that is enough: none, or all but
  // the last few.
  int64_t sum_powers_of_band(const T* x, int64_t rows, int64_t n, float* most, float* total) const {
    const SubnormalsFlushed flushed;
    alignas(64) float top[group_columns], base[group_columns], sums[group_columns];
    n -= n % two_registers;
    for (int64_t j = 0; j < n; j += two_registers) {
      Floats largest[2], values[2];
      two_registers_at(x + j, largest);
      for (int64_t row = 1; row < std::min(group_rows, rows); ++row) {
        two_registers_at(x + row * shape_.inner + j, values);
        for (int k = 0; k < 2; ++k) largest[k] = larger_or_second(values[k], largest[k]);
      }
      for (int k = 0; k < 2; ++k) {
        store_floats(largest[k], top + j + k * float_lanes);
        store_floats(largest[k] * log2_e, base + j + k * float_lanes);
        store_floats(Floats{}, sums + j + k * float_lanes);
      }
    }
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) add_powers_of_rows<4>(x + row * shape_.inner, n, base, sums);
    for (; row < rows; ++row) add_powers_of_rows<1>(x + row * shape_.inner, n, base, sums);
    for (int64_t j = 0; j < n; j += float_lanes) {
      // What rounding the base has left out, which one instruction finds exactly.
      const Floats rest = load_floats(base + j) - load_floats(top + j) * log2_e;
      store_floats(load_floats(sums + j) * exp2_flushed(rest), sums + j);
    }
    bool usual = true;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t k = j / two_registers * two_registers + place_in_two<T>(j % two_registers);
      most[j] = top[k];
      total[j] = sums[k];
      usual &= is_usual_sum(total[j], rows);
    }
    return usual ? n : 0;
  }
  template <int rows>
  void add_powers_of_rows(const T* x, int64_t n, const float* base, float* sums) const {
    for (int64_t j = 0; j < n; j += two_registers) {
      Floats sum[2] = {load_floats(sums + j), load_floats(sums + j + float_lanes)};
#pragma GCC unroll 4
      for (int row = 0; row < rows; ++row) {
        const T* from = x + row * shape_.inner + j;
        read_ahead<two_registers, 0>(from + rows * shape_.inner);
        Floats values[2];
        two_registers_at(from, values);
#pragma GCC unroll 2
        for (int k = 0; k < 2; ++k) {
          sum[k] += exp2_flushed(values[k] * log2_e - load_floats(base + j + k * float_lanes));
        }
      }
      for (int k = 0; k < 2; ++k) store_floats(sum[k], sums + j + k * float_lanes);
    }
  }

  // A few rows at a time: of those the largest elements first. While all are minus infinity, the
  // sum is zero.
  void sum_below_largest(const T* x, int64_t rows, int64_t n, C* most, C* total) const {
    std::fill_n(most, n, -std::numeric_limits<C>::infinity());
    std::fill_n(total, n, C(0));
    // Not a page apart, or a load would wait for a store to another row.
    C room[is_reduced_type<T> ? group_rows : 1][group_columns + 48], base[group_columns];
    for (int64_t row = 0; row < rows; row += group_rows) {
      const int64_t some = std::min(group_rows, rows - row);
      const C* group[group_rows];
      std::copy_n(most, n, base);
      for (int64_t k = 0; k < some; ++k) {
        const T* from = x + (row + k) * shape_.inner;
        const C* line = group[k] = computed(from, room[is_reduced_type<T> ? k : 0], n);
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
  // In a function of its own, where GCC sees that the arrays do not overlap.
  [[gnu::noinline]] static void add_powers(const C* __restrict line, const C* __restrict base,
                                           C* __restrict sum, int64_t n) {
    IVDEP for (int64_t j = 0; j < n; ++j) sum[j] += exp_below(line[j] - base[j]);
  }
  static C finite_base(C most) { return most == -std::numeric_limits<C>::infinity() ? C(0) : most; }

  // The sums of bands of columns side by side, of which the first one's are at `at`.
  void join_bands(int64_t at, int64_t n) {
    C base[column_block];
    C *most = &most_[at], *total = &total_[at];
    std::copy_n(most, n, base);
    for (int64_t band = 1; band < bands_; ++band) {
      const C* other = most + band * shape_.inner;
      IVDEP for (int64_t j = 0; j < n; ++j) base[j] = other[j] > base[j] ? other[j] : base[j];
    }
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const C largest = base[j];
      base[j] = finite_base(largest);
      total[j] *= exp_below(most[j] - base[j]);
      most[j] = largest;
    }
    for (int64_t band = 1; band < bands_; ++band) {
      const C *other = most + band * shape_.inner, *sum = total + band * shape_.inner;
      IVDEP for (int64_t j = 0; j < n; ++j) total[j] += sum[j] * exp_below(other[j] - base[j]);
    }
  }

  const SliceShape shape_;
  const T* const x_;
  const int64_t rows_, bands_;  // rows of a band, bands of a slice
  const std::unique_ptr<C[]> most_, total_;
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
