// Exponentials of the rows of a matrix and their sums, which softmax and cross-entropy are made of.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>

#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/kernels/simd/rows.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Lanes of a register, and of four.
template <class C>
constexpr int one = register_bytes / sizeof(C);
template <class C>
constexpr int four = 4 * one<C>;

template <int N, class C>
inline C fold_sum(C* lane) {
  if constexpr (N == 1) {
    return lane[0];
  } else {
    for (int j = 0; j < N / 2; ++j) lane[j] += lane[j + N / 2];
    return fold_sum<N / 2>(lane);
  }
}

// e**x for x <= 0, NaN and minus infinity: all that softmax asks for; what would be subnormal is
// zero. In double precision by a Taylor polynomial on |r| <= ln 2 / 2, which a loop turns into
// vector code.
inline float exp_below(float x) {
  constexpr float least = -87.0f;
  const float power = math::exp_within(x < least ? least : x);
  return x < least ? 0.0f : power;
}
inline double exp_below(double x) {
  constexpr double least = -708.0, shift = 6755399441055744.0;  // 1.5 * 2**52
  const double clamped = x < least ? least : x;
  const double n = __builtin_rint(clamped * 1.4426950408889634074);
  const double r = (clamped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r + 1.0;
  // Adding the shift leaves the integer n in the low bits.
  const uint64_t exponent = std::bit_cast<uint64_t>(n + shift) + 1023;
  const double power = std::bit_cast<double>(exponent << 52);
  return x < least ? 0.0 : p * power;
}

// Lane by lane of one register, said so that it becomes one instruction: the larger number, without
// regard to NaN in a, and the sum.
template <class C>
struct OneRegister {
  typedef C Register __attribute__((vector_size(register_bytes)));
  static Register load(const C* from) {
    Register lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  }
  static void take_larger(const C* a, const C* b, C* out) {
    const Register larger = larger_or_second(load(a), load(b));
    std::memcpy(out, &larger, sizeof larger);
  }
  static Register exp_below(Register x) {
    if constexpr (std::is_same_v<C, float>) {
      return ISA_NAMESPACE::exp_below(x);
    } else {
      C lanes[one<C>];
      std::memcpy(lanes, &x, sizeof x);
      for (C& lane : lanes) lane = ISA_NAMESPACE::exp_below(lane);
      return load(lanes);
    }
  }
  static void add(const C* a, const C* b, C* out) {
    const Register sum = load(a) + load(b);
    std::memcpy(out, &sum, sizeof sum);
  }
};

// A register of elements of a row that has n, from element i on, filled up if fewer are left.
template <class C>
inline void load_lanes(const C* row, int64_t i, int64_t n, C* lanes) {
  if (i + one<C> <= n) return copy_lanes<one<C>>(row + i, lanes);
  std::fill_n(lanes, one<C>, -std::numeric_limits<C>::infinity());
  std::copy_n(row + i, n - i, lanes);
}

// The largest lane of a register, of which the first N are asked.
template <int N, class Register>
inline auto largest_lane(Register lanes) {
  if constexpr (N == 1) {
    return lanes[0];
  } else {
    constexpr int all = sizeof(Register) / sizeof(lanes[0]);
    const auto rotated = [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(lanes, lanes, ((I + N / 2) % all)...);
    }
    (std::make_integer_sequence<int, all>());
    return largest_lane<N / 2>(larger_or_second(lanes, rotated));
  }
}

// The largest element of a row. NaN is passed over here: it comes back through the sum of
// exponentials.
template <class C>
C row_max(const C* x, int64_t n) {
  constexpr int width = one<C>, registers = 4;
  C lanes[registers][width];
  std::fill_n(lanes[0], registers * width, -std::numeric_limits<C>::infinity());
  typename OneRegister<C>::Register best[registers];
  std::memcpy(best, lanes, sizeof best);
  int64_t i = 0;
  for (; i + registers * width <= n; i += registers * width) {
#pragma GCC unroll 4
    for (int k = 0; k < registers; ++k) {
      best[k] = larger_or_second(OneRegister<C>::load(x + i + k * width), best[k]);
    }
  }
  for (; i < n; i += width) {
    load_lanes(x, i, n, lanes[0]);
    best[0] = larger_or_second(OneRegister<C>::load(lanes[0]), best[0]);
  }
  best[0] =
      larger_or_second(larger_or_second(best[0], best[1]), larger_or_second(best[2], best[3]));
  return largest_lane<width>(best[0]);
}

// The sum of exp(x - most) over a row; the exponentials are left in `out` if Keep.
template <bool Keep, class C>
C row_exp_sum(const C* x, int64_t n, C most, C* out) {
  C lane[four<C>] = {};
  int64_t i = 0;
  for (; i + four<C> <= n; i += four<C>) {
    C v[four<C>];
    for (int j = 0; j < four<C>; ++j) v[j] = exp_below(x[i + j] - most);
    for (int j = 0; j < four<C>; ++j) lane[j] += v[j];
    if constexpr (Keep) std::memcpy(out + i, v, sizeof v);
  }
  for (; i < n; i += one<C>) {
    C v[one<C>];
    load_lanes(x, i, n, v);
    for (int j = 0; j < one<C>; ++j) v[j] = exp_below(v[j] - most);
    for (int j = 0; j < one<C>; ++j) lane[j] += v[j];
    if constexpr (Keep) std::copy_n(v, std::min<int64_t>(one<C>, n - i), out + i);
  }
  return n < four<C> ? fold_sum<one<C>>(lane) : fold_sum<four<C>>(lane);
}

// The same in SIMD registers of floats. The next row, which is likely to be the next to be asked
// for, is on its way from memory meanwhile.
template <bool Keep>
float row_exp_sum(const float* x, int64_t n, float most, float* out) {
  constexpr int width = float_lanes, registers = 4;
  Floats total[registers] = {};
  int64_t i = 0;
  for (; i + registers * width <= n; i += registers * width) {
#pragma GCC unroll 4
    for (int k = 0; k < registers; ++k) {
      const int64_t at = i + k * width;
      prefetch(x + n + at);
      const Floats power = exp_below(load_floats(x + at) - most);
      total[k] += power;
      if constexpr (Keep) store_floats(power, out + at);
    }
  }
  for (; i < n; i += width) {
    float lanes[width];
    load_lanes(x, i, n, lanes);
    const Floats power = exp_below(load_floats(lanes) - most);
    total[0] += power;
    store_floats(power, lanes);
    if constexpr (Keep) std::copy_n(lanes, std::min<int64_t>(width, n - i), out + i);
  }
  float lanes[width];
  store_floats((total[0] + total[1]) + (total[2] + total[3]), lanes);
  return fold_sum<width>(lanes);
}

// out[i] = f(x[i], i) over a row of floats in SIMD registers, whose first element is number i, and
// non-temporally if nobody will read it soon.
template <class F>
void transform_row(const float* x, float* out, int64_t n, bool beyond_cache, F f) {
  constexpr int width = float_lanes;
  int64_t i = 0;
  const auto some = [&](int64_t count) {
    float lanes[width] = {};
    std::copy_n(x + i, count, lanes);
    store_floats(f(load_floats(lanes), i), lanes);
    std::copy_n(lanes, count, out + i);
    i += count;
  };
  if (beyond_cache) {
    some(std::min<int64_t>(n, -reinterpret_cast<uintptr_t>(out) % sizeof(Floats) / sizeof(float)));
    for (; i + width <= n; i += width) stream_floats(f(load_floats(x + i), i), out + i);
  } else {
    for (; i + width <= n; i += width) store_floats(f(load_floats(x + i), i), out + i);
  }
  if (i < n) some(n - i);
}

// At most as many rows as a register has lanes, each of at least a register of elements and at most
// `middle_row`: their largest elements and the sums of exponentials in most[0] and total[0], and
// the exponentials in `out` if Keep. What is gathered along rows is folded for all of them
// together.
constexpr int64_t middle_row = 256;
template <bool Keep, class C>
void exp_sums_of_rows(const C* x, C* out, int64_t n, int64_t rows, C (&most)[one<C>][one<C>],
                      C (&total)[one<C>][one<C>]) {
  constexpr int width = one<C>;
  std::fill_n(&most[0][0], width * width, C(0));
  std::fill_n(&total[0][0], width * width, C(0));
  using Lanes = OneRegister<C>;
  C rest[width];
  for (int64_t row = 0; row < rows; ++row) {
    const C* from = x + row * n;
    auto largest = Lanes::load(from);
    int64_t i = width;
    for (; i + width <= n; i += width) largest = larger_or_second(Lanes::load(from + i), largest);
    if (i < n) {
      load_lanes(from, i, n, rest);
      largest = larger_or_second(Lanes::load(rest), largest);
    }
    std::memcpy(most[row], &largest, sizeof largest);
  }
  fold_rows<width>(most, Lanes::take_larger);
  for (int64_t row = 0; row < rows; ++row) {
    const C *from = x + row * n, top = most[0][row];
    typename Lanes::Register sum{};
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      const auto powers = Lanes::exp_below(Lanes::load(from + i) - top);
      sum += powers;
      if constexpr (Keep) std::memcpy(out + row * n + i, &powers, sizeof powers);
    }
    if (i < n) {
      load_lanes(from, i, n, rest);
      const auto powers = Lanes::exp_below(Lanes::load(rest) - top);
      sum += powers;
      std::memcpy(rest, &powers, sizeof powers);
      if constexpr (Keep) std::copy_n(rest, n - i, out + row * n + i);
    }
    std::memcpy(total[row], &sum, sizeof sum);
  }
  fold_rows<width>(total, OneRegister<C>::add);
}

