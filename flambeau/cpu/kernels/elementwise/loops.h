// Elementwise loops. A loop over a plain formula on contiguous arrays is what the compiler turns
// into vector code, so that is the only loop a formula gets: operands with other strides go through
// small buffers, a chunk at a time, and so does half precision: see Note [Types of loops].
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/cpu/kernels/math/vector_math.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/tensor_iter.h"

#define IVDEP _Pragma("GCC ivdep")

namespace flambeau::cpu::ISA_NAMESPACE {

template <class T, class... Any>
constexpr bool is_one_of = (std::is_same_v<T, Any> || ...);

// A stored element in the type that arithmetic is done in.
template <class T>
inline ComputeType<T> load(const char* at) {
  return static_cast<ComputeType<T>>(*reinterpret_cast<const T*>(at));
}

// Copies n elements between strides. By size, so that few such loops exist.
template <size_t Size>
[[gnu::noinline]] inline void move_strided(char* to, int64_t to_step, const char* from,
                                           int64_t from_step, int64_t n) {
  struct alignas(Size) Element {
    char bytes[Size];
  };
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<Element*>(to + i * to_step) =
        *reinterpret_cast<const Element*>(from + i * from_step);
  }
}

// Note [Types of loops]
// One loop serves several dtypes where their elements can be converted on the way, a chunk at a
// time: half precision is computed in float, unsigned integers of 16 and 32 bits as signed ones of
// twice the size, of which the lower half is stored. So a loop may take another type than iter's
// dtypes say; the driver sees it by the size. Integers of the same size with a sign and without are
// one loop's as they are, where the formula does not ask which number is larger.
constexpr DTypeSet converted_dtypes =
    dtypes::Reduced | DTypeSet(DType::uint16) | DTypeSet(DType::uint32);
// From and to the type that the loop takes.
void convert_row(DType dtype, const char* stored, char* computed, int64_t n);
void convert_row_back(DType dtype, const char* computed, char* stored, int64_t n);

// The types that a loop is compiled for, of those of its row, and the one that serves a dtype.
// `ordered` tells whether the formula asks which number is larger.
template <bool ordered>
constexpr DTypeSet served_by_others = ordered ? converted_dtypes - DType::bfloat16
                                              : dtypes::Signed | DTypeSet(DType::float16);
template <DTypeSet Set, bool ordered = true>
constexpr DTypeSet loop_types = Set - served_by_others<ordered>;
template <DTypeSet Set, bool ordered = true>
inline DType loop_dtype(DType dtype) {
  if (!ordered) dtype = without_sign(dtype);
  if (!Set.has(dtype) || !served_by_others<ordered>.has(dtype)) return dtype;
  return dtype == DType::float16  ? DType::float32
         : dtype == DType::uint16 ? DType::int32
                                  : DType::int64;
}
// Calls body(TypeTag<T>{}) as dispatch does, for the type of the loop.
template <DTypeSet Set, bool ordered = true, class Body>
void dispatch_loop(std::string_view op, DType dtype, Body&& body) {
  dispatch<loop_types<Set, ordered>>(op, loop_dtype<Set, ordered>(dtype), body);
}
// The formulas of rows that complex numbers, or bits, have do not ask.
template <DTypeSet Set>
constexpr bool has_ordered_rows =
    !(Set.has(DType::complex64) && Set.has(DType::int64)) && Set.bits != dtypes::IntegralBool.bits;

// An elementwise loop as the driver in elementwise/driver.cpp sees it, which brings operands of any
// layout into the one that `dense` takes.
struct ElementwiseLoop {
  // o[i] = f(in[i]...) over n elements that lie side by side. Loops that can (see `streams`) write
  // non-temporally where they are told to, after which a fence is to follow.
  using Row = void(const void* formula, char* const* data, int64_t n, bool non_temporal);
  int inputs;
  int64_t sizes[4];  // bytes of an element of the output, then of each input
  Row* row;
  // The same where the second of two inputs is one value, for the types that numbers are combined
  // with most; elsewhere null, and the driver repeats the number in a buffer.
  Row* row_with_number = nullptr;
  // Several such rows, which begin `steps` bytes apart and have a number each: in loops that do not
  // write non-temporally.
  using Rows = void(const void* formula, char* const* data, int64_t n, int64_t rows,
                    const int64_t* steps);
  Rows* rows_with_numbers = nullptr;
  bool streams = false;      // can write non-temporally itself
  size_t formula_bytes = 0;  // that tell formulas of this loop apart
  Row* look_up = nullptr;    // by a ResultTable, if otherwise than it does all
};
void run_elementwise(const TensorIter& iter, const ElementwiseLoop& loop, const void* formula,
                     int cost);

