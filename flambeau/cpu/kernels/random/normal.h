// Normal samples sixteen at a time, by Box and Muller's method, as PyTorch draws them for
// contiguous memory: uniform numbers u[0..8) give the radii and u[8..16) the angles of a block.
// In float the logarithm, sine and cosine are the Cephes library's single-precision formulas, each
// multiply-add fused where PyTorch's AVX2 code fuses it, which gives its samples bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "flambeau/cpu/kernels/random/fill.h"

namespace flambeau::cpu::ISA_NAMESPACE {

inline constexpr int64_t normal_block_size = 16;

// log(x) for normal x in (0, 1]: the exponent apart, a polynomial in the mantissa near 1.
inline float block_log(float x) {
  int32_t bits = std::bit_cast<int32_t>(x);
  float exponent = static_cast<float>((bits >> 23) - 126);
  float mantissa = std::bit_cast<float>((bits & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  bool low = mantissa < 0.707106781186547524f;
  exponent -= low ? 1.0f : 0.0f;
  float m = mantissa - 1.0f + (low ? mantissa : 0.0f);
  float square = m * m;
  float y = 7.0376836292e-2f;
  y = std::fma(y, m, -1.1514610310e-1f);
  y = std::fma(y, m, 1.1676998740e-1f);
  y = std::fma(y, m, -1.2420140846e-1f);
  y = std::fma(y, m, 1.4249322787e-1f);
  y = std::fma(y, m, -1.6668057665e-1f);
  y = std::fma(y, m, 2.0000714765e-1f);
  y = std::fma(y, m, -2.4999993993e-1f);
  y = std::fma(y, m, 3.3333331174e-1f);
  // log(2) in two parts, of which the first has few bits, so that its multiples are exact.
  y = std::fma(y * m, square, exponent * -2.12194440e-4f);
  y = std::fma(-0.5f, square, y);
  return std::fma(exponent, 0.693359375f, m + y);
}

struct SineCosine {
  float sine, cosine;
};

// Sine and cosine of an angle in [0, 2 pi]: reduced by the nearest even multiple of pi/4, which is
// subtracted in three parts, then a polynomial for each.
inline SineCosine block_sine_cosine(float angle) {
  int32_t octant = (static_cast<int32_t>(angle * 1.27323954473516f) + 1) & ~1;
  float multiple = static_cast<float>(octant);
  float x = std::fma(multiple, -0.78515625f, angle);
  x = std::fma(multiple, -2.4187564849853515625e-4f, x);
  x = std::fma(multiple, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c = 2.443315711809948e-5f;
  c = std::fma(c, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f);
  c = std::fma(c * z, z, -0.5f * z) + 1.0f;
  float s = -1.9515295891e-4f;
  s = std::fma(s, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f);
  s = std::fma(s * z, x, x);
  bool swapped = (octant & 2) != 0;
  float sine = swapped ? c : s;
  float cosine = swapped ? s : c;
  bool sine_negative = (octant & 4) != 0;
  bool cosine_negative = ((octant + 2) & 4) != 0;
  return {sine_negative ? -sine : sine, cosine_negative ? -cosine : cosine};
}

// One block of samples from one block of words.
inline void normal_block(const uint32_t* words, float* out, float mean, float deviation) {
  for (int i = 0; i < 8; ++i) {
    float radius = std::sqrt(-2.0f * block_log(1.0f - unit_float(words[i])));
    float angle = static_cast<float>(2 * std::numbers::pi) * unit_float(words[i + 8]);
    auto [sine, cosine] = block_sine_cosine(angle);
    out[i] = std::fma(radius * cosine, deviation, mean);
    out[i + 8] = std::fma(radius * sine, deviation, mean);
  }
}

inline void normal_block(const uint32_t* words, double* out, double mean, double deviation) {
  auto unit = [&](int i) { return unit_double(uint64_t{words[2 * i]} << 32 | words[2 * i + 1]); };
  for (int i = 0; i < 8; ++i) {
    double radius = std::sqrt(-2.0 * std::log(1.0 - unit(i)));
    double angle = 2 * std::numbers::pi * unit(i + 8);
    out[i] = std::fma(radius * std::cos(angle), deviation, mean);
    out[i + 8] = std::fma(radius * std::sin(angle), deviation, mean);
  }
}

// Fills `count` >= 16 contiguous elements. What does not fill a block at the end is made by a
// block of fresh numbers over the last sixteen elements; float and double have by then drawn, and
// waste, numbers for the remainder too.
template <class T>
void fill_normal_blocks(CpuGenerator& generator, T* data, int64_t count, double mean,
                        double deviation) {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr bool direct = std::is_same_v<T, Real>;
  constexpr int64_t block_words_count = normal_block_size * sizeof(Real) / sizeof(uint32_t);
  constexpr int64_t chunk = 64;  // blocks whose words are drawn at once
  uint32_t words[chunk * block_words_count];
  auto make_blocks = [&](T* out, int64_t blocks) {
    generator.fill({words, static_cast<size_t>(blocks * block_words_count)});
    for (int64_t i = 0; i < blocks; ++i, out += normal_block_size) {
      const uint32_t* block_words = words + i * block_words_count;
      Real m = static_cast<Real>(mean), d = static_cast<Real>(deviation);
      if constexpr (direct) {
        normal_block(block_words, out, m, d);
      } else {
        Real wide[normal_block_size];
        normal_block(block_words, wide, m, d);
        for (int j = 0; j < normal_block_size; ++j) out[j] = static_cast<T>(wide[j]);
      }
    }
  };
  int64_t blocks = count / normal_block_size;
  for (int64_t i = 0; i < blocks; i += chunk)
    make_blocks(data + i * normal_block_size, std::min(chunk, blocks - i));
  int64_t rest = count % normal_block_size;
  if (rest == 0) return;
  if (direct)
    generator.fill({words, static_cast<size_t>(rest * block_words_count / normal_block_size)});
  make_blocks(data + count - normal_block_size, 1);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
