// The mean of a few thousand elements, or of columns of them, and the squared distances from it.
//
// A few thousand elements at a time are added up as distances from one of them, from the mean of a
// few, or from zero: in double precision, but numbers of 16 bits in single precision, some dozens
// in a row.
// From that follow their mean and the squared distances from it, which lose little as long as the
// number was near the mean, beside the deviation. Where it was not, where squares have left the
// range of floats, and for doubles, the same elements, which are in the cache by now, are added up
// in double precision, twice: around any number, then around their mean. What is known of some
// elements and of others is put together in double precision (Chan, Golub and LeVeque).
#pragma once

#include <cmath>
#include <cstring>

#include "flambeau/cpu/kernels/reduce/loops.h"
#include "flambeau/cpu/kernels/simd/doubles.h"
#include "flambeau/cpu/kernels/simd/rows.h"

namespace flambeau::cpu::ISA_NAMESPACE {

inline double finite_or_zero(double around) { return std::isfinite(around) ? around : 0; }

// Sums of distances from some number, and of their squares.
struct Sums {
  double distances = 0, squares = 0;

  void operator+=(const Sums& other) {
    distances += other.distances;
    squares += other.squares;
  }
  // NaN, which infinite elements lead to, stays.
  [[nodiscard]] double around_mean(double count) const {
    return std::max(squares - distances * (distances / count), 0.0);
  }
  // Whether sums of elements of some type are as good as any: the mean is within a thousand
  // deviations, or four where sums are floats; then squares are neither infinite nor near the
  // smallest floats, too. Not so for NaN.
  template <class T>
  [[nodiscard]] bool good(double count) const {
    const double around = around_mean(count);
    if constexpr (!is_reduced_type<T>) return 1e6 * around >= squares;
    return 17 * around >= squares && around > 1e-30 * count && squares < 1e38;
  }
};

// What is known of some elements, or of those of each lane: the mean, as the sum of two numbers,
// and the squared distances from it.
template <class V>
struct Known {
  V mean{}, rest{}, squares{};

  static Known around(V number, V distance, V squares) {
    const V mean = number + distance, rest = distance - (mean - number);
    return {mean, rest - rest == 0 ? rest : V{}, squares};
  }
  // Of `count` elements here and `others` there.
  void join(const Known& other, double count, double others) {
    const double share = others / (count + others);
    const V apart = (other.mean - mean) + (other.rest - rest), step = apart * share;
    const V next = mean + step, taken = next - mean;
    const auto finite = apart - apart == 0;
    squares += other.squares + apart * apart * (count * share);
    rest = finite ? rest + ((mean - (next - taken)) + (step - taken)) : V{};
    mean = finite ? next : mean * (1 - share) + other.mean * share;
  }
};
struct Moments : Known<double> {
  double count = 0;

  void join(const Moments& other) {
    if (count == 0) {
      *this = other;
    } else if (other.count > 0) {
      Known::join(other, count, other.count);
      count += other.count;
    }
  }
};

// GCC finds the wide instructions for half as many numbers only.
inline Doubles widened(HalfFloats x) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Doubles>(_mm512_maskz_cvtps_pd(0xff, std::bit_cast<__m256>(x)));
#else
  return __builtin_convertvector(x, Doubles);
#endif
}
inline Doubles doubles_at(const double* x) {
  Doubles values;
  std::memcpy(&values, x, sizeof values);
  return values;
}
inline Doubles doubles_at(const float* x) {
  HalfFloats values;
  std::memcpy(&values, x, sizeof values);
  return widened(values);
}
template <class T>
inline Doubles doubles_at(const T* x) {
  alignas(register_bytes) float values[double_lanes];
  load_block<double_lanes>(x, values);
  return doubles_at(values);
}
// Both halves of a register added up.
inline Doubles both_halves(Floats x) {
  HalfFloats halves[2];
  std::memcpy(halves, &x, sizeof x);
  return widened(halves[0]) + widened(halves[1]);
}