// Note [Powers in one pass]
// exp(x - m) is 2**(x log2(e) - base) for a base that belongs to m, and any m among the elements,
// or near the largest one, serves as well as that for sums and quotients of floats. So m is sought
// among the first elements only, and others are read once. Where some are so far above them that
// the sum is unusual, they are asked for the largest one and added up again, while they are in the
// cache. Where the sum is unusual still, since the base was rounded that much or is no number, all
// is done without one.
constexpr auto log2_e = static_cast<float>(std::numbers::log2e);
inline bool is_usual_sum(float total, int64_t n) {
  return (total > 0x1p-16f) & (total < 64.0f * static_cast<float>(n));
}

// Bases of as many long rows as a register has lanes, or fewer.
template <class T>
void bases_of_rows(const T* x, int64_t n, int64_t rows, float* base) {
  float most[float_lanes][float_lanes] = {};
  for (int64_t row = 0; row < rows; ++row) {
    Floats values[4];
    two_registers_at(x + row * n, values);
    two_registers_at(x + row * n + two_registers, values + 2);
    store_floats(larger_or_second(larger_or_second(values[0], values[1]),
                                  larger_or_second(values[2], values[3])),
                 most[row]);
  }
  fold_rows<float_lanes>(most, OneRegister<float>::take_larger);
  for (int64_t row = 0; row < float_lanes; ++row) base[row] = most[0][row] * log2_e;
}

