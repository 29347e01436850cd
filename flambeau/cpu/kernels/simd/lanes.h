// Short arrays of numbers that fill one vector register, a lane each, where GCC does not find the
// instructions for what plain loops over them would say.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "flambeau/cpu/kernels/isa.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Of the widest registers.
constexpr int register_bytes = FLAMBEAU_ISA_RANK >= 4 ? 64 : 32;
// A register full of elements.
template <class T>
struct Register {
  typedef T type __attribute__((vector_size(register_bytes)));
};

// Has memory send a line that will be read, to the first-level cache or the second, which more can
// be on their way to at once: it suits what waits for memory alone. By name of the instruction: GCC
// takes a function that prefetches and does nothing else for one without any effect, and leaves
// out its calls.
inline void prefetch(const void* place) { asm volatile("prefetcht0 (%0)" : : "r"(place)); }
inline void ask_second_level(const void* place) { asm volatile("prefetcht1 (%0)" : : "r"(place)); }
inline void ask_to_write(const void* place) { asm volatile("prefetchw (%0)" : : "r"(place)); }
// How far ahead of what is read now: of rows that are written meanwhile, and of those that are not.
constexpr int64_t bytes_ahead = 4096, bytes_ahead_reading = 2048;
// Asks for what is read later, where nothing is written. Elements of two bytes and less keep the
// processor so long that it has to be asked for much earlier, and can be in the nearest cache.
constexpr int64_t bytes_ahead_of_small = 16384;
template <class T>
[[gnu::always_inline]] inline void ask_for_reading(const char* place) {
  if constexpr (sizeof(T) >= 4) {
    ask_second_level(place + bytes_ahead_reading);
  } else {
    prefetch(place + bytes_ahead_of_small);
  }
}

// Whether a register of elements from anywhere is read faster at once than one by one.
inline bool gathers_fast() {
  static const bool fast = FLAMBEAU_ISA_RANK >= 4 && __builtin_cpu_is("intel");
  return fast;
}

// N lanes as one vector of plain integers, to be moved.
template <class Lane, int N>
struct LanesOf {
  using Narrow = std::conditional_t<sizeof(Lane) == 1, uint8_t, uint16_t>;
  using Wide = std::conditional_t<sizeof(Lane) == 4, uint32_t, uint64_t>;
  using Unit = std::conditional_t<(sizeof(Lane) < 4), Narrow, Wide>;
  static constexpr int units = sizeof(Lane) / sizeof(Unit);  // NOLINT(bugprone-sizeof-expression)
  typedef Unit Register __attribute__((vector_size(N * sizeof(Lane))));

  static Register load(const Lane* from) {
    Register lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    asm("" : "+v"(lanes));  // else GCC joins it with a store, and copies by small integers
    return lanes;
  }
  // One element in every lane.
  static Register all(const Lane* from) {
    if constexpr (units == 1) {
      Unit value;
      std::memcpy(&value, from, sizeof value);
      return Register{} + value;
    } else {
      Lane lanes[N];
      std::fill_n(lanes, N, *from);
      return load(lanes);
    }
  }
  static void store(Register lanes, Lane* to) {
    std::memcpy(static_cast<void*>(to), &lanes, sizeof lanes);
  }

  // Past the cache, which is worth it for whole lines only, at once or one half after the other.
  static void stream(Register lanes, Lane* to) {
#if FLAMBEAU_ISA_RANK >= 4
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(lanes));
#else
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(lanes));
#endif
  }

  // Of two registers that hold groups of `group` lanes: the first halves of all groups, or the
  // second ones.
  template <int group, bool second>
  static Register halves(Register a, Register b) {
    constexpr int half = group / 2 * units, offset = second ? half : 0;
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(a, b, (I / half * 2 * half + I % half + offset)...);
    }
    (std::make_integer_sequence<int, N * units>());
  }
};

template <int N, class Lane>
inline void copy_lanes(const Lane* from, Lane* to) {
  LanesOf<Lane, N>::store(LanesOf<Lane, N>::load(from), to);
}

