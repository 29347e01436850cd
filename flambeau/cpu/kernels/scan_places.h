// Running extremes of floats and their places by registers. Places are numbers of 32 bits until
// they are written.
#pragma once

#include "flambeau/cpu/kernels/scan_tiles.h"

#if FLAMBEAU_ISA_RANK >= 4
namespace flambeau::cpu::ISA_NAMESPACE {

// Extremes so far of sixteen columns, or of one row in every lane, and their places.
struct Extremes {
  __m512 values;
  __m512i places;
};

template <bool past, class T>
[[gnu::always_inline]] inline void store_extremes(const Extremes& e, T* values, int64_t* places) {
  store_floats<past, true>(std::bit_cast<ScanFloats>(e.values), values);
  const __m256i low = _mm512_castsi512_si256(e.places);
  const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, e.places, 1);
  store_register<past>(_mm512_maskz_cvtepi32_epi64(0xff, low), places);
  store_register<past>(_mm512_maskz_cvtepi32_epi64(0xff, high), places + 8);
}

// `better` is the comparison by which an element takes the place of one before it.
template <int better>
[[gnu::always_inline]] inline Extremes joined(const Extremes& before, const Extremes& next,
                                              __mmask16 numbers, __mmask16 unknown) {
  const __mmask16 taken =
      unknown | _mm512_mask_cmp_ps_mask(numbers, next.values, before.values, better);
  return {_mm512_mask_mov_ps(before.values, taken, next.values),
          _mm512_mask_mov_epi32(before.places, taken, next.places)};
}

// `height` rows of whole registers of columns from row `at` on.
template <int better, int height, bool past, class T>
void scan_places_strip(const T* x, T* values, int64_t* places, int64_t at, int64_t step, int64_t n,
                       float* best, int32_t* best_at) {
  for (int64_t j = 0; j < n; j += float_lanes) {
    Extremes so_far{_mm512_loadu_ps(best + j), _mm512_loadu_si512(best_at + j)};
#pragma GCC unroll 4
    for (int k = 0; k < height; ++k) {
      const int64_t place = (at + k) * step + j;
      const __m512 next = std::bit_cast<__m512>(load_floats(x + place));
      const __mmask16 unknown = _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q);
      const __mmask16 numbers = _mm512_cmp_ps_mask(so_far.values, so_far.values, _CMP_ORD_Q);
      const __m512i row = _mm512_set1_epi32(static_cast<int32_t>(at + k));
      so_far = joined<better>(so_far, {next, row}, numbers, unknown);
      store_extremes<past>(so_far, values + place, places + place);
    }
    _mm512_storeu_ps(best + j, so_far.values);
    _mm512_storeu_si512(best_at + j, so_far.places);
  }
}

// n columns, whole registers of them and at most column_block.
template <int better, bool past, class T>
void scan_places_of_columns(const T* x, T* values, int64_t* places, int64_t size, int64_t step,
                            int64_t n) {
  constexpr int height = 4;
  alignas(64) float best[column_block];
  alignas(64) int32_t best_at[column_block] = {};
  load_row(x, best, n);
  int64_t i = 0;
  for (; i + height <= size; i += height) {
    scan_places_strip<better, height, past>(x, values, places, i, step, n, best, best_at);
  }
  for (; i < size; ++i) {
    scan_places_strip<better, 1, past>(x, values, places, i, step, n, best, best_at);
  }
}

// Joins every lane with the one `distance` lanes before it, and so on in twice as large steps. The
// first lanes meet the extremes so far, which they all are to meet in the end. Without NaN.
template <int better, int distance = 1>
[[gnu::always_inline]] inline Extremes scan_places_in_register(const Extremes& before,
                                                               const Extremes& next) {
  constexpr __mmask16 all = 0xffff;
  if constexpr (distance == 16) {
    return joined<better>(before, next, all, 0);
  } else {
    const __m512i bits = _mm512_castps_si512(next.values);
    const __m512i bits_before = _mm512_castps_si512(before.values);
    const Extremes moved{
        _mm512_castsi512_ps(_mm512_maskz_alignr_epi32(all, bits, bits_before, 16 - distance)),
        _mm512_maskz_alignr_epi32(all, next.places, before.places, 16 - distance)};
    return scan_places_in_register<better, 2 * distance>(before,
                                                         joined<better>(moved, next, all, 0));
  }
}

// Of sixteen elements of a row none of which is taken, only what is known is written.
template <int better, bool past, class T>
void scan_places_of_row(const T* x, T* values, int64_t* places, int64_t size) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i last = _mm512_set1_epi32(15);
  Extremes so_far{_mm512_set1_ps(static_cast<float>(x[0])), _mm512_setzero_si512()};
  const auto singly = [&](int64_t begin, int64_t end) {
    float best = _mm512_cvtss_f32(so_far.values);
    int64_t at = _mm_cvtsi128_si32(_mm512_castsi512_si128(so_far.places));
    for (int64_t i = begin; i < end; ++i) {
      const float value = static_cast<float>(x[i]);
      const bool as_good = better == _CMP_GE_OQ ? value >= best : value <= best;
      const bool taken = (value != value) | ((best == best) & as_good);
      best = taken ? value : best;
      at = taken ? i : at;
      values[i] = static_cast<T>(best);
      places[i] = at;
    }
    so_far = {_mm512_set1_ps(best), _mm512_set1_epi32(static_cast<int32_t>(at))};
  };
  int64_t i = 0;
  for (; i + float_lanes <= size; i += float_lanes) {
    const __m512 next = std::bit_cast<__m512>(load_floats(x + i));
    const __mmask16 unknown = _mm512_cmp_ps_mask(next, so_far.values, _CMP_UNORD_Q);
    if (unknown) [[unlikely]] {
      singly(i, i + float_lanes);
      continue;
    }
    Extremes result = so_far;
    if (_mm512_cmp_ps_mask(next, so_far.values, better)) {
      const __m512i at = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int32_t>(i)), count);
      result = scan_places_in_register<better>(so_far, {next, at});
      so_far = {_mm512_maskz_permutexvar_ps(0xffff, last, result.values),
                _mm512_maskz_permutexvar_epi32(0xffff, last, result.places)};
    }
    store_extremes<past>(result, values + i, places + i);
  }
  singly(i, size);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
#endif