// The first element of operand k, in the type that a loop over T computes in.
template <class T>
ComputeType<T> first_element(const TensorIter& iter, int k) {
  if (item_size(iter.dtypes[k]) == sizeof(T)) return load<T>(iter.data[k]);
  T value;
  convert_row(iter.dtypes[k], iter.data[k], reinterpret_cast<char*>(&value), 1);
  return static_cast<ComputeType<T>>(value);
}

// Copies m rows of n elements of `size` bytes that lie side by side at `to` and one below the other
// at `from`: by squares, so that lines of memory are read and written whole.
struct Strides {
  char* data;
  int64_t step;  // bytes from row to row, or from column to column
};
enum class TransposedStore {
  in_cache,
  non_temporal,  // nobody will read `to` soon
  into_buffer,   // `to` is in the cache, `from` is not
};
void copy_transposed(size_t size, Strides to, Strides from, int64_t n, int64_t m,
                     TransposedStore way);

// One value in the place of an array.
template <class T>
struct Repeated {
  T value;
  T operator[](int64_t) const { return value; }
};
template <class T>
using ComputeTypeOf = ComputeType<std::remove_cvref_t<decltype(std::declval<T>()[0])>>;

// bfloat16 is computed two elements at a time, which are the halves of a word: loops over words are
// all of one width, and need no instructions that sort lanes.
typedef uint32_t TwoBFloats __attribute__((aligned(2), may_alias));
template <class T>
constexpr bool holds_bfloat16 =
    std::is_same_v<std::remove_cvref_t<decltype(std::declval<T>()[0])>, BFloat16>;

template <class Out, class... In>
constexpr bool is_of_bfloats = std::is_same_v<Out, BFloat16> && (holds_bfloat16<In> && ...);

template <bool second>
inline float one_of_two(const BFloat16* in, int64_t pair) {
  const uint32_t bits = reinterpret_cast<const TwoBFloats*>(in)[pair];
  return std::bit_cast<float>(second ? bits & 0xffff0000u : bits << 16);
}
template <bool second>
inline float one_of_two(Repeated<BFloat16> in, int64_t) {
  return static_cast<float>(in.value);
}

// The elements that a register begins with at element i of an array, or of a value repeated: as
// floats, or those in the first or the second halves of words, that are computed alike.
inline Floats floats_at(const float* in, int64_t i, bool) { return load_floats(in + i); }
inline Floats floats_at(Repeated<float> in, int64_t, bool) { return all_lanes(in.value); }
inline Floats floats_at(const BFloat16* in, int64_t i, bool second) {
  Words pairs;
  std::memcpy(&pairs, in + i, sizeof pairs);
  return std::bit_cast<Floats>(second ? pairs & 0xffff0000u : pairs << 16);
}
inline Floats floats_at(Repeated<BFloat16> in, int64_t, bool) {
  return all_lanes(static_cast<float>(in.value));
}

// Rounded as BFloat16 does, in the upper halves of words.
inline Words rounded_words(Floats values) {
  const Words words = std::bit_cast<Words>(values);
  return values != values ? Words{} + 0x7fc00000u : words + 0x7fffu + ((words >> 16) & 1u);
}
// Two registers of results as the first and the second halves of words.
[[gnu::always_inline]] inline Floats rounded_halves(Floats first, Floats second) {
#if FLAMBEAU_ISA_RANK >= 4
  Words low = rounded_usual(first), high = rounded_usual(second);
  if (_mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q)) [[unlikely]] {
    low = rounded_words(first);
    high = rounded_words(second);
  }
  return upper_halves(low, high);