// Copies bytes, whether or not source and target overlap. A register at a time where glibc might
// take the string instruction, which is slow to start, and ten times as slow if it writes a few
// bytes further into a page than it reads.
inline void copy_bytes(char* to, const char* from, int64_t n) {
  constexpr int64_t page = 4096, line = 64;
  const int64_t ahead = to - from;
  const bool safe_for_string = static_cast<uint64_t>(ahead - 1) % page >= line - 1;
  if (n < register_bytes || (n > 4 * page && safe_for_string) || std::abs(ahead) < n) {
    std::memmove(to, from, n);
    return;
  }
  int64_t i = 0;
  for (; i + register_bytes <= n; i += register_bytes) copy_lanes<register_bytes>(from + i, to + i);
  if (i < n) copy_lanes<register_bytes>(from + n - register_bytes, to + n - register_bytes);
}

// From how many bytes on a tensor is not in a cache any more when it is read next.
constexpr int64_t cached_bytes = (int64_t{1} << 24) + 1;

// Whether of many small matrices, which begin `step` bytes apart, an element of all of them is
// better taken at a time than a matrix: beyond the second-level cache, the processor does not
// foresee what stands too far apart.
inline bool takes_elements_at_a_time(int64_t size, int64_t count, int64_t step) {
  constexpr int64_t largest = 36, fewest = 16, near_step = 100, second_level = 1 << 20;
  return size <= largest && count >= fewest && (step <= near_step || step * count <= second_level);
}

// Copies bytes that nobody will read soon by non-temporal stores: the lines at `to` are not read
// before they are written. Other threads see them after a fence.
inline void copy_non_temporal(char* to, const char* from, int64_t n) {
  int64_t i = std::min<int64_t>(n, -reinterpret_cast<uintptr_t>(to) % 64);
  if (i > 0) std::memcpy(to, from, i);
  for (; i + 64 <= n; i += 64) {
    for (int64_t j = i; j < i + 64; j += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + j),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + j)));
    }
  }
  if (i < n) std::memcpy(to + i, from + i, n - i);
}

// Elements of which a square is transposed in registers; others GCC has no good code for.
template <class T>
constexpr bool turns_in_registers = sizeof(T) == 4 || sizeof(T) == 8 ||
                                    (sizeof(T) == 2 && FLAMBEAU_ISA_RANK >= 4);

// Rows of a square in registers as columns. Each round sorts even lanes before odd ones, and the
// bits of a row's number and of a lane's are swapped one by one.
template <class T, int N>
[[gnu::always_inline]] inline void turn_registers(typename LanesOf<T, N>::Register* rows) {
  using Lanes = LanesOf<T, N>;
  typename Lanes::Register sorted[N];
#pragma GCC unroll 8
  for (int round = N; round > 1; round /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < N / 2; ++i) {
      sorted[i] = Lanes::template halves<2, false>(rows[2 * i], rows[2 * i + 1]);
      sorted[i + N / 2] = Lanes::template halves<2, true>(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) rows[i] = sorted[i];
  }
}

// The rows of a square in memory as columns in registers, each handed to store(register, column).
template <class T, class Store>
[[gnu::always_inline]] inline void turn_square(const T* from, int64_t from_step,
                                               const Store& store) {
  // Two elements of 16 bits that stand one below the other are a word, and words are transposed:
  // those of even columns, then those of odd ones, for which there are no registers meanwhile.
  constexpr bool pairs = sizeof(T) == 2;
  using Lane = std::conditional_t<pairs, uint32_t, T>;
  constexpr int N = register_bytes / sizeof(Lane);
  using Lanes = LanesOf<Lane, N>;
  typename Lanes::Register rows[N];
  const auto turn = [&](int first) {
    turn_registers<Lane, N>(rows);
    using Result = typename LanesOf<T, register_bytes / sizeof(T)>::Register;
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) store(std::bit_cast<Result>(rows[i]), pairs ? 2 * i + first : i);
  };
  if constexpr (pairs) {
    alignas(register_bytes) Lane odd[N][N];
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) {
      const T* pair = from + 2 * i * from_step;
      const auto a = Lanes::load(reinterpret_cast<const Lane*>(pair));
      const auto b = Lanes::load(reinterpret_cast<const Lane*>(pair + from_step));
      rows[i] = (a & 0xffffu) | (b << 16);
      Lanes::store((a >> 16) | (b & 0xffff0000u), odd[i]);
    }
    asm volatile("" : : "r"(odd) : "memory");  // else GCC keeps a and b, twice as many
    turn(0);
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) rows[i] = Lanes::load(odd[i]);
    turn(1);
  } else {
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) rows[i] = Lanes::load(from + i * from_step);
    turn(0);
  }
}