template <class T>
Sums double_sums(const T* x, int64_t n, double around) {
  constexpr int lanes = double_lanes, registers = 4;
  Doubles distances[registers] = {}, squares[registers] = {};
  int64_t i = 0;
  for (; i + lanes * registers <= n; i += lanes * registers) {
    read_ahead<lanes * registers>(x + i);
#pragma GCC unroll 4
    for (int k = 0; k < registers; ++k) {
      const Doubles distance = doubles_at(x + i + k * lanes) - around;
      distances[k] += distance;
      squares[k] += distance * distance;
    }
  }
  Sums all;
  const Doubles d = (distances[0] + distances[1]) + (distances[2] + distances[3]);
  const Doubles s = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  for (int lane = 0; lane < lanes; ++lane) all += {d[lane], s[lane]};
  for (; i < n; ++i) {
    const double distance = static_cast<ComputeType<T>>(x[i]) - around;
    all += {distance, distance * distance};
  }
  return all;
}
template <class T>
[[gnu::noinline]] Moments double_moments(const T* x, int64_t n) {
  const auto count = static_cast<double>(n);
  double around = finite_or_zero(static_cast<ComputeType<T>>(x[0]));
  around = finite_or_zero(around + double_sums(x, n, around).distances / count);
  const Sums sums = double_sums(x, n, around);
  return {Known<double>::around(around, sums.distances / count, sums.around_mean(count)), count};
}

// Distances that floats gather before doubles do.
struct FloatSums {
  static constexpr int registers = 4, lanes = registers * float_lanes;
  Floats around;
  Floats distances[registers] = {}, squares[registers] = {};
  Doubles all_distances = {}, all_squares = {};

  template <class T>
  void add(const T* x) {
#pragma GCC unroll 4
    for (int k = 0; k < registers; k += 2) {
      Floats values[2];
      two_registers_at(x + k * float_lanes, values);
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Floats distance = values[j] - around;
        distances[k + j] += distance;
        squares[k + j] += distance * distance;
      }
    }
  }
  void carry() {
    all_distances += both_halves((distances[0] + distances[1]) + (distances[2] + distances[3]));
    all_squares += both_halves((squares[0] + squares[1]) + (squares[2] + squares[3]));
    for (int k = 0; k < registers; ++k) distances[k] = squares[k] = Floats{};
  }
  [[nodiscard]] Sums total() const {
    Sums all;
    for (int lane = 0; lane < double_lanes; ++lane) all += {all_distances[lane], all_squares[lane]};
    return all;
  }
};

template <class T>
Sums float_sums(const T* x, int64_t n, T around) {
  constexpr int64_t lanes = FloatSums::lanes, depth = 8;
  FloatSums sums;
  sums.around = all_lanes(static_cast<float>(around));
  int64_t i = 0;
  while (i + lanes <= n) {
    const int64_t end = std::min(n - lanes, i + (depth - 1) * lanes);
    for (; i <= end; i += lanes) {
      read_ahead<lanes>(x + i);
      sums.add(x + i);
    }
    sums.carry();
  }
  if (i < n) {
    T rest[lanes];
    for (int64_t k = 0; k < lanes; ++k) rest[k] = i + k < n ? x[i + k] : around;
    sums.add(rest);
    sums.carry();
  }
  return sums.total();
}

// Of at most a block of neighbours.
template <class T>
Moments moments_of(const T* x, int64_t n) {
  if constexpr (!std::is_same_v<T, double>) {
    const auto count = static_cast<double>(n);
    const auto first = static_cast<float>(finite_or_zero(static_cast<float>(x[0])));
    Sums sums;
    if constexpr (is_reduced_type<T>) {
      sums = float_sums(x, n, static_cast<T>(first));
    } else {
      sums = double_sums(x, n, first);
    }
    if (sums.good<T>(count)) {
      return {Known<double>::around(first, sums.distances / count, sums.around_mean(count)), count};
    }
  }
  return double_moments(x, n);
}

// Of columns side by side, which are joined to what is known of them. Numbers of 16 bits are taken
// by two registers, and what is known of them stands in the order of those.
template <class T>
class ColumnMoments {
 public:
  static constexpr int64_t width = 1024;  // columns at most
  // Rows that are added up at a time, and that are still in the cache then.
  static constexpr int64_t height = 1024 / sizeof(T);

  // What is known goes to `known`, which holds three numbers of each column.
  ColumnMoments(int64_t n, double* known) : n_(n), padded_(padded_size(n)), known_(known) {
    for (int64_t j = 0; j < padded_; ++j) around_[j] = distances_[j] = sums_[j] = 0;
  }
  // Columns with those that fill the last registers.
  static int64_t padded_size(int64_t n) {
    return (n + two_registers - 1) / two_registers * two_registers;
  }

  // Out of line, as it is called for whole columns and for parts of them.
  [[gnu::noinline]] void add(const char* in, int64_t step, int64_t rows) {
    for (int64_t i = 0; i < rows; i += height) {
      add_block(in + i * step, step, std::min(height, rows - i));
    }
  }
  void join(double count, const double* known) {
    if (count == 0) return;
    for (int64_t j = 0; j < padded_; j += double_lanes) join_register(j, count, at(known + 3 * j));
    count_ += count;
  }
  [[nodiscard]] double mean(int64_t j) const { return number(j, 0) + number(j, 1); }
  [[nodiscard]] double squares(int64_t j) const { return number(j, 2); }

