// Fills a run of elements with PyTorch's random numbers: every distribution turns the words of the
// CPU generator into values exactly as PyTorch does, and leaves the generator in the same state.
// Who calls holds the generator's mutex.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/random_words.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// --- Distributions that take a fixed number of words for each element -------------------------
// `Word` is what one element takes from the stream: 32 bits, or 64 with the first word on top.

// Uniform on [low, high). `T` is the element type, whose rounding may reach `high`; those draws
// become `low`.
template <class T>
struct Uniform {
  using Word = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Real low, high;
  T first, last;

  Uniform(double from, double to)
      : low(static_cast<Real>(from)),
        high(static_cast<Real>(to)),
        first(static_cast<T>(low)),
        last(static_cast<T>(high)) {}

  Real real(Word word) const {
    Real unit;
    if constexpr (std::is_same_v<Word, uint64_t>)
      unit = unit_double(word);
    else
      unit = unit_float(word);
    return std::fma(unit, high - low, low);
  }
  T operator()(Word word) const {
    T value = static_cast<T>(real(word));
    return value == last ? first : value;
  }
};

// `count` uniform numbers of half precision, converted by whole registers.
template <class WordAt>
void fill_half(Half* out, int64_t count, const Uniform<Half>& distribution, const WordAt& word) {
  constexpr int64_t chunk = 256;
  float values[chunk];
  const float last = static_cast<float>(distribution.last);
  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t n = std::min(chunk, count - begin);
    for (int64_t i = 0; i < n; ++i) values[i] = distribution.real(word(begin + i));
    store_row(values, out + begin, n);
    load_row(out + begin, values, n);
    for (int64_t i = 0; i < n; ++i) {
      if (values[i] == last) out[begin + i] = distribution.first;
    }
  }
}

// Integers of [base, base + range), one word each.
template <class T, class W>
struct Integer {
  using Word = W;
  Word range;
  int64_t base;
  T operator()(Word word) const {
    return static_cast<T>(static_cast<int64_t>(word % range + static_cast<uint64_t>(base)));
  }
};

// All 2^64 integers.
template <class T>
struct AnyInteger {
  using Word = uint64_t;
  T operator()(Word word) const { return static_cast<T>(static_cast<int64_t>(word)); }
};

template <class T>
struct Bernoulli {
  using Word = uint64_t;
  int64_t threshold;  // unit_double(word) < probability, asked of integers
  T hit;
  Bernoulli(double probability, double hit)
      : threshold(static_cast<int64_t>(std::ceil(probability * 0x1p53))),
        hit(static_cast<T>(hit)) {}
  T operator()(Word word) const {
    return static_cast<int64_t>(word & 0x1fffffffffffffu) < threshold ? hit : T(0);
  }
};

// log(x) for x in [2^-53, 1], within one unit in the last place, without branches or calls so that
// loops over it become vector code. Fdlibm's method: x = 2^k (1 + f), s = f / (2 + f), and an odd
// polynomial in s.
inline double vector_log(double x) {
  int64_t bits = std::bit_cast<int64_t>(x);
  constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd;
  int64_t exponent_bits = (bits - sqrt_half) & ~0x000fffffffffffff;
  double f = std::bit_cast<double>(bits - exponent_bits) - 1.0;
  // An integer below 2^51 in size becomes a double through the bit pattern of 1.5 * 2^52.
  double k = std::bit_cast<double>((exponent_bits >> 52) + 0x4338000000000000) - 0x1.8p52;
  double s = f / (2.0 + f);
  double z = s * s;
  double r = 1.479819860511658591e-01;
  r = r * z + 1.531383769920937332e-01;
  r = r * z + 1.818357216161805012e-01;
  r = r * z + 2.222219843214978396e-01;
  r = r * z + 2.857142874366239149e-01;
  r = r * z + 3.999999999940941908e-01;
  r = r * z + 6.666666666666735130e-01;
  r = r * z;
  double half_square = 0.5 * f * f;
  double low = s * (half_square + r) + k * 1.90821492927058770002e-10;
  return k * 6.93147180369123816490e-01 - ((half_square - low) - f);
}

template <class T>
struct Exponential {
  using Word = uint64_t;
  double scale;
  explicit Exponential(double rate) : scale(1.0 / rate) {}
  T operator()(Word word) const {
    // Subtracted from zero, not negated: the smallest sample is 0 and never -0.
    return static_cast<T>((0.0 - vector_log(1.0 - unit_double(word))) * scale);
  }
};

