// Running sums and products of bfloat16 in float, as PyTorch computes them, two elements to a lane:
// the first one is the lower half of the word, the second one the upper half, and both are floats
// but for a shift or a mask. Every lane goes along a row or column of its own, one element after
// the other, so that whatever is lost on the way is lost as anywhere else.
#pragma once

#include "flambeau/cpu/kernels/scan/tiles.h"

namespace flambeau::cpu::ISA_NAMESPACE {

constexpr int64_t pair_elements = 2 * float_lanes;
constexpr int pair_rows = float_lanes;

struct PairFloats {
  ScanFloats first, second;
};

[[gnu::always_inline]] inline PairFloats widened(ScanWords words) {
  return {std::bit_cast<ScanFloats>(words << 16), std::bit_cast<ScanFloats>(words & 0xffff0000u)};
}
// To the nearest, and to even ones between two. NaN stays one, as it has no bits that were not in
// the upper half of a word before.
[[gnu::always_inline]] inline ScanWords narrowed(ScanFloats first, ScanFloats second) {
  const auto nearest = [](ScanFloats value) {
    const auto bits = std::bit_cast<ScanWords>(value);
#if FLAMBEAU_ISA_RANK >= 4
    const auto all = std::bit_cast<__m512i>(bits);
    const __mmask16 odd = _mm512_test_epi32_mask(all, _mm512_set1_epi32(0x10000));
    const auto down = std::bit_cast<__m512i>(bits + 0x7fffu);
    return std::bit_cast<ScanWords>(
        _mm512_mask_add_epi32(down, odd, all, _mm512_set1_epi32(0x8000)));
#else
    return bits + 0x7fffu + ((bits >> 16) & 1u);
#endif
  };
  return (nearest(second) & 0xffff0000u) | (nearest(first) >> 16);
}

// Whether some product will likely leave the normal numbers soon.
[[gnu::always_inline]] inline bool nearly_gone(ScanFloats product) {
  constexpr uint32_t small = 0x3f000000;  // 2^-64 without its sign
  const auto gone = (std::bit_cast<ScanWords>(product) << 1) - 1u < small;
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi32_mask(std::bit_cast<__m512i>(gone)) != 0;
#else
  return _mm256_movemask_ps(std::bit_cast<__m256>(gone)) != 0;
#endif
}

// What one element makes of a running result. A product below the normal numbers takes the
// processor a hundred times as long as others, but not the conversion of one in double precision,
// where it is exact and so rounded once: near them the carry is a double's.
template <class F>
[[gnu::always_inline]] inline ScanFloats go_on(ScanFloats& carry, ScanFloats next) {
  return carry = F::join(carry, next);
}
template <class F>
[[gnu::always_inline]] inline ScanFloats go_on(WideFloats& carry, ScanFloats next) {
  const WideFloats wide = widened(next);
  for (int h = 0; h < 2; ++h) carry.half[h] = F::join(carry.half[h], wide.half[h]);
  return rounded(carry);
}

template <class Carry>
[[gnu::always_inline]] inline Carry carried_as(ScanFloats value) {
  if constexpr (std::is_same_v<Carry, WideFloats>) {
    return widened(value);
  } else {
    return value;
  }
}

// Groups of four lanes of four registers, or of two, transposed like a matrix.
[[gnu::always_inline]] inline void turn_groups(ScanWords* rows, int step) {
#if FLAMBEAU_ISA_RANK >= 4
  const auto pick = [&]<int which>(ScanWords a, ScanWords b, std::integral_constant<int, which>) {
    return std::bit_cast<ScanWords>(_mm512_maskz_shuffle_i32x4(0xffff, std::bit_cast<__m512i>(a),
                                                               std::bit_cast<__m512i>(b), which));
  };
  constexpr std::integral_constant<int, 0x44> low;
  constexpr std::integral_constant<int, 0xee> high;
  constexpr std::integral_constant<int, 0x88> even;
  constexpr std::integral_constant<int, 0xdd> odd;
  const ScanWords a = pick(rows[0], rows[step], low), b = pick(rows[0], rows[step], high);
  const ScanWords c = pick(rows[2 * step], rows[3 * step], low);
  const ScanWords d = pick(rows[2 * step], rows[3 * step], high);
  rows[0] = pick(a, c, even);
  rows[step] = pick(a, c, odd);
  rows[2 * step] = pick(b, d, even);
  rows[3 * step] = pick(b, d, odd);
#else
  const ScanWords a = rows[0], b = rows[step];
  rows[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  rows[step] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#endif
}
// A square of words in registers: rows as columns, and columns as rows.
[[gnu::always_inline]] inline void turn_square(ScanWords* rows) {
#pragma GCC unroll 4
  for (int k = 0; k < pair_rows; k += 4) turn_fours(rows + k);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) turn_groups(rows + k, 4);
}

// One register of each of some rows, which begin at given addresses; each lane carries a row.
template <class F, bool past, class Carry>
[[gnu::always_inline]] inline void scan_square(const BFloat16* x, BFloat16* y, const int64_t* row,
                                               Carry& carry, int64_t ahead = 0) {
  ScanWords words[pair_rows];
#pragma GCC unroll 16
  for (int k = 0; k < pair_rows; ++k) {
    if constexpr (past) ask_second_level(x + ahead + row[k]);
    std::memcpy(&words[k], x + row[k], sizeof words[k]);
  }
  turn_square(words);
#pragma GCC unroll 16
  for (int k = 0; k < pair_rows; ++k) {
    const PairFloats pair = widened(words[k]);
    const ScanFloats first = go_on<F>(carry, pair.first);
    words[k] = narrowed(first, go_on<F>(carry, pair.second));
  }
  turn_square(words);
#pragma GCC unroll 16
  for (int k = 0; k < pair_rows; ++k) store_register<past>(words[k], y + row[k]);
}
template <class F, bool past>
[[gnu::noinline]] void scan_vanishing_square(const BFloat16* x, BFloat16* y, const int64_t* row,
                                             ScanFloats& carry, int64_t ahead = 0) {
  WideFloats wide = widened(carry);
  scan_square<F, past>(x, y, row, wide, ahead);
  carry = narrowed(wide);
}
// The same where all products have become zero, which finite elements leave nothing but signs to:
// one is that of the elements so far, an odd number of which is negative. False if there are
// others.
template <bool past>
inline bool scan_vanished_square([[maybe_unused]] const BFloat16* x, [[maybe_unused]] BFloat16* y,
                                 [[maybe_unused]] const int64_t* row,
                                 [[maybe_unused]] ScanFloats& carry,
                                 [[maybe_unused]] int64_t ahead) {
#if FLAMBEAU_ISA_RANK >= 4
  const auto products = std::bit_cast<__m512i>(carry);
  if (_mm512_test_epi32_mask(products, _mm512_set1_epi32(0x7fffffff)) != 0) return false;
  uint32_t signs[pair_rows];
  __mmask32 others = 0;
#pragma GCC unroll 16
  for (int k = 0; k < pair_rows; ++k) {
    if constexpr (past) ask_second_level(x + ahead + row[k]);
    const __m512i words = _mm512_loadu_si512(x + row[k]);
    signs[k] = _mm512_movepi16_mask(words);
    const __m512i sizes = _mm512_and_si512(words, _mm512_set1_epi16(0x7fff));
    others |= _mm512_cmpge_epu16_mask(sizes, _mm512_set1_epi16(0x7f80));
  }
  if (others != 0) return false;
  const uint32_t negative = _mm512_movepi32_mask(products);
  uint32_t next = 0;
#pragma GCC unroll 16
  for (int k = 0; k < pair_rows; ++k) {
    uint32_t odd = signs[k];
    for (int step = 1; step < pair_elements; step *= 2) odd ^= odd << step;
    odd ^= 0u - ((negative >> k) & 1u);
    next |= (odd >> 31) << k;
    store_register<past>(_mm512_maskz_set1_epi16(odd, std::numeric_limits<int16_t>::min()),
                         y + row[k]);
  }
  carry =
      std::bit_cast<ScanFloats>(_mm512_maskz_set1_epi32(next, std::numeric_limits<int32_t>::min()));
  return true;
#else
  return false;
#endif
}

// At most pair_rows rows of n elements, one after the other; the results are not written over the
// input. Where rows are fewer, the last one is taken several times.
template <class F, bool past>
void scan_rows_of_pairs(const BFloat16* x, BFloat16* y, int64_t rows, int64_t n) {
  int64_t row[pair_rows];
  for (int64_t k = 0; k < pair_rows; ++k) row[k] = std::min(k, rows - 1) * n;
  ScanFloats carry = ScanFloats{} + static_cast<float>(F::neutral);
  // The next rows are asked for while these are worked on, if they will stay in the cache.
  const int64_t ahead = n <= 2048 ? pair_rows * n : 2 * pair_elements;
  const int64_t whole = n & ~(pair_elements - 1);
  for (int64_t i = 0; i < whole; i += pair_elements) {
    if constexpr (F::neutral == 1) {
      if (scan_vanished_square<past>(x + i, y + i, row, carry, ahead)) continue;
    }
    if (F::neutral == 1 && nearly_gone(carry)) [[unlikely]] {
      scan_vanishing_square<F, past>(x + i, y + i, row, carry, ahead);
    } else {
      scan_square<F, past>(x + i, y + i, row, carry, ahead);
    }
  }
  if (whole == n) return;
  BFloat16 from[pair_rows][pair_elements] = {}, to[pair_rows][pair_elements];
  for (int64_t k = 0; k < rows; ++k) std::copy_n(x + row[k] + whole, n - whole, from[k]);
  for (int64_t k = 0; k < pair_rows; ++k) row[k] = k * pair_elements;
  scan_vanishing_square<F, false>(from[0], to[0], row, carry);
  for (int64_t k = 0; k < rows; ++k) std::copy_n(to[k], n - whole, y + k * n + whole);
}

// `height` rows of whole registers of columns, which begin `step` apart, from what is carried of
// each column on: of a register's first elements, then of its second ones.
template <class F, int height, bool past, class Carry>
void scan_pair_strip(const BFloat16* x, BFloat16* y, int64_t step, int64_t n, float* carried) {
  for (int64_t j = 0; j < n; j += pair_elements) {
    auto first = carried_as<Carry>(load_floats(carried + j));
    auto second = carried_as<Carry>(load_floats(carried + j + float_lanes));
    ScanFloats last[2];
#pragma GCC unroll 4
    for (int k = 0; k < height; ++k) {
      if constexpr (past) ask_second_level(x + (k + height) * step + j);
      ScanWords words;
      std::memcpy(&words, x + k * step + j, sizeof words);
      const PairFloats next = widened(words);
      last[0] = go_on<F>(first, next.first);
      last[1] = go_on<F>(second, next.second);
      store_register<past>(narrowed(last[0], last[1]), y + k * step + j);
    }
    std::memcpy(carried + j, last, sizeof last);
  }
}

template <class F>
void scan_single_columns(const BFloat16* x, BFloat16* y, int64_t size, int64_t step, int64_t n) {
  float carried[pair_elements];
  std::fill_n(carried, n, static_cast<float>(F::neutral));
  for (int64_t i = 0; i < size; ++i, x += step, y += step) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      carried[j] = F::join(carried[j], static_cast<float>(x[j]));
      y[j] = static_cast<BFloat16>(carried[j]);
    }
  }
}

// n columns, at most column_block, of `size` elements that lie `step` apart.
template <class F, bool past>
void scan_columns_of_pairs(const BFloat16* x, BFloat16* y, int64_t size, int64_t step, int64_t n) {
  constexpr int height = 4, seldom = 16;
  alignas(64) float carried[column_block];
  std::fill_n(carried, column_block, static_cast<float>(F::neutral));
  const int64_t whole = n & ~(pair_elements - 1);
  scan_single_columns<F>(x + whole, y + whole, size, step, n - whole);
  auto scan_strip = scan_pair_strip<F, height, past, ScanFloats>;
  int64_t i = 0;
  for (; i + height <= size; i += height, x += height * step, y += height * step) {
    if (F::neutral == 1 && i % seldom == 0) {
      bool gone = false;
      for (int64_t j = 0; j < whole; j += float_lanes)
        gone |= nearly_gone(load_floats(carried + j));
      scan_strip = gone ? scan_pair_strip<F, height, past, WideFloats>
                        : scan_pair_strip<F, height, past, ScanFloats>;
    }
    scan_strip(x, y, step, whole, carried);
  }
  for (; i < size; ++i, x += step, y += step) {
    scan_pair_strip<F, 1, past, ScanFloats>(x, y, step, whole, carried);
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
