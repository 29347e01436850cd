// Moving short runs of elements between memory and the type that they are computed in. GCC turns
// such loops into vector code by itself, except for half precision, which needs its instructions
// named.
#pragma once

#include <immintrin.h>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// The integer without a sign whose elements have the same bits, for what does not ask for a sign.
constexpr DType without_sign(DType dtype) {
  switch (dtype) {
    case DType::int8: return DType::uint8;
    case DType::int16: return DType::uint16;
    case DType::int32: return DType::uint32;
    case DType::int64: return DType::uint64;
    default: return dtype;
  }
}

// The same address, of which the compiler knows nothing. GCC 12 turns a loop over integer blocks
// into AVX-512 code that loses elements of the last ones when it sees how the addresses proceed.
template <class T>
inline const T* opaque(const T* address) {
  asm("" : "+r"(address));
  return address;
}

template <int N, class T>
inline void load_block(const T* x, ComputeType<T>* out) {
#if FLAMBEAU_ISA_RANK >= 4
  // Stored as wide as they are read again: two halves would have to reach memory first.
  if constexpr (std::is_same_v<T, Half> && N % 16 == 0) {
#pragma GCC unroll 4
    for (int j = 0; j < N; j += 16) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + j));
      _mm512_storeu_ps(out + j, _mm512_maskz_cvtph_ps(0xffff, bits));
    }
    return;
  }
#endif
  if constexpr (std::is_same_v<T, Half> && N % 8 == 0) {
#pragma GCC unroll 8
    for (int j = 0; j < N; j += 8) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + j));
      _mm256_storeu_ps(out + j, _mm256_cvtph_ps(bits));
    }
  } else {
    for (int j = 0; j < N; ++j) out[j] = static_cast<ComputeType<T>>(x[j]);
  }
}

template <int N, class T, class V>
inline void store_block(const V* values, T* out) {
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<V, float> && N % 8 == 0) {
#pragma GCC unroll 8
    for (int j = 0; j < N; j += 8) {
      const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(values + j), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j), bits);
    }
  } else {
    for (int j = 0; j < N; ++j) out[j] = static_cast<T>(values[j]);
  }
}

template <class T>
inline void load_row(const T* x, ComputeType<T>* out, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) load_block<32>(x + i, out + i);
  for (; i < n; ++i) out[i] = static_cast<ComputeType<T>>(x[i]);
}
template <class T>
inline void store_row(const ComputeType<T>* values, T* out, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) store_block<32>(values + i, out + i);
  for (; i < n; ++i) out[i] = static_cast<T>(values[i]);
}

// The n elements of x in the type that they are computed in, in `scratch` unless they have it
// already.
template <class T>
const ComputeType<T>* computed(const T* x, ComputeType<T>* scratch, int64_t n) {
  if constexpr (is_reduced_type<T>) {
    load_row(x, scratch, n);
    return scratch;
  } else {
    return x;
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