// The sums of a long row's powers, lane by lane. They are left in `kept` if Keep, in the order of
// two registers, of which the last ones are filled up.
template <bool Keep, class T>
Floats sum_powers(const T* row, int64_t n, float base, float* kept) {
  constexpr int64_t step = 2 * two_registers;
  Floats totals[4] = {};
  const auto add = [&](const T* x, float* to) {
#pragma GCC unroll 2
    for (int k = 0; k < 4; k += 2) {
      Floats values[2];
      two_registers_at(x + k * float_lanes, values);
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Floats power = exp2_flushed(values[j] * log2_e - base);
        totals[k + j] += power;
        if constexpr (Keep) store_floats(power, to + (k + j) * float_lanes);
      }
    }
  };
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    read_ahead<step>(row + i);
    add(row + i, kept + i);
  }
  if (i < n) {
    T rest[step];
    std::fill_n(rest, step, static_cast<T>(-std::numeric_limits<float>::infinity()));
    std::copy_n(row + i, n - i, rest);
    add(rest, kept + i);
  }
  return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

// The sum of the powers, for a base that belongs to the largest element.
template <bool Keep, class T>
[[gnu::noinline]] float sum_below_largest(const T* row, int64_t n, float& base, float* kept) {
  constexpr int64_t step = 2 * two_registers;
  Floats most[4];
  std::fill_n(most, 4, all_lanes(-std::numeric_limits<float>::infinity()));
  for (int64_t i = 0; i < n; i += step) {
    const T* x = row + std::min(i, n - step);
    Floats values[4];
    two_registers_at(x, values);
    two_registers_at(x + two_registers, values + 2);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) most[k] = larger_or_second(values[k], most[k]);
  }
  base = log2_e * largest_lane<float_lanes>(larger_or_second(larger_or_second(most[0], most[1]),
                                                             larger_or_second(most[2], most[3])));
  float totals[float_lanes];
  store_floats(sum_powers<Keep>(row, n, base, kept), totals);
  return fold_sum<float_lanes>(totals);
}

// Calls take(row, log) with the logarithm of each long row's sum of exponentials, or NaN where no
// base serves. The lanes of several rows, which stay in the cache, are folded
// together.
template <class T, class Take>
void logs_of_long_rows(const T* x, int64_t n, int64_t rows, const Take& take) {
  constexpr int width = float_lanes;
  const SubnormalsFlushed flushed;
  const int64_t together = std::clamp<int64_t>(32768 / n, 1, width);
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t some = std::min(together, rows - row);
    float base[width], total[width][width] = {};
    bases_of_rows(x + row * n, n, some, base);
    for (int64_t k = 0; k < some; ++k) {
      // The first elements of the rows after these, which are asked for a base first.
      read_ahead<2 * two_registers, 0>(x + (row + together + k) * n);
      store_floats(sum_powers<false>(x + (row + k) * n, n, base[k], nullptr), total[k]);
    }
    fold_rows<width>(total, OneRegister<float>::add);
    for (int64_t k = 0; k < some; ++k) {
      if (is_usual_sum(total[0][k], n)) continue;
      total[0][k] = sum_below_largest<false>(x + (row + k) * n, n, base[k], nullptr);
    }
    double logs[width];
    for (int k = 0; k < width; ++k) {
      logs[k] = (base[k] + math::log2(static_cast<double>(total[0][k]))) / log2_e;
    }
    for (int64_t k = 0; k < some; ++k) {
      const bool usual = is_usual_sum(total[0][k], n);
      take(row + k, usual ? logs[k] : std::numeric_limits<double>::quiet_NaN());
    }
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