#else
  return upper_halves(rounded_words(first), rounded_words(second));
#endif
}
// Formulas that take registers of floats, over operands that are computed in float.
template <class F, class... In>
concept TakesRegisters = (std::is_same_v<ComputeTypeOf<In>, float> && ...) &&
                         std::is_invocable_v<F, std::conditional_t<true, Floats, In>...>;

template <class T>
inline const T* behind(const T* in, int64_t n) {
  return in + n;
}
template <class T>
inline Repeated<T> behind(Repeated<T> in, int64_t) {
  return in;
}

// The results that a register holds, in the type that they are stored in. A formula tells
// (is_exact) if bfloat16 has every result that elements of bfloat16 have.
template <class Out, class F, class... In>
[[gnu::always_inline]] inline Floats results_at(const F& f, int64_t i, In... in) {
  if constexpr (std::is_same_v<Out, float>) {
    return f(floats_at(in, i, false)...);
  } else if constexpr (TakesRegisters<F, In...>) {
    const Floats first = f(floats_at(in, i, false)...), second = f(floats_at(in, i, true)...);
    if constexpr (requires { requires F::is_exact; })
      return upper_halves(std::bit_cast<Words>(first), std::bit_cast<Words>(second));
    return rounded_halves(first, second);
  } else {
    std::array<float, float_lanes> first, second;
    IVDEP for (int j = 0; j < float_lanes; ++j) {
      first[j] = f(one_of_two<false>(behind(in, i), j)...);
      second[j] = f(one_of_two<true>(behind(in, i), j)...);
    }
    return rounded_halves(std::bit_cast<Floats>(first), std::bit_cast<Floats>(second));
  }
}

// The first elements of an operand, copied to `scratch`; a value stays one.
template <class T>
inline const T* copied_to(T* scratch, const T* in, int64_t n) {
  return std::copy_n(in, n, scratch) - n;
}
template <class T>
inline Repeated<T> copied_to(T*, Repeated<T> in, int64_t) {
  return in;
}

// Has memory send what will be read some registers later, which costs those that wait for
// arithmetic nothing. Of short rows, what lies so far behind may not be next.
template <class T>
inline void ask_ahead(const T* in, int64_t i) {
  ask_second_level(reinterpret_cast<const char*>(in + i) + bytes_ahead);
}
template <class T>
inline void ask_ahead(Repeated<T>, int64_t) {}

// Arrays, or values repeated, a register at a time.
template <class F, class T, class... In>
void register_loop(T* o, int64_t n, bool non_temporal, const F& f, In... in) {
  constexpr int64_t lanes = register_bytes / sizeof(T);
  // A few elements, as the only ones of a row, so that the formula is compiled once. What it knows
  // are copies, or the loop below would have its own in memory.
  const auto some = [=, &f](int64_t begin, int64_t count) {
    T scratch[sizeof...(In) + 1][lanes] = {};
    T* next = scratch[0];
    const auto copied = [&](auto operand) {
      return copied_to(next += lanes, behind(operand, begin), count);
    };
    register_loop<F, T, In...>(scratch[0], lanes, false, f, copied(in)...);
    std::copy_n(scratch[0], count, o + begin);
  };
  const int64_t to_line = -reinterpret_cast<uintptr_t>(o) % register_bytes / sizeof(T);
  int64_t i = non_temporal ? std::min(n, to_line) : 0;
  if (i > 0) some(0, i);
  const F formula = f;  // of whose parameters the compiler knows that no result replaces them
  const bool is_long = n * static_cast<int64_t>(sizeof(T)) >= bytes_ahead;
  for (; i + lanes <= n; i += lanes) {
    if (is_long) (ask_ahead(in, i), ...);
    const Floats result = results_at<T>(formula, i, in...);
    float* to = reinterpret_cast<float*>(o + i);
    if (non_temporal) {
      stream_floats(result, to);
    } else {
      store_floats(result, to);
    }
  }
  if (i < n) some(i, n - i);
}

