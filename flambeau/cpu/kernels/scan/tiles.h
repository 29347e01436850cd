// Running sums and products of floats in double precision along four rows at once: of each four
// columns the elements of all rows come to lie side by side, so that one addition takes four rows a
// step further, and reading four rows at once keeps the memory busy.
#pragma once

#include <cmath>

#include "flambeau/cpu/kernels/scan/rows.h"
#include "flambeau/cpu/kernels/slices.h"

namespace flambeau::cpu::ISA_NAMESPACE {

constexpr int tile_rows = 4;
typedef float ScanFloats __attribute__((vector_size(register_bytes)));
typedef double RowDoubles __attribute__((vector_size(tile_rows * sizeof(double))));

// Of each four lanes of two registers: the first or last two of both by turns, `run` at once.
constexpr int lane_of_turns(int lane, int run, bool last, int lanes) {
  const int second = run == 1 ? lane % 2 : lane % 4 / 2;
  const int place = run == 1 ? lane % 4 / 2 : lane % 2;
  return lane / 4 * 4 + (last ? 2 : 0) + place + second * lanes;
}
template <bool last, int run, class V>
[[gnu::always_inline]] inline V interleaved(V a, V b) {
  // Runs of two as one lane, for which GCC finds the shorter instruction.
  typedef std::conditional_t<run == 1, uint32_t, uint64_t> Lane
      __attribute__((vector_size(sizeof(V))));
  constexpr int lanes = sizeof(V) / (4 * run);
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::bit_cast<V>(
        __builtin_shufflevector(std::bit_cast<Lane>(a), std::bit_cast<Lane>(b),
                                (lane_of_turns(I * run, run, last, lanes * run) / run)...));
  }
  (std::make_integer_sequence<int, lanes>());
}

// Four rows as columns, and columns as rows, in each four lanes.
template <class V>
[[gnu::always_inline]] inline void turn_fours(V* rows) {
  const V a = interleaved<false, 1>(rows[0], rows[1]), b = interleaved<true, 1>(rows[0], rows[1]);
  const V c = interleaved<false, 1>(rows[2], rows[3]), d = interleaved<true, 1>(rows[2], rows[3]);
  rows[0] = interleaved<false, 2>(a, c);
  rows[1] = interleaved<true, 2>(a, c);
  rows[2] = interleaved<false, 2>(b, d);
  rows[3] = interleaved<true, 2>(b, d);
}

// A register of floats in double precision.
struct WideFloats {
  ScanDoubles half[2];
};
[[gnu::always_inline]] inline WideFloats widened(ScanFloats v) {
#if FLAMBEAU_ISA_RANK >= 4
  const __m512 all = std::bit_cast<__m512>(v);
  const __m256 low = __builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 high = _mm512_maskz_extractf32x8_ps(0xff, all, 1);
  return {{std::bit_cast<ScanDoubles>(_mm512_maskz_cvtps_pd(0xff, low)),
           std::bit_cast<ScanDoubles>(_mm512_maskz_cvtps_pd(0xff, high))}};
#else
  const __m256 all = std::bit_cast<__m256>(v);
  return {{std::bit_cast<ScanDoubles>(_mm256_cvtps_pd(_mm256_castps256_ps128(all))),
           std::bit_cast<ScanDoubles>(_mm256_cvtps_pd(_mm256_extractf128_ps(all, 1)))}};
#endif
}
// The same numbers with the precision of floats, and those as floats.
[[gnu::always_inline]] inline ScanFloats rounded(WideFloats& wide) {
#if FLAMBEAU_ISA_RANK >= 4
  const __m256 low = _mm512_maskz_cvtpd_ps(0xff, std::bit_cast<__m512d>(wide.half[0]));
  const __m256 high = _mm512_maskz_cvtpd_ps(0xff, std::bit_cast<__m512d>(wide.half[1]));
  wide = {{std::bit_cast<ScanDoubles>(_mm512_maskz_cvtps_pd(0xff, low)),
           std::bit_cast<ScanDoubles>(_mm512_maskz_cvtps_pd(0xff, high))}};
#else
  const __m128 low = _mm256_cvtpd_ps(std::bit_cast<__m256d>(wide.half[0]));
  const __m128 high = _mm256_cvtpd_ps(std::bit_cast<__m256d>(wide.half[1]));
  wide = {{std::bit_cast<ScanDoubles>(_mm256_cvtps_pd(low)),
           std::bit_cast<ScanDoubles>(_mm256_cvtps_pd(high))}};
#endif
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(low, high, I...);
  }
  (std::make_integer_sequence<int, float_lanes>());
}
[[gnu::always_inline]] inline ScanFloats narrowed(WideFloats wide) { return rounded(wide); }