 private:
  static int64_t place(int64_t j) {
    if constexpr (!is_reduced_type<T>) return j;
    return j / two_registers * two_registers + place_in_two<T>(j % two_registers);
  }
  // A register of each of the three numbers, one after the other.
  static Known<Doubles> at(const double* known) {
    return {doubles_at(known), doubles_at(known + double_lanes),
            doubles_at(known + 2 * double_lanes)};
  }
  [[nodiscard]] double number(int64_t column, int which) const {
    const int64_t j = place(column);
    return known_[(j / double_lanes * 3 + which) * double_lanes + j % double_lanes];
  }
  void join_register(int64_t j, double count, const Known<Doubles>& some) {
    Known<Doubles> all = some;
    if (count_ != 0) {
      all = at(known_ + 3 * j);
      all.join(some, count_, count);
    }
    const Doubles numbers[3] = {all.mean, all.rest, all.squares};
    std::memcpy(known_ + 3 * j, numbers, sizeof numbers);
  }

  void add_block(const char* in, int64_t step, int64_t rows) {
    const auto count = static_cast<double>(rows);
    if constexpr (std::is_same_v<T, double>) {
      sum_doubles(in, step, rows, 0, n_);
    } else if constexpr (is_reduced_type<T>) {
      sum_floats(in, step, rows);
    } else {
      sum_once(in, step, rows);
    }
    for (int64_t j = 0; j < padded_; j += two_registers) {
      if constexpr (!std::is_same_v<T, double>) {
        if (!good(j, count)) sum_doubles(in, step, rows, j, std::min(n_, j + two_registers));
      }
      for (int64_t k = j; k < j + two_registers; k += double_lanes) {
        const Doubles around = doubles_at(around_ + k), distances = doubles_at(distances_ + k);
        const Doubles mean = distances * (1 / count);
        const Doubles squares = at_least(doubles_at(sums_ + k) - distances * mean, 0);
        join_register(k, count, Known<Doubles>::around(around, mean, squares));
      }
    }
    count_ += count;
  }
  // The same conditions as of a row, of two registers of columns.
  [[nodiscard]] bool good(int64_t j, double count) const {
    Longs good = ~Longs{};
    for (int64_t k = j; k < j + two_registers; k += double_lanes) {
      const Doubles distances = doubles_at(distances_ + k), sums = doubles_at(sums_ + k);
      const Doubles squares = sums - distances * (distances * (1 / count));
      if constexpr (is_reduced_type<T>) {
        good &= (17 * squares >= sums) & (squares > 1e-30 * count) & (sums < 1e38);
      } else {
        good &= 1e6 * squares >= sums;
      }
    }
    return everywhere(good);
  }