// The same in memory; steps in elements.
template <class T>
inline void transpose_square(const T* from, int64_t from_step, T* to, int64_t to_step) {
  using Lanes = LanesOf<T, register_bytes / sizeof(T)>;
  turn_square(from, from_step, [=](auto row, int i) { Lanes::store(row, to + i * to_step); });
}

// Folds N registers of N lanes, each into one lane of the first register: join(a, b, out) joins two
// registers lane by lane. Of `left` registers each two become one, which holds twice as many
// results, half as far gathered.
template <int N, int left = N, class Lane, class Join>
inline void fold_rows(Lane (*lanes)[N], const Join& join) {
  if constexpr (left > 1) {
    using Lanes = LanesOf<Lane, N>;
    for (int i = 0; i < left / 2; ++i) {
      const auto a = Lanes::load(lanes[2 * i]), b = Lanes::load(lanes[2 * i + 1]);
      Lane low[N], high[N];
      Lanes::store(Lanes::template halves<left, false>(a, b), low);
      Lanes::store(Lanes::template halves<left, true>(a, b), high);
      join(low, high, lanes[i]);
    }
    fold_rows<N, left / 2>(lanes, join);
  }
}

// The larger or smaller of two numbers or of each two in a register, and the second one where one
// of them is NaN. That is one instruction, which GCC finds for single numbers only. (With a mask of
// all lanes: the functions without one warn of variables inside GCC's own header.)
#if FLAMBEAU_ISA_RANK >= 4
#define OF_REGISTERS(op, less)                          \
  inline __m512 op##_or_second(__m512 a, __m512 b) {    \
    return _mm512_maskz_##less##_ps(0xffff, a, b);      \
  }                                                     \
  inline __m512d op##_or_second(__m512d a, __m512d b) { \
    return _mm512_maskz_##less##_pd(0xff, a, b);        \
  }
#else
#define OF_REGISTERS(op, less)                                                          \
  inline __m256 op##_or_second(__m256 a, __m256 b) { return _mm256_##less##_ps(a, b); } \
  inline __m256d op##_or_second(__m256d a, __m256d b) { return _mm256_##less##_pd(a, b); }
#endif
OF_REGISTERS(larger, max)
OF_REGISTERS(smaller, min)
#undef OF_REGISTERS

// Whether some register held NaN.
struct NanSeen {
#if FLAMBEAU_ISA_RANK >= 4
  unsigned lanes = 0;
  void look_at(__m512 a, __m512 b) { lanes |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
  void look_at(__m512d a, __m512d b) { lanes |= _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
  [[nodiscard]] bool any() const { return lanes != 0; }
#else
  __m256i lanes{};
  void look_at(__m256 a, __m256 b) {
    lanes |= _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  void look_at(__m256d a, __m256d b) {
    lanes |= _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_UNORD_Q));
  }
  [[nodiscard]] bool any() const { return !_mm256_testz_si256(lanes, lanes); }
#endif
};

template <class V>
inline V larger_or_second(V a, V b) {
  return a > b ? a : b;
}
template <class V>
inline V smaller_or_second(V a, V b) {
  return a < b ? a : b;
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