typedef uint32_t ScanWords __attribute__((vector_size(register_bytes)));
typedef uint16_t ScanHalves __attribute__((vector_size(register_bytes / 2)));

// In registers all the way: what is stored as two halves is not read again as a whole at once.
template <class T>
[[gnu::always_inline]] inline ScanFloats load_floats(const T* from) {
  if constexpr (is_reduced_type<T>) {
    ScanHalves bits;
    std::memcpy(&bits, from, sizeof bits);
    if constexpr (std::is_same_v<T, BFloat16>) {
#if FLAMBEAU_ISA_RANK >= 4
      const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(bits));
#else
      const __m256i wide = _mm256_cvtepu16_epi32(std::bit_cast<__m128i>(bits));
#endif
      return std::bit_cast<ScanFloats>(std::bit_cast<ScanWords>(wide) << 16);
    } else {
#if FLAMBEAU_ISA_RANK >= 4
      return _mm512_maskz_cvtph_ps(0xffff, std::bit_cast<__m256i>(bits));
#else
      return _mm256_cvtph_ps(std::bit_cast<__m128i>(bits));
#endif
    }
  } else {
    ScanFloats values;
    std::memcpy(&values, from, sizeof values);
    return values;
  }
}
// The lower halves of words whose upper halves are zero.
[[gnu::always_inline]] inline ScanHalves lower_halves(ScanWords words) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<ScanHalves>(
      _mm512_maskz_cvtepi32_epi16(0xffff, std::bit_cast<__m512i>(words)));
#else
  const auto all = std::bit_cast<__m256i>(words);
  return std::bit_cast<ScanHalves>(
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#endif
}
// With `exact`, the floats are ones of T already.
template <class T, bool exact>
[[gnu::always_inline]] inline ScanHalves halves_of(ScanFloats v) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = std::bit_cast<ScanWords>(v);
    if constexpr (exact) return lower_halves(bits >> 16);
    // To the nearest, and to even ones between two; NaN stays one.
    const ScanWords rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#if FLAMBEAU_ISA_RANK >= 4
    const __mmask16 unknown =
        _mm512_cmp_ps_mask(std::bit_cast<__m512>(v), std::bit_cast<__m512>(v), _CMP_UNORD_Q);
    const __m512i nan = _mm512_set1_epi32(0x7fc0);
    return lower_halves(std::bit_cast<ScanWords>(
        _mm512_mask_mov_epi32(std::bit_cast<__m512i>(rounded), unknown, nan)));
#else
    return lower_halves(v == v ? rounded : ScanWords{} + 0x7fc0u);
#endif
  } else {
#if FLAMBEAU_ISA_RANK >= 4
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return std::bit_cast<ScanHalves>(_mm512_maskz_cvtps_ph(0xffff, v, nearest));
#else
    return std::bit_cast<ScanHalves>(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#endif
  }
}

// Writes a register; non-temporally, which needs addresses at multiples of its size, if nobody will
// read it soon.
template <bool past, class V>
[[gnu::always_inline]] inline void store_register(V v, void* to) {
  if constexpr (!past) {
    std::memcpy(to, &v, sizeof v);
  } else if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(static_cast<__m128i*>(to), std::bit_cast<__m128i>(v));
  } else if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(static_cast<__m256i*>(to), std::bit_cast<__m256i>(v));
  } else {
    LanesOf<char, sizeof(V)>::stream(std::bit_cast<typename LanesOf<char, sizeof(V)>::Register>(v),
                                     static_cast<char*>(to));
  }
}
template <bool past, bool exact = false, class T>
[[gnu::always_inline]] inline void store_floats(ScanFloats v, T* to) {
  if constexpr (is_reduced_type<T>) {
    store_register<past>(halves_of<T, exact>(v), to);
  } else {
    store_register<past>(v, to);
  }
}