  // Distances of columns [first, last) from their means, in double precision.
  void sum_doubles(const char* in, int64_t step, int64_t rows, int64_t first, int64_t last) {
    constexpr int64_t most = std::is_same_v<T, double> ? width : two_registers;
    const int64_t n = last - first;
    double around[most], distances[most], sums[most];
    in += first * static_cast<int64_t>(sizeof(T));
    for (int64_t j = 0; j < n; ++j) {
      around[j] = finite_or_zero(static_cast<ComputeType<T>>(reinterpret_cast<const T*>(in)[j]));
    }
    for (int pass = 0; pass < 2; ++pass) {
      if (pass == 1) {
        for (int64_t j = 0; j < n; ++j) {
          around[j] = finite_or_zero(around[j] + distances[j] / static_cast<double>(rows));
        }
      }
      std::fill_n(distances, n, 0.0);
      std::fill_n(sums, n, 0.0);
      step_rows<true>(in, step, rows, n, around, distances, sums);
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t k = place(first + j);
      around_[k] = around[j];
      distances_[k] = distances[j];
      sums_[k] = sums[j];
    }
  }
  // In double precision as well, but once: the numbers as they are, unless the first rows tell that
  // zero is too far from their mean; then distances from the mean of those.
  void sum_once(const char* in, int64_t step, int64_t rows) {
    const int64_t some = std::min<int64_t>(rows, 4);
    const auto restart = [this] {
      std::fill_n(distances_, n_, 0.0);
      std::fill_n(sums_, n_, 0.0);
    };
    restart();
    std::fill_n(around_, n_, 0.0);
    step_rows<false>(in, step, some, n_, around_, distances_, sums_);
    bool near = true;
    for (int64_t j = 0; j < padded_; j += two_registers) {
      near = near && good(j, static_cast<double>(some));
    }
    if (near) {
      in += some * step;
      return step_rows<false>(in, step, rows - some, n_, around_, distances_, sums_);
    }
    for (int64_t j = 0; j < n_; ++j) {
      around_[j] = finite_or_zero(distances_[j] / static_cast<double>(some));
    }
    restart();
    step_rows<true>(in, step, rows, n_, around_, distances_, sums_);
  }
  // Distances from the mean of a few rows, in single precision.
  void sum_floats(const char* in, int64_t step, int64_t rows) {
    constexpr int64_t depth = 128;  // rows that floats gather: enough for 16 bits
    const int64_t some = std::min<int64_t>(rows, 4);
    const auto restart = [&] {
      std::fill_n(near_distances_, padded_, 0.0F);
      std::fill_n(near_sums_, padded_, 0.0F);
    };
    restart();
    step_rows<false>(in, step, some, n_, near_, near_distances_, near_sums_);
    for (int64_t j = 0; j < padded_; ++j) {
      near_[j] = near_distances_[j] / static_cast<float>(some);
      around_[j] = near_[j];
      distances_[j] = sums_[j] = 0;
    }
    restart();
    for (int64_t i = 0; i < rows; i += depth) {
      const int64_t left = std::min(depth, rows - i);
      step_rows<true>(in + i * step, step, left, n_, near_, near_distances_, near_sums_);
      for (int64_t j = 0; j < padded_; j += double_lanes) {
        const Doubles distances = doubles_at(distances_ + j) + doubles_at(near_distances_ + j);
        const Doubles sums = doubles_at(sums_ + j) + doubles_at(near_sums_ + j);
        std::memcpy(distances_ + j, &distances, sizeof distances);
        std::memcpy(sums_ + j, &sums, sizeof sums);
      }
      restart();
    }
    for (int64_t j = n_; j < padded_; ++j) sums_[place(j)] = 1;  // what is good enough
  }

  // Adds up distances, or the numbers themselves, and their squares: of n columns, of which floats
  // stand in the order of two registers.
  template <bool distant, class C>
  static void step_rows(const char* in, int64_t step, int64_t rows, int64_t n, const C* around,
                        C* distances, C* sums) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      step_together<distant, 4>(in + i * step, step, n, around, distances, sums);
    }
    for (; i < rows; ++i) {
      step_together<distant, 1>(in + i * step, step, n, around, distances, sums);
    }
  }
  template <bool distant, int together, class C>
  static void step_together(const char* in, int64_t step, int64_t n, const C* around, C* distances,
                            C* sums) {
    constexpr bool single = std::is_same_v<C, float>;
    using Lanes = std::conditional_t<single, Floats, Doubles>;
    constexpr int64_t lanes = register_bytes / sizeof(C);
    int64_t j = 0;
    for (; j + 2 * lanes <= n; j += 2 * lanes) {
      Lanes some[2], more[2], center[2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {  // both at once would go through memory
        const int64_t at = j + half * lanes;
        std::memcpy(&some[half], distances + at, sizeof(Lanes));
        std::memcpy(&more[half], sums + at, sizeof(Lanes));
        if constexpr (distant) std::memcpy(&center[half], around + at, sizeof(Lanes));
      }
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) {
        const T* x = reinterpret_cast<const T*>(in + k * step) + j;
        Lanes values[2];
        ask_second_level(reinterpret_cast<const char*>(x) + together * step);
        if constexpr (single) {
          two_registers_at(x, values);
        } else {
          values[0] = doubles_at(x), values[1] = doubles_at(x + lanes);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          if constexpr (distant) values[half] -= center[half];
          some[half] += values[half];
          more[half] += values[half] * values[half];
        }
      }
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        std::memcpy(distances + j + half * lanes, &some[half], sizeof(Lanes));
        std::memcpy(sums + j + half * lanes, &more[half], sizeof(Lanes));
      }
    }
    for (; j < n; ++j) {
      const int64_t at = single ? place(j) : j;
      for (int k = 0; k < together; ++k) {
        const T* x = reinterpret_cast<const T*>(in + k * step) + j;
        auto value = static_cast<C>(static_cast<ComputeType<T>>(*x));
        if constexpr (distant) value -= around[at];
        distances[at] += value;
        sums[at] += value * value;
      }
    }
  }

  static constexpr int64_t near_width = is_reduced_type<T> ? width : 1;
  const int64_t n_, padded_;
  double count_ = 0;
  double* const known_;
  alignas(64) float near_[near_width], near_distances_[near_width], near_sums_[near_width];
  alignas(64) double around_[width], distances_[width], sums_[width];
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
