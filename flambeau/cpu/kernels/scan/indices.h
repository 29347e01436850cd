// Running extremes of floats and their indices in SIMD registers. Indices are numbers of 32 bits
// until they are written.
#pragma once

#include "flambeau/cpu/kernels/scan/tiles.h"

#if FLAMBEAU_ISA_RANK >= 4
namespace flambeau::cpu::ISA_NAMESPACE {

// Extremes so far of sixteen columns, or of one row in every lane, and their indices.
struct Extremes {
  __m512 values;
  __m512i indices;
};

// Those of some registers side by side. The values of a line of memory are written at once: half of
// one takes the memory as long as a whole if it is stored non-temporally.
template <bool past, int side, class T>
[[gnu::always_inline]] inline void store_extremes(const Extremes* e, T* values, int64_t* indices) {
  if constexpr (side == 2 && is_reduced_type<T>) {
    const ScanHalves low = halves_of<T, true>(e[0].values), high = halves_of<T, true>(e[1].values);
    const auto line = [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(low, high, I...);
    }
    (std::make_integer_sequence<int, side * float_lanes>());
    store_register<past>(line, values);
  } else {
    for (int s = 0; s < side; ++s) store_floats<past, true>(e[s].values, values + s * float_lanes);
  }
#pragma GCC unroll 2
  for (int s = 0; s < side; ++s, indices += float_lanes) {
    const __m256i low = __builtin_shufflevector(e[s].indices, e[s].indices, 0, 1, 2, 3);
    const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, e[s].indices, 1);
    store_register<past>(_mm512_maskz_cvtepi32_epi64(0xff, low), indices);
    store_register<past>(_mm512_maskz_cvtepi32_epi64(0xff, high), indices + 8);
  }
}
// Registers side by side whose values fill a line of memory.
template <class T>
constexpr int registers_of_line = 4 / sizeof(T);

// `better` is the comparison by which an element takes the place of one before it.
template <int better>
[[gnu::always_inline]] inline Extremes joined(const Extremes& before, const Extremes& next,
                                              __mmask16 numbers, __mmask16 unknown) {
  const __mmask16 taken =
      unknown | _mm512_mask_cmp_ps_mask(numbers, next.values, before.values, better);
  return {_mm512_mask_mov_ps(before.values, taken, next.values),
          _mm512_mask_mov_epi32(before.indices, taken, next.indices)};
}

// `height` rows of some registers of columns from row `at` on, the first of which is at `place`.
template <int better, int height, bool past, int side, class T>
[[gnu::always_inline]] inline void scan_indices_tile(const T* x, T* values, int64_t* indices,
                                                     int64_t at, int64_t place, int64_t step,
                                                     float* best, int32_t* best_at) {
  Extremes so_far[side];
#pragma GCC unroll 2
  for (int s = 0; s < side; ++s) {
    so_far[s] = {_mm512_loadu_ps(best + s * float_lanes),
                 _mm512_loadu_si512(best_at + s * float_lanes)};
  }
#pragma GCC unroll 4
  for (int k = 0; k < height; ++k, place += step) {
    const __m512i row = _mm512_set1_epi32(static_cast<int32_t>(at + k));
    if constexpr (past) ask_second_level(x + place + height * step);
#pragma GCC unroll 2
    for (int s = 0; s < side; ++s) {
      const __m512 next = std::bit_cast<__m512>(load_floats(x + place + s * float_lanes));
      const __mmask16 unknown = _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q);
      const __mmask16 numbers = _mm512_cmp_ps_mask(so_far[s].values, so_far[s].values, _CMP_ORD_Q);
      so_far[s] = joined<better>(so_far[s], {next, row}, numbers, unknown);
    }
    store_extremes<past, side>(so_far, values + place, indices + place);
  }
#pragma GCC unroll 2
  for (int s = 0; s < side; ++s) {
    _mm512_storeu_ps(best + s * float_lanes, so_far[s].values);
    _mm512_storeu_si512(best_at + s * float_lanes, so_far[s].indices);
  }
}
// The same of n columns, whole registers of them.
template <int better, int height, bool past, class T>
void scan_indices_strip(const T* x, T* values, int64_t* indices, int64_t at, int64_t step,
                        int64_t n, float* best, int32_t* best_at) {
  constexpr int side = registers_of_line<T>;
  int64_t j = 0;
  for (; j + side * float_lanes <= n; j += side * float_lanes) {
    scan_indices_tile<better, height, past, side>(x, values, indices, at, at * step + j, step,
                                                  best + j, best_at + j);
  }
  for (; j < n; j += float_lanes) {
    scan_indices_tile<better, height, false, 1>(x, values, indices, at, at * step + j, step,
                                                best + j, best_at + j);
  }
}