// o[i] = f(in[i]...): arrays, or values repeated. A formula with a rare case that keeps it from
// being vector code says where (usual), and is computed without that case where it does not occur.
template <class Out, class F, class... In>
[[gnu::always_inline]] inline void contiguous_loop(Out* o, int64_t n, bool non_temporal, const F f,
                                                   In... in) {
  if constexpr (TakesRegisters<F, In...> || is_of_bfloats<Out, In...>) {
    register_loop(o, n, non_temporal, f, in...);
  } else {
    if constexpr (requires { F::only_usual; }) {
      int rare = 0;
      for (int64_t i = 0; i < n; ++i) rare |= !F::usual(static_cast<ComputeTypeOf<In>>(in[i])...);
      if (!rare) return contiguous_loop(o, n, non_temporal, F::only_usual, in...);
    }
    IVDEP for (int64_t i = 0; i < n; ++i) {
      o[i] = static_cast<Out>(f(static_cast<ComputeTypeOf<In>>(in[i])...));
    }
  }
}

// What a loop takes elements of T in: see Note [Types of loops].
template <class T>
using LoopType = std::conditional_t<std::is_same_v<T, Half>, float, T>;

// The loop of formulas F over arrays of these types.
template <class F, class Out, class... In>
struct LoopOf {
  static constexpr bool streams =
      TakesRegisters<F, const In*...> || is_of_bfloats<Out, const In*...>;
  template <size_t... K>
  static void row(const void* f, char* const* data, int64_t n, bool non_temporal) {
    contiguous_loop(reinterpret_cast<Out*>(data[0]), n, non_temporal, *static_cast<const F*>(f),
                    reinterpret_cast<const In*>(data[K + 1])...);
  }
  template <class T>
  static void with_number(const void* f, char* const* data, int64_t n, bool non_temporal) {
    const Repeated<T> second{*reinterpret_cast<const T*>(data[2])};
    contiguous_loop(reinterpret_cast<Out*>(data[0]), n, non_temporal, *static_cast<const F*>(f),
                    reinterpret_cast<const T*>(data[1]), second);
  }
  // Not inline, so that it is compiled once.
  template <class T>
  [[gnu::noinline]] static void rows_with_numbers(const void* f, char* const* data, int64_t n,
                                                  int64_t rows, const int64_t* steps) {
    char* at[3] = {data[0], data[1], data[2]};
    for (int64_t row = 0; row < rows; ++row) {
      with_number<T>(f, at, n, false);
      for (int k = 0; k < 3; ++k) at[k] += steps[k];
    }
  }
  template <class T>
  static void row_with_number(const void* f, char* const* data, int64_t n, bool non_temporal) {
    if constexpr (streams) return with_number<T>(f, data, n, non_temporal);
    constexpr int64_t steps[3] = {};
    rows_with_numbers<T>(f, data, n, 1, steps);
  }
  template <size_t... K>
  static constexpr ElementwiseLoop make(std::index_sequence<K...>) {
    ElementwiseLoop loop{sizeof...(In), {sizeof(Out), sizeof(In)...}, row<K...>};
    using T = std::tuple_element_t<0, std::tuple<In...>>;
    if constexpr (sizeof...(In) == 2 && is_one_of<T, float, double, BFloat16, int64_t, uint64_t>) {
      loop.row_with_number = row_with_number<T>;
      if constexpr (!streams) loop.rows_with_numbers = rows_with_numbers<T>;
    }
    loop.streams = streams;
    if (!std::is_empty_v<F>) loop.formula_bytes = sizeof(F);
    return loop;
  }
  static constexpr ElementwiseLoop value = make(std::index_sequence_for<In...>());
};
template <class F, class Out, class... In>
constexpr const ElementwiseLoop& loop_of = LoopOf<F, LoopType<Out>, LoopType<In>...>::value;
// out[i] = f(in[i]...) over all elements, in these types.
template <class Out, class... In, class F>
void elementwise_loop(const TensorIter& iter, const F f, int cost = 1) {
  run_elementwise(iter, loop_of<F, Out, In...>, &f, cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