// What each lane is joined with, from what came before for each row and the totals of four columns;
// `carry` goes on by them.
template <class F>
[[gnu::always_inline]] inline ScanDoubles bases_of(ScanDoubles totals, RowDoubles& carry) {
#if FLAMBEAU_ISA_RANK >= 4
  const RowDoubles between =
      F::join(carry, RowDoubles(__builtin_shufflevector(totals, totals, 0, 1, 2, 3)));
  const ScanDoubles bases = __builtin_shufflevector(carry, between, 0, 1, 2, 3, 4, 5, 6, 7);
  carry = F::join(between, RowDoubles(__builtin_shufflevector(totals, totals, 4, 5, 6, 7)));
  return bases;
#else
  const ScanDoubles bases = carry;
  carry = F::join(carry, totals);
  return bases;
#endif
}

// Asks for what the next four rows have here, unless it is so far away that it would not stay.
template <class T>
[[gnu::always_inline]] inline void ask_for_next_rows(const T* x, int64_t row) {
  constexpr int64_t near = int64_t{1} << 16;
  const int64_t ahead = tile_rows * row * static_cast<int64_t>(sizeof(T)) <= near ? tile_rows : 0;
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) {
    ask_second_level(x + (k + ahead) * row);
  }
}

// One register of each of four rows that begin `row` apart.
template <class F, bool past, class T>
[[gnu::always_inline]] inline void scan_tile(const T* x, T* y, int64_t row, RowDoubles& carry,
                                             ScanRange& range) {
  ScanFloats rows[tile_rows];
  if constexpr (past) ask_for_next_rows(x, row);
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) rows[k] = load_floats(x + k * row);
  turn_fours(rows);
  WideFloats wide[tile_rows];
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) wide[k] = widened(rows[k]);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 4
    for (int k = 1; k < tile_rows; ++k) {
      wide[k].half[h] = F::join(wide[k - 1].half[h], wide[k].half[h]);
    }
    const ScanDoubles bases = bases_of<F>(wide[tile_rows - 1].half[h], carry);
    if constexpr (F::neutral == 1) range.look_at_largest(bases);
#pragma GCC unroll 4
    for (int k = 0; k < tile_rows; ++k) {
      wide[k].half[h] = F::join(bases, wide[k].half[h]);
      if constexpr (F::neutral == 1) range.look_at_least(wide[k].half[h]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) rows[k] = narrowed(wide[k]);
  turn_fours(rows);
#pragma GCC unroll 4
  for (int k = 0; k < tile_rows; ++k) store_floats<past>(rows[k], y + k * row);
}

// Whether products in another order than one after the other are the same but for rounding: none of
// them left the normal numbers, or nothing could bring the row back. (Four floats do not leave
// those of double precision, whatever they are: what they are joined with tells how large they
// get.)
inline bool order_is_free(RowDoubles before, const ScanRange& range) {
  const ScanDoubles start = [&]<int... I>(std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(before, before, (I % tile_rows)...);
  }
  (std::make_integer_sequence<int, double_lanes>());
  const auto is_normal =
      (range.least >= std::numeric_limits<double>::min()) & (range.largest <= 0x1p500);
  const auto is_free = is_normal | (start == 0.0) | (start - start != 0.0);
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi64_mask(std::bit_cast<__m512i>(is_free)) == 0xff;
#else
  return _mm256_movemask_pd(std::bit_cast<__m256d>(is_free)) == 0xf;
#endif
}