// n columns, whole registers of them and at most column_block.
template <int better, bool past, class T>
void scan_indices_of_columns(const T* x, T* values, int64_t* indices, int64_t size, int64_t step,
                             int64_t n) {
  constexpr int height = 2;
  alignas(64) float best[column_block];
  alignas(64) int32_t best_at[column_block] = {};
  load_row(x, best, n);
  int64_t i = 0;
  for (; i + height <= size; i += height) {
    scan_indices_strip<better, height, past>(x, values, indices, i, step, n, best, best_at);
  }
  for (; i < size; ++i) {
    scan_indices_strip<better, 1, past>(x, values, indices, i, step, n, best, best_at);
  }
}

// Joins every lane with the one `distance` lanes before it, and so on in twice as large steps. The
// first lanes are combined with the extremes so far, as all of them are in the end. Without NaN.
template <int better, int distance = 1>
[[gnu::always_inline]] inline Extremes scan_indices_in_register(const Extremes& before,
                                                                const Extremes& next) {
  constexpr __mmask16 all = 0xffff;
  if constexpr (distance == 16) {
    return joined<better>(before, next, all, 0);
  } else {
    const __m512i bits = _mm512_castps_si512(next.values);
    const __m512i bits_before = _mm512_castps_si512(before.values);
    const Extremes moved{
        _mm512_castsi512_ps(_mm512_maskz_alignr_epi32(all, bits, bits_before, 16 - distance)),
        _mm512_maskz_alignr_epi32(all, next.indices, before.indices, 16 - distance)};
    return scan_indices_in_register<better, 2 * distance>(before,
                                                          joined<better>(moved, next, all, 0));
  }
}

// Of sixteen elements of a row none of which is taken, only what is known is written.
template <int better, bool past, class T>
void scan_indices_of_row(const T* x, T* values, int64_t* indices, int64_t size) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i last = _mm512_set1_epi32(15);
  Extremes so_far{_mm512_set1_ps(static_cast<float>(x[0])), _mm512_setzero_si512()};
  const auto singly = [&](int64_t begin, int64_t end) {
    float best = so_far.values[0];
    int64_t at = std::bit_cast<ScanWords>(so_far.indices)[0];
    for (int64_t i = begin; i < end; ++i) {
      const float value = static_cast<float>(x[i]);
      const bool as_good = better == _CMP_GE_OQ ? value >= best : value <= best;
      const bool taken = (value != value) | ((best == best) & as_good);
      best = taken ? value : best;
      at = taken ? i : at;
      values[i] = static_cast<T>(best);
      indices[i] = at;
    }
    so_far = {_mm512_set1_ps(best), _mm512_set1_epi32(static_cast<int32_t>(at))};
  };
  const auto take = [&]<int side>(int64_t i, std::integral_constant<int, side>) {
    Extremes next[side], result[side];
    unsigned unknown = 0;
#pragma GCC unroll 2
    for (int s = 0; s < side; ++s) {
      const int64_t from = i + s * float_lanes;
      next[s] = {std::bit_cast<__m512>(load_floats(x + from)),
                 _mm512_add_epi32(_mm512_set1_epi32(static_cast<int32_t>(from)), count)};
      unknown |= _mm512_cmp_ps_mask(next[s].values, so_far.values, _CMP_UNORD_Q);
    }
    if (unknown) [[unlikely]]
      return singly(i, i + side * float_lanes);
#pragma GCC unroll 2
    for (int s = 0; s < side; ++s) {
      result[s] = so_far;
      if (_mm512_cmp_ps_mask(next[s].values, so_far.values, better)) {
        result[s] = scan_indices_in_register<better>(so_far, next[s]);
        so_far = {_mm512_maskz_permutexvar_ps(0xffff, last, result[s].values),
                  _mm512_maskz_permutexvar_epi32(0xffff, last, result[s].indices)};
      }
    }
    store_extremes<past, side>(result, values + i, indices + i);
  };
  constexpr std::integral_constant<int, registers_of_line<T>> line;
  int64_t i = 0;
  for (; i + line * float_lanes <= size; i += line * float_lanes) take(i, line);
  for (; i + float_lanes <= size; i += float_lanes) take(i, std::integral_constant<int, 1>());
  singly(i, size);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
#endif
