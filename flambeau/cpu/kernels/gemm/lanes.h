// Registers of floats and doubles as matrix products use them: read and written whole or in part,
// and summed.
#pragma once

#include <immintrin.h>

#include <bit>

#include "flambeau/cpu/kernels/simd/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Sums stay in registers only where loops over them are unrolled whole.
#define UNROLL _Pragma("GCC unroll 16")

constexpr int vector_bytes = register_bytes;
template <class T>
constexpr int lanes = vector_bytes / sizeof(T);
// Attributes do not survive in alias templates of g++: a struct an element type holds the vectors.
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(vector_bytes)));
  typedef float unaligned __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(vector_bytes)));
  typedef double unaligned __attribute__((vector_size(vector_bytes), aligned(8), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// The first n elements, zeros behind them; and the same back to memory.
#if FLAMBEAU_ISA_RANK >= 4
inline Vector<float> load_part(const float* p, int n) {
  return _mm512_maskz_loadu_ps((1u << n) - 1u, p);
}
inline Vector<double> load_part(const double* p, int n) {
  return _mm512_maskz_loadu_pd((1u << n) - 1u, p);
}
inline void store_part(float* p, Vector<float> v, int n) {
  _mm512_mask_storeu_ps(p, (1u << n) - 1u, v);
}
inline void store_part(double* p, Vector<double> v, int n) {
  _mm512_mask_storeu_pd(p, (1u << n) - 1u, v);
}
#else
inline __m256i first_lanes(float, int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_lanes(double, int n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Vector<float> load_part(const float* p, int n) {
  return _mm256_maskload_ps(p, first_lanes(0.0f, n));
}
inline Vector<double> load_part(const double* p, int n) {
  return _mm256_maskload_pd(p, first_lanes(0.0, n));
}
inline void store_part(float* p, Vector<float> v, int n) {
  _mm256_maskstore_ps(p, first_lanes(0.0f, n), v);
}
inline void store_part(double* p, Vector<double> v, int n) {
  _mm256_maskstore_pd(p, first_lanes(0.0, n), v);
}
#endif
inline float sum(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline double sum(__m256d v) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}
#if FLAMBEAU_ISA_RANK >= 4
struct Halves {
  __m256 low, high;
};
struct DoubleHalves {
  __m256d low, high;
};
inline float sum(__m512 v) {
  const auto halves = std::bit_cast<Halves>(v);
  return sum(_mm256_add_ps(halves.low, halves.high));
}
inline double sum(__m512d v) {
  const auto halves = std::bit_cast<DoubleHalves>(v);
  return sum(_mm256_add_pd(halves.low, halves.high));
}
#endif

template <class T>
inline Vector<T> load_all(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(p);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