// A running product whose size may be far below what a double holds without loss, where each
// multiplication takes the processor a hundred times as long: there it is kept 2^512 times as
// large. A float is zero long before.
struct SmallProduct {
  static constexpr double up = 0x1p512, tiny = 0x1p-900, none = 0x1p-562, back = 0x1p-300;
  double value = 1;
  bool scaled = false;

  explicit SmallProduct(double start) : value(start) { settle(); }
  void settle() {
    const double size = std::abs(value);
    if (!scaled) {
      if (size < tiny && size > 0) [[unlikely]] {
        value *= up;
        scaled = true;
      }
    } else if (size > back) {
      value /= up;
      scaled = false;
    } else if (size < none) {
      value = std::copysign(0.0, value);
      scaled = false;
    }
  }
  float next(float factor) {
    value *= static_cast<double>(factor);
    settle();
    return scaled ? std::copysign(0.0f, static_cast<float>(value)) : static_cast<float>(value);
  }
  [[nodiscard]] double end() const { return scaled ? value / up : value; }
};

template <class F, class T>
void scan_four_singly(const T* x, T* y, int64_t n, int64_t row, RowDoubles& carry) {
  if constexpr (F::neutral == 1) {
    SmallProduct running[] = {SmallProduct(carry[0]), SmallProduct(carry[1]),
                              SmallProduct(carry[2]), SmallProduct(carry[3])};
    for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < tile_rows; ++k) {
        y[k * row + i] = static_cast<T>(running[k].next(static_cast<float>(x[k * row + i])));
      }
    }
    for (int k = 0; k < tile_rows; ++k) carry[k] = running[k].end();
  } else {
    for (int64_t i = 0; i < n; ++i) {
      for (int k = 0; k < tile_rows; ++k) {
        carry[k] = F::join(carry[k], static_cast<double>(static_cast<float>(x[k * row + i])));
        y[k * row + i] = static_cast<T>(static_cast<float>(carry[k]));
      }
    }
  }
}

// Whether some row's product will likely leave the normal numbers soon.
inline bool nearly_gone(RowDoubles carry) {
  const auto gone = (carry < 0x1p-960) & (carry > -0x1p-960) & (carry != 0.0);
  return _mm256_movemask_pd(std::bit_cast<__m256d>(gone)) != 0;
}

// Four rows of n elements that begin `row` apart; the results are not written over the input.
template <class F, bool past, class T>
void scan_four_rows(const T* x, T* y, int64_t n, int64_t row) {
  constexpr int64_t chunk = 4 * float_lanes;
  RowDoubles carry = RowDoubles{} + F::neutral;
  const int64_t whole = n & ~static_cast<int64_t>(float_lanes - 1);
  for (int64_t at = 0; at < whole; at += chunk) {
    const int64_t end = std::min(at + chunk, whole);
    const RowDoubles before = carry;
    bool scanned = F::neutral != 1 || !nearly_gone(before);
    if (scanned) [[likely]] {
      ScanRange range;
      for (int64_t i = at; i < end; i += float_lanes) {
        scan_tile<F, past>(x + i, y + i, row, carry, range);
      }
      scanned = F::neutral != 1 || order_is_free(before, range);
    }
    if (!scanned) [[unlikely]] {
      carry = before;
      scan_four_singly<F>(x + at, y + at, end - at, row, carry);
    }
  }
  scan_four_singly<F>(x + whole, y + whole, n - whole, row, carry);
}

// `height` rows of some columns, which begin `step` apart, from what is carried of each column on.
template <class F, int height, bool past, class T>
void scan_column_strip(const T* x, T* y, int64_t step, int64_t n, double* carried) {
  int64_t j = 0;
  for (; j + float_lanes <= n; j += float_lanes) {
    WideFloats carry;
    std::memcpy(&carry, carried + j, sizeof carry);
#pragma GCC unroll 4
    for (int k = 0; k < height; ++k) {
      if constexpr (past) ask_second_level(x + (k + height) * step + j);
      const WideFloats next = widened(load_floats(x + k * step + j));
      for (int h = 0; h < 2; ++h) carry.half[h] = F::join(carry.half[h], next.half[h]);
      store_floats<past>(narrowed(carry), y + k * step + j);
    }
    std::memcpy(carried + j, &carry, sizeof carry);
  }
  for (; j < n; ++j) {
    for (int k = 0; k < height; ++k) {
      const T value = x[k * step + j];
      carried[j] = F::join(carried[j], static_cast<double>(static_cast<float>(value)));
      y[k * step + j] = static_cast<T>(static_cast<float>(carried[j]));
    }
  }
}

