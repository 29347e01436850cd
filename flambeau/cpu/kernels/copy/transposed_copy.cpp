// Copies of elements that lie in rows where they are read and in columns where they are written.
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A square, or what is left of one.
template <class T>
void turn_part(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n, int64_t m) {
  if constexpr (turns_in_registers<T>) {
    constexpr int64_t side = register_bytes / sizeof(T);
    if (n == side && m == side) return transpose_square(from, from_step, to, to_step);
  }
  const auto move = [&](int64_t row, int64_t column) {
    to[row * to_step + column] = from[column * from_step + row];
  };
  if (n >= m) {  // the longer loop inside
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) move(row, column);
    }
  } else {
    for (int64_t column = 0; column < n; ++column) {
      for (int64_t row = 0; row < m; ++row) move(row, column);
    }
  }
}

// Has the second-level cache hold a square by the time that its turn comes.
template <class T>
void ask_for_square(const T* from, int64_t from_step, int64_t side) {
  for (int64_t i = 0; i < side; ++i) ask_second_level(from + i * from_step);
}

// Whole squares, and the rest by other means.
template <class T>
void transpose_squares(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n,
                       int64_t m, bool asks_ahead = false) {
  constexpr int64_t side = turns_in_registers<T> ? register_bytes / sizeof(T) : 16;
  for (int64_t i = 0; i < n; i += side) {
    const T* rows = from + i * from_step;
    const int64_t count = std::min(side, n - i);
    const bool asks = asks_ahead && i + 2 * side < n;
    for (int64_t j = 0; j < m; j += side) {
      if (asks) ask_for_square(rows + 2 * side * from_step + j, from_step, side);
      turn_part(to + j * to_step + i, to_step, rows + j, from_step, count, std::min(side, m - j));
    }
  }
}

// A few rows of `to` at a time: of many, lines that squares fill by and by would leave the cache
// before they are whole.
template <class T>
void transpose_bands(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n,
                     int64_t m) {
  constexpr int64_t max_rows = 64;
  for (int64_t j = 0; j < m; j += max_rows)
    transpose_squares(to + j * to_step, to_step, from + j, from_step, n, std::min(max_rows, m - j));
}

// Two squares one below the other, whose columns become neighbouring lines, stored non-temporally:
// memory takes two at once in far less time than two that are not neighbours. A fence is to follow.
// Meanwhile the squares two steps to the right are asked for, as processors do not keep track of so
// many rows. Of more rows, which often stand at a large power of two apart and so share their
// sets of a cache, they would forget what was asked for.
template <class T>
inline void stream_squares(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int N = register_bytes / sizeof(T);
  using Lanes = LanesOf<T, N>;
  alignas(register_bytes) T above[N][N];
  const auto turn = [&](const T* square, const auto& store) {
    for (int i = 0; i < N; ++i) ask_second_level(square + i * from_step + 2 * N);
    turn_square(square, from_step, store);
  };
  turn(from, [&](auto row, int i) { Lanes::store(row, above[i]); });
  turn(from + N * from_step, [&](auto row, int i) {
    Lanes::stream(Lanes::load(above[i]), to + i * to_step);
    Lanes::stream(row, to + i * to_step + N);
  });
}

// Past the cache, where registers hold whole lines.
template <class T>
void transpose_non_temporal(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n,
                            int64_t m) {
  if constexpr (turns_in_registers<T> && register_bytes == 64) {
    if ((reinterpret_cast<uintptr_t>(to) | (to_step * sizeof(T))) % 64 == 0) {
      constexpr int64_t side = register_bytes / sizeof(T);
      const int64_t width = n - n % (2 * side), height = m - m % side;
      for (int64_t i = 0; i < width; i += 2 * side) {
        for (int64_t j = 0; j < height; j += side)
          stream_squares(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
      }
      _mm_sfence();
      transpose_bands(to + width, to_step, from + width * from_step, from_step, n - width, m);
      return transpose_bands(to + height * to_step, to_step, from + height, from_step, width,
                             m - height);
    }
  }
  transpose_bands(to, to_step, from, from_step, n, m);
}

}  // namespace

void copy_transposed(size_t size, Strides to, Strides from, int64_t n, int64_t m,
                     TransposedStore way) {
  dispatch_size(size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto item = static_cast<int64_t>(sizeof(T));
    T* out = reinterpret_cast<T*>(to.data);
    const T* in = reinterpret_cast<const T*>(from.data);
    const int64_t to_step = to.step / item, from_step = from.step / item;
    switch (way) {
      case TransposedStore::in_cache: return transpose_bands(out, to_step, in, from_step, n, m);
      case TransposedStore::non_temporal:
        return transpose_non_temporal(out, to_step, in, from_step, n, m);
      case TransposedStore::into_buffer:
        return transpose_squares(out, to_step, in, from_step, n, m, true);
    }
  });
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
