// Rows of floats, or of numbers of 16 bits, as registers of floats, two at a time: of bfloat16 the
// first halves of words and the second ones, which need no instructions that sort lanes.
#pragma once

#include <algorithm>
#include <cstring>

#include "flambeau/cpu/kernels/math/vector_math.h"
#include "flambeau/cpu/kernels/simd/blocks.h"

namespace flambeau::cpu::ISA_NAMESPACE {

typedef uint16_t HalfWords __attribute__((vector_size(register_bytes / 2)));
inline Words widened(HalfWords x) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(x)));
#else
  return std::bit_cast<Words>(_mm256_cvtepu16_epi32(std::bit_cast<__m128i>(x)));
#endif
}

inline Floats floats_at(const float* x) { return load_floats(x); }
inline Floats floats_at(const BFloat16* x) {
  HalfWords bits;
  std::memcpy(&bits, x, sizeof bits);
  return std::bit_cast<Floats>(widened(bits) << 16);
}
inline Floats floats_at(const Half* x) {
  alignas(register_bytes) float values[float_lanes];
  load_block<float_lanes>(x, values);
  return load_floats(values);
}

constexpr int64_t two_registers = 2 * float_lanes;  // of elements
// In an order of their own: see place_in_two.
template <class T>
inline void two_registers_at(const T* x, Floats* values) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    Words bits;
    std::memcpy(&bits, x, sizeof bits);
    values[0] = std::bit_cast<Floats>(bits << 16);
    values[1] = std::bit_cast<Floats>(bits & 0xffff0000);
  } else {
    values[0] = floats_at(x);
    values[1] = floats_at(x + float_lanes);
  }
}
// Where element i is found there.
template <class T>
constexpr int64_t place_in_two(int64_t i) {
  if (!std::is_same_v<T, BFloat16>) return i;
  return i % 2 * float_lanes + i / 2;
}

// `streams`: non-temporally, to the begin of a register's share of memory.
template <class T>
inline void store_two_registers(const Floats* values, T* out, bool streams) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const Floats both = upper_halves(rounded_usual(values[0]), rounded_usual(values[1]));
    float* to = reinterpret_cast<float*>(out);
    if (streams) {
      stream_floats(both, to);
    } else {
      store_floats(both, to);
    }
  } else if constexpr (std::is_same_v<T, float>) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      if (streams) {
        stream_floats(values[k], out + k * float_lanes);
      } else {
        store_floats(values[k], out + k * float_lanes);
      }
    }
  } else {
    float lanes[two_registers];
    std::memcpy(lanes, values, sizeof lanes);
    store_block<two_registers>(lanes, out);
  }
}

// The processor alone begins to read too late.
template <int64_t n, int64_t bytes = bytes_ahead, class T>
inline void read_ahead(const T* x) {
#pragma GCC unroll 8
  for (int64_t at = 0; at < n * static_cast<int64_t>(sizeof(T)); at += 64) {
    ask_second_level(reinterpret_cast<const char*>(x) + at + bytes);
  }
}

// out = f(x), where f(values, i) replaces two registers of values, those from element i on: of the
// same type, or floats in the order of two registers, all of which may be read.
template <class In, class T, class F>
void transform_by_two(const In* x, T* out, int64_t n, bool beyond_cache, const F& f) {
  const bool streams =
      beyond_cache &&
      reinterpret_cast<uintptr_t>(out) % static_cast<uintptr_t>(register_bytes) == 0;
  int64_t i = 0;
  for (; i + two_registers <= n; i += two_registers) {
    if constexpr (std::is_same_v<In, T>) read_ahead<two_registers>(x + i);
    Floats values[2];
    two_registers_at(x + i, values);
    f(values, i);
    store_two_registers(values, out + i, streams);
  }
  if (i < n) {
    In some[two_registers] = {};
    std::copy_n(x + i, std::is_same_v<In, T> ? n - i : two_registers, some);
    Floats values[2];
    two_registers_at(some, values);
    f(values, i);
    T results[two_registers];
    store_two_registers(values, results, false);
    std::copy_n(results, n - i, out + i);
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