// A double in T; one too large for an integer type becomes what x86 makes of it.
template <class T>
T from_double(double value) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) <= 4, int32_t, int64_t>;
    constexpr double limit = sizeof(T) <= 4 ? 0x1p31 : 0x1p63;
    const bool fits = value >= -limit && value < limit;
    return static_cast<T>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
  } else {
    return static_cast<T>(value);
  }
}

// Not the vector versions of the C library, which a loop would call and which round less well.
[[gnu::noinline]] inline double single_log(double x) { return std::log(x); }
[[gnu::noinline]] inline double single_tan(double x) { return std::tan(x); }

template <class T>
struct Geometric {
  using Word = uint64_t;
  double log_failure;  // log(1 - p)
  explicit Geometric(double p) : log_failure(std::log(1.0 - p)) {}
  T operator()(Word word) const {
    return from_double<T>(std::ceil(single_log(unit_double(word)) / log_failure));
  }
};

template <class T>
struct Cauchy {
  using Word = uint64_t;
  double median, sigma;
  T operator()(Word word) const {
    return static_cast<T>(
        std::fma(sigma, single_tan(std::numbers::pi * (unit_double(word) - 0.5)), median));
  }
};

// Draws the words of many elements at once, then maps them in a loop the compiler can vectorise:
// into a buffer first, where elements do not lie side by side.
template <class T, class Distribution>
void fill(CpuGenerator& generator, Run<T> run, const Distribution& distribution) {
  using Word = typename Distribution::Word;
  constexpr int64_t words_each =
      sizeof(Word) / sizeof(uint32_t);  // NOLINT(bugprone-sizeof-expression)
  constexpr int64_t chunk = 1248 / words_each;
  uint32_t words[chunk * words_each];
  T scratch[chunk];
  for (int64_t begin = 0; begin < run.count; begin += chunk) {
    int64_t count = std::min(chunk, run.count - begin);
    generator.fill({words, static_cast<size_t>(count * words_each)});
    auto word = [&](int64_t i) -> Word {
      if constexpr (words_each == 1)
        return words[i];
      else
        return uint64_t{words[2 * i]} << 32 | words[2 * i + 1];
    };
    T* const to = run.data + begin * run.stride;
    T* const out = run.stride == 1 ? to : scratch;
    if constexpr (std::is_same_v<Distribution, Uniform<Half>>) {
      fill_half(out, count, distribution, word);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = distribution(word(i));
    }
    if (out != to) {
      for (int64_t i = 0; i < count; ++i) to[i * run.stride] = scratch[i];
    }
  }
}

// Bernoulli draws, each with its own probability; a double probability is met by a double draw,
// any other by a float draw.
template <class T, class P>
void fill_bernoulli(CpuGenerator& generator, Run<T> run, const P* p, int64_t p_stride) {
  for (int64_t i = 0; i < run.count; ++i) {
    bool hit;
    if constexpr (std::is_same_v<P, double>)
      hit = next_unit_double(generator) < p[i * p_stride];
    else
      hit = unit_float(generator.next_uint32()) < static_cast<float>(p[i * p_stride]);
    run.data[i * run.stride] = static_cast<T>(hit);
  }
}

// --- Normal samples ---------------------------------------------------------------------------

// One standard normal sample by Box and Muller's method in double; the second of the pair waits in
// the generator.
inline double next_standard_normal(CpuGenerator& generator) {
  if (auto& waiting = generator.next_normal()) {
    double value = *waiting;
    waiting.reset();
    return value;
  }
  double angle = 2.0 * std::numbers::pi * next_unit_double(generator);
  double radius = std::sqrt(-2.0 * std::log1p(-next_unit_double(generator)));
  generator.next_normal() = radius * std::sin(angle);
  return radius * std::cos(angle);
}

template <class T>
void fill_normal_serially(CpuGenerator& generator, Run<T> run, double mean, double deviation) {
  for (int64_t i = 0; i < run.count; ++i)
    run.data[i * run.stride] =
        static_cast<T>(std::fma(next_standard_normal(generator), deviation, mean));
}

template <class T>
void fill_log_normal(CpuGenerator& generator, Run<T> run, double mean, double deviation) {
  for (int64_t i = 0; i < run.count; ++i)
    run.data[i * run.stride] =
        static_cast<T>(std::exp(std::fma(next_standard_normal(generator), deviation, mean)));
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
