// Running sums and products of a row of floats in double precision, a register at a time: inside a
// register by steps of one, two and four lanes, and what came before by one more. So no element
// waits for the one before it.
#pragma once

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/kernels/simd/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {

constexpr int double_lanes = register_bytes / sizeof(double);
typedef double ScanDoubles __attribute__((vector_size(register_bytes)));

struct RunningSum {
  static constexpr double neutral = 0;
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
};
struct RunningProduct {
  static constexpr double neutral = 1;
  template <class V>
  static V join(V a, V b) {
    return a * b;
  }
};

// Joins every lane with the one `step` lanes before it, and so on in twice as large steps.
template <class F, int step = 1, class V>
[[gnu::always_inline]] inline V scan_lanes(V v) {
  if constexpr (step == double_lanes) {
    return v;
  } else {
    constexpr auto neutral = static_cast<std::remove_cvref_t<decltype(v[0])>>(F::neutral);
    const V before = [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(v, V{} + neutral, (I < step ? double_lanes : I - step)...);
    }
    (std::make_integer_sequence<int, double_lanes>());
    return scan_lanes<F, 2 * step>(F::join(before, v));
  }
}
template <class V>
inline V last_lane(V v) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I * 0 + double_lanes - 1)...);
  }
  (std::make_integer_sequence<int, double_lanes>());
}

inline ScanDoubles widened(const float* from) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<ScanDoubles>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from)));
#else
  return std::bit_cast<ScanDoubles>(_mm256_cvtps_pd(_mm_loadu_ps(from)));
#endif
}
inline void store_narrowed(ScanDoubles v, float* to) {
#if FLAMBEAU_ISA_RANK >= 4
  _mm256_storeu_ps(to, _mm512_maskz_cvtpd_ps(0xff, std::bit_cast<__m512d>(v)));
#else
  _mm_storeu_ps(to, _mm256_cvtpd_ps(std::bit_cast<__m256d>(v)));
#endif
}

// The least and largest size of products of neighbours, apart from what they are joined with:
// beyond these, other orders of multiplication have other results.
struct ScanRange {
  ScanDoubles least = ScanDoubles{} + 1.0, largest = ScanDoubles{} + 1.0;
  void look_at(ScanDoubles v) {
    look_at_least(v);
    look_at_largest(v);
  }
#if FLAMBEAU_ISA_RANK >= 4
  void look_at_least(ScanDoubles v) { least = joined<10>(v, least); }  // of sizes, without signs
  void look_at_largest(ScanDoubles v) { largest = joined<11>(v, largest); }
  template <int what>
  static ScanDoubles joined(ScanDoubles v, ScanDoubles so_far) {
    return std::bit_cast<ScanDoubles>(_mm512_maskz_range_pd(0xff, std::bit_cast<__m512d>(v),
                                                            std::bit_cast<__m512d>(so_far), what));
  }
#else
  void look_at_least(ScanDoubles v) { least = smaller_or_second(larger_or_second(v, -v), least); }
  void look_at_largest(ScanDoubles v) {
    largest = larger_or_second(larger_or_second(v, -v), largest);
  }
#endif
  [[nodiscard]] bool is_normal() const {
    bool normal = true;
    for (int j = 0; j < double_lanes; ++j) {
      normal &= least[j] >= std::numeric_limits<double>::min();
      normal &= largest[j] <= std::numeric_limits<double>::max();
    }
    return normal;
  }
};

// n floats, whole registers of them, from what `carried` tells. False, and nothing is told, if the
// order of multiplication would matter.
template <class F>
inline bool scan_floats(const float* x, float* y, int64_t n, double& carried) {
  constexpr bool product = F::neutral == 1;
  ScanDoubles carry = ScanDoubles{} + carried;
  ScanRange range;
  for (int64_t i = 0; i < n; i += double_lanes) {
    const ScanDoubles within = scan_lanes<F>(widened(x + i));
    if constexpr (product) range.look_at(within);
    store_narrowed(F::join(carry, within), y + i);
    carry = F::join(carry, last_lane(within));
  }
  if (product && !range.is_normal()) return false;
  carried = carry[0];
  return true;
}

// One element after the other.
template <class F>
inline void scan_single_floats(const float* x, float* y, int64_t n, double& carried) {
  for (int64_t i = 0; i < n; ++i) {
    carried = F::join(carried, static_cast<double>(x[i]));
    y[i] = static_cast<float>(carried);
  }
}

// A row of floats or of numbers that are computed as such; with `beyond_cache` nobody will read the
// results soon.
template <class F, class T>
void scan_row_of_floats(const T* x, T* y, int64_t n, bool beyond_cache) {
  constexpr int64_t chunk = 512;
  float from[is_reduced_type<T> ? chunk : 1];
  alignas(64) float scratch[chunk];
  alignas(64) T stored[is_reduced_type<T> ? chunk : 1];
  double carried = F::neutral;
  // Where it may be read again, as products may have to be, the input is not written over.
  const bool direct = !is_reduced_type<T> && !beyond_cache && x != y;
  // The first chunk ends at a cache line, if the array is aligned to elements at all.
  const auto past_line = static_cast<int64_t>(reinterpret_cast<uintptr_t>(y) % 64 / sizeof(T));
  int64_t count = std::min(n, beyond_cache ? chunk - past_line : chunk);
  for (int64_t i = 0; i < n; i += count, count = std::min(chunk, n - i)) {
    const float* values = computed(x + i, from, count);
    float* to = direct ? reinterpret_cast<float*>(y + i) : scratch;
    const int64_t whole = count & ~static_cast<int64_t>(double_lanes - 1);
    const bool scanned = scan_floats<F>(values, to, whole, carried);
    const int64_t done = scanned ? whole : 0;
    scan_single_floats<F>(values + done, to + done, count - done, carried);
    if (direct) continue;
    const T* results = reinterpret_cast<const T*>(to);
    if constexpr (is_reduced_type<T>) {
      store_row(to, stored, count);
      results = stored;
    }
    const auto bytes = count * static_cast<int64_t>(sizeof(T));
    if (beyond_cache) {
      copy_non_temporal(reinterpret_cast<char*>(y + i), reinterpret_cast<const char*>(results),
                        bytes);
    } else {
      std::memcpy(y + i, results, bytes);
    }
  }
  if (beyond_cache) _mm_sfence();
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
