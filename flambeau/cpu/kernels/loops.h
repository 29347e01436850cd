// Elementwise loops. A loop over a plain formula on contiguous arrays is what the compiler turns
// into vector code, so that is the only loop a formula gets: operands with other strides go through
// small buffers, a piece at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/tensor_iter.h"

#define IVDEP _Pragma("GCC ivdep")

namespace flambeau::cpu::ISA_NAMESPACE {

// A stored element in the type that arithmetic is done in.
template <class T>
inline ComputeType<T> load(const char* at) {
  return static_cast<ComputeType<T>>(*reinterpret_cast<const T*>(at));
}

// Bytes of a buffer: small enough for a few in the first-level cache and on a small stack.
constexpr int64_t buffer_bytes = 4096;

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

// n elements of an input side by side: where they are, or in the buffer. A stride of 0 has filled
// it before.
template <class T>
const T* piece_of(const char* data, int64_t step, int64_t begin, int64_t n, T* buffer) {
  const char* at = data + begin * step;
  if (step == sizeof(T)) return reinterpret_cast<const T*>(at);
  if (step != 0) move_strided<sizeof(T)>(reinterpret_cast<char*>(buffer), sizeof(T), at, step, n);
  return buffer;
}
template <class T>
T* filled(char* buffer, const char* data, int64_t step, int64_t n) {
  if (step == 0) move_strided<sizeof(T)>(buffer, sizeof(T), data, 0, n);
  return reinterpret_cast<T*>(buffer);
}

// One value in the place of an array.
template <class T>
struct Repeated {
  T value;
  T operator[](int64_t) const { return value; }
};
template <class T>
using ComputeTypeOf = ComputeType<std::remove_cvref_t<decltype(std::declval<T>()[0])>>;

// Arrays, or values repeated. A formula with a rare case that keeps it from being vector code says
// where (usual), and is computed without that case where it does not occur.
template <class Out, class F, class... In>
[[gnu::noinline]] void contiguous_loop(Out* o, int64_t n, F f, In... in) {
  if constexpr (requires { F::only_usual; }) {
    int rare = 0;
    for (int64_t i = 0; i < n; ++i) rare |= !F::usual(static_cast<ComputeTypeOf<In>>(in[i])...);
    if (!rare) {
      IVDEP for (int64_t i = 0; i < n; ++i) {
        o[i] = static_cast<Out>(F::only_usual(static_cast<ComputeTypeOf<In>>(in[i])...));
      }
      return;
    }
  }
  IVDEP for (int64_t i = 0; i < n; ++i) {
    o[i] = static_cast<Out>(f(static_cast<ComputeTypeOf<In>>(in[i])...));
  }
}

// o[i] = f(in[i]...) over one row.
template <class Out, class... In, class F, size_t... K>
void elementwise_row(char** data, const int64_t* steps, int64_t n, F f, std::index_sequence<K...>) {
  if (steps[0] == sizeof(Out) && ((steps[K + 1] == sizeof(In)) && ...)) {
    return contiguous_loop(reinterpret_cast<Out*>(data[0]), n, f,
                           reinterpret_cast<const In*>(data[K + 1])...);
  }
  if constexpr (sizeof...(In) == 2) {  // a number, or a column, is the other operand of most
    using T = std::tuple_element_t<0, std::tuple<In...>>;
    Out* out = reinterpret_cast<Out*>(data[0]);
    const T *a = reinterpret_cast<const T*>(data[1]), *b = reinterpret_cast<const T*>(data[2]);
    if (steps[0] == sizeof(Out) && steps[1] == sizeof(T) && steps[2] == 0)
      return contiguous_loop(out, n, f, a, Repeated<T>{*b});
    if (steps[0] == sizeof(Out) && steps[1] == 0 && steps[2] == sizeof(T))
      return contiguous_loop(out, n, f, Repeated<T>{*a}, b);
  }
  constexpr int64_t longest =
      buffer_bytes / static_cast<int64_t>(std::max({sizeof(Out), sizeof(In)...}));
  alignas(64) char buffers[sizeof...(In) + 1][buffer_bytes];
  const int64_t most = std::min(n, longest);
  const std::tuple<In*...> in{filled<In>(buffers[K + 1], data[K + 1], steps[K + 1], most)...};
  const bool direct = steps[0] == sizeof(Out);
  for (int64_t begin = 0; begin < n; begin += longest) {
    const int64_t count = std::min(longest, n - begin);
    char* at = data[0] + begin * steps[0];
    Out* out = reinterpret_cast<Out*>(direct ? at : buffers[0]);
    contiguous_loop(out, count, f,
                    piece_of(data[K + 1], steps[K + 1], begin, count, std::get<K>(in))...);
    if (!direct) move_strided<sizeof(Out)>(at, steps[0], buffers[0], sizeof(Out), count);
  }
}

// Short rows at once, if the output and every input but those that repeat the same row go on from
// row to row: those are written into a buffer several times. False if it is not so.
template <class Out, class... In, class F, size_t... K>
bool join_rows(char** data, const Block& block, F f, std::index_sequence<K...>) {
  constexpr int64_t longest =
      buffer_bytes / static_cast<int64_t>(std::max({sizeof(Out), sizeof(In)...}));
  const int64_t rows = std::min(longest / block.n, block.m);
  const auto goes_on = [&](size_t k, int64_t size) {
    return block.steps[k] == size && block.row_steps[k] == block.n * size;
  };
  if (rows < 2 || !goes_on(0, sizeof(Out)) ||
      !((goes_on(K + 1, sizeof(In)) || block.row_steps[K + 1] == 0) && ...))
    return false;
  alignas(64) char buffers[sizeof...(In)][buffer_bytes];
  const auto repeat = [&](size_t k, auto size) {
    if (block.row_steps[k + 1] != 0) return;
    for (int64_t row = 0; row < rows; ++row) {
      move_strided<size>(buffers[k] + row * block.n * size, size, data[k + 1], block.steps[k + 1],
                         block.n);
    }
  };
  (repeat(K, std::integral_constant<size_t, sizeof(In)>()), ...);
  for (int64_t row = 0; row < block.m; row += rows) {
    const int64_t n = std::min(rows, block.m - row) * block.n;
    contiguous_loop(
        reinterpret_cast<Out*>(data[0] + row * block.row_steps[0]), n, f,
        reinterpret_cast<const In*>(block.row_steps[K + 1] == 0
                                        ? buffers[K]
                                        : data[K + 1] + row * block.row_steps[K + 1])...);
  }
  return true;
}

template <class Out, class... In, class F>
void elementwise_loop(const TensorIter& iter, F f, int cost) {
  for_each_block(
      iter,
      [f](char** data, const Block& block) {
        constexpr std::index_sequence_for<In...> operands;
        if (block.m > 1 && join_rows<Out, In...>(data, block, f, operands)) return;
        char* at[sizeof...(In) + 1];
        std::copy_n(data, sizeof...(In) + 1, at);
        for (int64_t row = 0; row < block.m; ++row) {
          elementwise_row<Out, In...>(at, block.steps, block.n, f, operands);
          for (size_t k = 0; k <= sizeof...(In); ++k) at[k] += block.row_steps[k];
        }
      },
      cost);
}

template <class Out, class In, class F>
void unary_loop(const TensorIter& iter, F f, int cost) {
  elementwise_loop<Out, In>(iter, f, cost);
}
template <class Out, class In, class F>
void binary_loop(const TensorIter& iter, F f, int cost) {
  elementwise_loop<Out, In, In>(iter, f, cost);
}
template <class T, class F>
void ternary_loop(const TensorIter& iter, F f, int cost = 1) {
  elementwise_loop<T, T, T, T>(iter, f, cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
