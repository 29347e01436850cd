// Complex numbers whose parts alternate in registers of floats or doubles. GCC would sort the parts
// apart, and back.
#pragma once

#include <complex>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/doubles.h"

namespace flambeau::cpu::ISA_NAMESPACE {

template <class R, int... I>
inline R product_of_pairs(R a, R b, std::integer_sequence<int, I...>) {
  const R signs = {(I % 2 == 0 ? -1.0f : 1.0f)...};
  const R real = __builtin_shufflevector(a, a, (I & ~1)...);
  const R imaginary = __builtin_shufflevector(a, a, (I | 1)...);
  return real * b + imaginary * signs * __builtin_shufflevector(b, b, (I ^ 1)...);
}
inline Floats product_of_pairs(Floats a, Floats b) {
  return product_of_pairs(a, b, std::make_integer_sequence<int, float_lanes>());
}
inline Doubles product_of_pairs(Doubles a, Doubles b) {
  return product_of_pairs(a, b, std::make_integer_sequence<int, double_lanes>());
}
// The same number in all pairs.
inline Floats all_pairs(std::complex<float> x) {
  return std::bit_cast<Floats>(Doubles{} + std::bit_cast<double>(x));
}

// Quotients of complex numbers, in double, where nothing overflows on the way; those of infinities,
// and by zero, as the C library has them. In fused steps, which registers take too.
template <class Rare>
std::complex<float> complex_quotient(std::complex<float> a, std::complex<float> b, Rare rare) {
  const double p = a.real(), q = a.imag(), r = b.real(), s = b.imag();
  const double size = std::fma(r, r, s * s);
  const double real = std::fma(p, r, q * s) / size, imaginary = std::fma(q, r, p * -s) / size;
  if (!math::isfinite(real) || !math::isfinite(imaginary)) [[unlikely]]
    return rare(a, b);
  return {static_cast<float>(real), static_cast<float>(imaginary)};
}
// For as many numbers as a register has doubles for both parts of; false where a result is not
// finite.
template <int... I>
inline bool quotient_of_pairs(const float* a, const float* b, float* out,
                              std::integer_sequence<int, I...>) {
  const auto wide = [](const float* from) {
    HalfFloats lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return __builtin_convertvector(lanes, Doubles);
  };
  const Doubles x = wide(a), y = wide(b), signs = {(I % 2 == 0 ? 1.0 : -1.0)...};
  const Doubles real = __builtin_shufflevector(y, y, (I & ~1)...);
  const Doubles imaginary = __builtin_shufflevector(y, y, (I | 1)...);
  const Doubles size = fused(real, real, imaginary * imaginary);
  const Doubles swapped = __builtin_shufflevector(x, x, (I ^ 1)...) * (imaginary * signs);
  const Doubles quotient = fused(x, real, swapped) / size, zeros = quotient - quotient;
  NanSeen seen;
  seen.look_at(zeros, zeros);
  const HalfFloats result = __builtin_convertvector(quotient, HalfFloats);
  std::memcpy(out, &result, sizeof result);
  return !seen.any();
}
template <class Rare>
Floats quotient_of_pairs(Floats a, Floats b, Rare rare) {
  using C = std::complex<float>;
  float from[float_lanes], by[float_lanes], scratch[float_lanes];
  store_floats(a, from);
  store_floats(b, by);
  for (int half = 0; half < float_lanes; half += double_lanes) {
    if (quotient_of_pairs(from + half, by + half, scratch + half,
                          std::make_integer_sequence<int, double_lanes>())) [[likely]]
      continue;
    for (int i = half; i < half + double_lanes; i += 2) {
      const C quotient = complex_quotient<Rare>({from[i], from[i + 1]}, {by[i], by[i + 1]}, rare);
      scratch[i] = quotient.real();
      scratch[i + 1] = quotient.imag();
    }
  }
  return load_floats(scratch);
}

inline Floats quotient_of_pairs(Floats a, Floats b) {
  using C = std::complex<float>;
  return quotient_of_pairs(a, b, [](C x, C y) { return x / y; });
}
// The square of the size of each number, in both of its lanes.
template <int... I>
inline Floats squares_of_pairs(Floats x, std::integer_sequence<int, I...>) {
  const Floats squares = x * x;
  return squares + __builtin_shufflevector(squares, squares, (I ^ 1)...);
}
inline Floats squares_of_pairs(Floats x) {
  return squares_of_pairs(x, std::make_integer_sequence<int, float_lanes>());
}

// out = f(in...), where f takes registers R of pairs. The driver hands out whole registers alone,
// as it does for whatever costs more than an addition.
template <class R>
inline R register_at(const char* place) {
  R lanes;
  std::memcpy(&lanes, place, sizeof lanes);
  return lanes;
}
template <class R, class F, size_t... K>
void pairs_row(const void* formula, char* const* data, int64_t bytes, std::index_sequence<K...>) {
  const F f = *static_cast<const F*>(formula);
  for (int64_t at = 0; at < bytes; at += register_bytes) {
    const R result = f(register_at<R>(data[K + 1] + at)...);
    std::memcpy(data[0] + at, &result, sizeof result);
  }
}
template <int inputs, class R = Floats, class F>
void pairs_loop(const TensorIter& iter, const F& f, int cost = 2) {
  static constexpr int64_t size = std::is_same_v<R, Floats> ? 8 : 16;
  static constexpr ElementwiseLoop loop{
      inputs,
      {size, size, size, size},
      [](const void* formula, char* const* data, int64_t n, bool) {
        pairs_row<R, F>(formula, data, n * size, std::make_index_sequence<inputs>());
      }};
  run_elementwise(iter, loop, &f, cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
