// Running sums of bfloat16 in float, as PyTorch adds them, two elements to a lane: the first one is
// the lower half of the word, the second one the upper half, and both are floats but for a shift
// or a mask.
#pragma once

#include "flambeau/cpu/kernels/scan_tiles.h"

namespace flambeau::cpu::ISA_NAMESPACE {

constexpr int64_t pair_elements = 2 * float_lanes;

struct PairFloats {
  ScanFloats first, second;
};

[[gnu::always_inline]] inline PairFloats widened(ScanWords words) {
  return {std::bit_cast<ScanFloats>(words << 16), std::bit_cast<ScanFloats>(words & 0xffff0000u)};
}
// To the nearest, and to even ones between two; not for NaN.
[[gnu::always_inline]] inline ScanWords narrowed(ScanFloats first, ScanFloats second) {
  const auto rounded = [](ScanFloats value) {
    const auto bits = std::bit_cast<ScanWords>(value);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
  };
  return (rounded(second) & 0xffff0000u) | (rounded(first) >> 16);
}

// Becomes NaN when one of the values is infinite or NaN, and stays so.
struct FiniteSoFar {
  ScanFloats sum = {};
  [[gnu::always_inline]] void look_at(ScanFloats value) { sum += value * 0.0f; }
  [[nodiscard]] bool all() const {
    float total = 0;
    for (int j = 0; j < float_lanes; ++j) total += sum[j];
    return total == 0;
  }
};

// The same with each four lanes `fours` times four lanes further on, behind zeros.
template <int fours>
[[gnu::always_inline]] inline ScanFloats moved_on(ScanFloats v) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, ScanFloats{},
                                   (I < 4 * fours ? float_lanes : I - 4 * fours)...);
  }
  (std::make_integer_sequence<int, float_lanes>());
}
[[gnu::always_inline]] inline ScanFloats last_four(ScanFloats v) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (float_lanes - 4 + I % 4)...);
  }
  (std::make_integer_sequence<int, float_lanes>());
}

// One register of each of four rows that begin `row` apart. The carry has the sum of row k in every
// lane k of four.
template <bool past>
[[gnu::always_inline]] inline void sum_pair_tile(const BFloat16* x, BFloat16* y, int64_t row,
                                                 ScanFloats& carry, FiniteSoFar& finite) {
  ScanWords words[tile_rows];
  if constexpr (past) ask_for_next_rows(x, row);
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) std::memcpy(&words[k], x + k * row, sizeof words[k]);
  turn_fours(words);
  ScanFloats firsts[tile_rows], sums[tile_rows];
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) {
    const PairFloats pair = widened(words[k]);
    firsts[k] = pair.first;
    sums[k] = pair.first + pair.second;
    if (k > 0) sums[k] += sums[k - 1];
  }
  ScanFloats totals = sums[tile_rows - 1];
  totals += moved_on<1>(totals);
  if constexpr (float_lanes > 8) totals += moved_on<2>(totals);
  const ScanFloats bases = carry + moved_on<1>(totals);
  carry += last_four(totals);
  ScanFloats before = bases;
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) {
    const ScanFloats first = before + firsts[k], second = bases + sums[k];
    before = second;
    finite.look_at(first);
    finite.look_at(second);
    words[k] = narrowed(first, second);
  }
  turn_fours(words);
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) store_register<past>(words[k], y + k * row);
}

inline void sum_four_singly(const BFloat16* x, BFloat16* y, int64_t n, int64_t row,
                            ScanFloats& carry) {
  for (int k = 0; k < tile_rows; ++k) {
    float sum = carry[k];
    for (int64_t i = 0; i < n; ++i) {
      sum += static_cast<float>(x[k * row + i]);
      y[k * row + i] = static_cast<BFloat16>(sum);
    }
    for (int j = k; j < float_lanes; j += tile_rows) carry[j] = sum;
  }
}

// Four rows of n elements that begin `row` apart; the results are not written over the input. One
// after the other where sums overflow, which depends on their order.
template <bool past>
void sum_four_rows(const BFloat16* x, BFloat16* y, int64_t n, int64_t row) {
  constexpr int64_t piece = 8 * pair_elements;
  ScanFloats carry = {};
  const int64_t whole = n & ~(pair_elements - 1);
  for (int64_t at = 0; at < whole; at += piece) {
    const int64_t end = std::min(at + piece, whole);
    const ScanFloats before = carry;
    FiniteSoFar finite;
    for (int64_t i = at; i < end; i += pair_elements) {
      sum_pair_tile<past>(x + i, y + i, row, carry, finite);
    }
    if (!finite.all()) [[unlikely]] {
      carry = before;
      sum_four_singly(x + at, y + at, end - at, row, carry);
    }
  }
  sum_four_singly(x + whole, y + whole, n - whole, row, carry);
}

// `height` rows of whole registers of columns, which begin `step` apart, from what is carried of
// each column on: of a register's first elements, then of its second ones.
template <int height, bool past>
bool sum_column_strip(const BFloat16* x, BFloat16* y, int64_t step, int64_t n, float* carried) {
  FiniteSoFar finite;
  for (int64_t j = 0; j < n; j += pair_elements) {
    PairFloats sums;
    std::memcpy(&sums, carried + j, sizeof sums);
#pragma GCC unroll 4
    for (int k = 0; k < height; ++k) {
      ScanWords words;
      std::memcpy(&words, x + k * step + j, sizeof words);
      const PairFloats next = widened(words);
      sums.first += next.first;
      sums.second += next.second;
      store_register<past>(narrowed(sums.first, sums.second), y + k * step + j);
    }
    // What is not finite now stays so.
    finite.look_at(sums.first);
    finite.look_at(sums.second);
    std::memcpy(carried + j, &sums, sizeof sums);
  }
  return finite.all();
}

inline void sum_columns_singly(const BFloat16* x, BFloat16* y, int64_t size, int64_t step,
                               int64_t n, float* carried) {
  for (int64_t i = 0; i < size; ++i, x += step, y += step) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      carried[j] += static_cast<float>(x[j]);
      y[j] = static_cast<BFloat16>(carried[j]);
    }
  }
}

// n columns, at most column_block, of `size` elements that lie `step` apart.
template <bool past>
void sum_columns(const BFloat16* x, BFloat16* y, int64_t size, int64_t step, int64_t n) {
  constexpr int height = 4;
  alignas(64) float carried[column_block] = {};
  const int64_t whole = n & ~(pair_elements - 1);
  const BFloat16* from = x;
  BFloat16* to = y;
  int64_t i = 0;
  bool finite = true;
  for (; i + height <= size && finite; i += height, from += height * step, to += height * step) {
    finite = sum_column_strip<height, past>(from, to, step, whole, carried);
  }
  for (; i < size && finite; ++i, from += step, to += step) {
    finite = sum_column_strip<1, past>(from, to, step, whole, carried);
  }
  float rest[column_block] = {};
  if (!finite) return sum_columns_singly(x, y, size, step, n, rest);
  sum_columns_singly(x + whole, y + whole, size, step, n - whole, rest);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