// The same of products some of which are so small as SmallProduct says, whole registers of them.
// Where `scale` is not one, a product is kept larger by it.
template <int height, bool past, class T>
void scan_small_strip(const T* x, T* y, int64_t step, int64_t n, double* carried, double* scale) {
  using Small = SmallProduct;
  for (int64_t j = 0; j < n; j += float_lanes) {
    WideFloats value, scales, seen;
    std::memcpy(&value, carried + j, sizeof value);
    std::memcpy(&scales, scale + j, sizeof scales);
    for (int k = 0; k < height; ++k) {
      const WideFloats next = widened(load_floats(x + k * step + j));
      for (int h = 0; h < 2; ++h) {
        ScanDoubles product = value.half[h] * next.half[h];
        const ScanDoubles size = product < 0.0 ? -product : product;
        const auto scaled = scales.half[h] != 1.0;
        const auto falls = ~scaled & (size < Small::tiny) & (size > 0.0);
        const auto rises = scaled & (size > Small::back), gone = scaled & (size < Small::none);
        const ScanDoubles other = falls ? ScanDoubles{} + Small::up : ScanDoubles{} + 1 / Small::up;
        product *= falls | rises ? other : gone ? ScanDoubles{} : ScanDoubles{} + 1.0;
        scales.half[h] = falls          ? ScanDoubles{} + Small::up
                         : rises | gone ? ScanDoubles{} + 1.0
                                        : scales.half[h];
        value.half[h] = product;
        seen.half[h] = scales.half[h] != 1.0 ? product * 0.0 : product;
      }
      store_floats<past>(narrowed(seen), y + k * step + j);
    }
    std::memcpy(carried + j, &value, sizeof value);
    std::memcpy(scale + j, &scales, sizeof scales);
  }
}

// Whether some of n products will likely leave the normal numbers soon, or have been scaled.
inline bool nearly_gone(const double* carried, const double* scale, int64_t n) {
  auto gone = ScanDoubles{} != 0.0;
  for (int64_t j = 0; j < n; j += double_lanes) {
    ScanDoubles product, scales;
    std::memcpy(&product, carried + j, sizeof product);
    std::memcpy(&scales, scale + j, sizeof scales);
    const auto small = (product < SmallProduct::tiny) & (product > -SmallProduct::tiny);
    gone |= (small & (product != 0.0)) | (scales != 1.0);
  }
  decltype(gone) none = {};
  return std::memcmp(&gone, &none, sizeof gone) != 0;
}

// n columns, at most column_block, of `size` elements that lie `step` apart.
template <class F, bool past, class T>
void scan_float_columns(const T* x, T* y, int64_t size, int64_t step, int64_t n) {
  constexpr int height = 4, seldom = 32;
  alignas(64) double carried[column_block], scale[column_block];
  std::fill_n(carried, n, F::neutral);
  std::fill_n(scale, n, 1.0);
  const int64_t whole = n & ~static_cast<int64_t>(float_lanes - 1);
  bool gone = false;
  int64_t i = 0;
  for (; i + height <= size; i += height, x += height * step, y += height * step) {
    if (F::neutral == 1 && i % seldom == 0) gone = nearly_gone(carried, scale, whole);
    const int64_t small = F::neutral == 1 && gone ? whole : 0;
    if (small) scan_small_strip<height, past>(x, y, step, small, carried, scale);
    scan_column_strip<F, height, past>(x + small, y + small, step, n - small, carried + small);
  }
  for (int64_t j = 0; j < whole; ++j) carried[j] /= scale[j];
  for (; i < size; ++i, x += step, y += step) {
    scan_column_strip<F, 1, past>(x, y, step, n, carried);
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
