// Products of half precision with a few columns, whose elements become floats as they are read.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "flambeau/cpu/kernels/gemm/lanes.h"
#include "flambeau/cpu/kernels/gemm/small.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A register of half precision as two of floats, in an order of its own: bfloat16 is the upper half
// of a float, so that even and odd elements part with one instruction each.
struct Pair {
  Vector<float> first, second;
};
[[gnu::always_inline]] inline Pair load_wide(const BFloat16* p) {
  typedef uint32_t Bits __attribute__((vector_size(vector_bytes), aligned(2), may_alias));
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  return {std::bit_cast<Vector<float>>(bits << 16),
          std::bit_cast<Vector<float>>(bits & 0xffff0000u)};
}
[[gnu::always_inline]] inline Pair load_wide(const Half* p) {
#if FLAMBEAU_ISA_RANK >= 4
  const auto load = [](const Half* at) {
    const auto bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_maskz_cvtph_ps(0xffff, bits);
  };
#else
  const auto load = [](const Half* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
#endif
  return {load(p), load(p + lanes<float>)};
}

// A matrix of half precision as one of floats with contiguous rows.
template <class T>
void widen(const T* from, int64_t rows, int64_t cols, int64_t row, int64_t col, float* to) {
  if (col == 1 && row == cols) {  // one long row
    cols *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < rows; ++i, from += row, to += cols) {
    if (col == 1) {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<float>(from[j]);
    } else {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<float>(from[j * col]);
    }
  }
}

template <class T>
inline void finish_narrow(const Part<T>& p, int64_t i, int64_t j, float sum) {
  float value = sum * p.alpha;
  if (p.addend) {
    value += p.beta * static_cast<float>(p.addend[i * p.addend_row + j * p.addend_col]);
  }
  p.out[i * p.out_row + j * p.out_col] = static_cast<T>(value);
}

// Rows of half precision times a vector: some at a time, each in parts with sums of their own. Rows
// that come later are asked for in the order in which memory has them. Always inline: a call would
// have the caller write all of p down again for each row.
template <int Rows, int Parts, class T>
[[gnu::always_inline]] inline void wide_dots(const Part<T>& p, int64_t i, const T* right,
                                             int64_t rows_later) {
  constexpr int64_t width = 2 * lanes<float>;
  constexpr int second = Parts > 1;  // whether there are sums of second halves
  const T* a = p.a + i * p.a_row;
  const T* later = a + rows_later * p.a_row;
  Vector<float> acc[Rows][Parts][1 + second] = {};
  const auto step = [&](int64_t x, int part) __attribute__((always_inline)) {
    const Pair b = load_wide(right + x);
    UNROLL for (int r = 0; r < Rows; ++r) {
      prefetch(later + r * p.a_row + x);
      const Pair row = load_wide(a + r * p.a_row + x);
      acc[r][part][0] += row.first * b.first;
      acc[r][part][second] += row.second * b.second;
    }
  };
  int64_t x = 0;
  for (; x + Parts * width <= p.k; x += Parts * width) {
    UNROLL for (int part = 0; part < Parts; ++part) step(x + part * width, part);
  }
  for (; x + width <= p.k; x += width) step(x, 0);
  for (int r = 0; r < Rows; ++r) {
    Vector<float> all{};
    for (const auto& part : acc[r]) {
      for (const Vector<float>& some : part) all += some;
    }
    float total = sum(all);
    for (int64_t y = x; y < p.k; ++y) {
      total += static_cast<float>(a[r * p.a_row + y]) * static_cast<float>(right[y]);
    }
    finish_narrow(p, i + r, 0, total);
  }
}

// Rows of half precision times a few columns, one after the other while the rows are in the cache.
template <class T>
void narrow_dots(Part<T> p) {
  Memory<T> copy;
  const T* right = p.b;
  const bool in_place = p.b_row == 1;
  if (!in_place) {
    copy = memory_for<T>(p.k * p.n);
    for (int64_t x = 0; x < p.k; ++x) {
      for (int64_t j = 0; j < p.n; ++j) copy[j * p.k + x] = p.b[x * p.b_row + j * p.b_col];
    }
    right = copy.get();
  }
  constexpr int64_t long_row = 256;
  const int64_t rows_later = std::max<int64_t>(4, bytes_ahead_of_small / sizeof(T) / p.k);
  int64_t i = 0;
  const auto each_column = [&](auto dots) {
    Part<T> column = p;
    for (int64_t j = 0; j < p.n; ++j) {
      dots(column, i, right + j * (in_place ? p.b_col : p.k), rows_later);
      column.out += p.out_col;
      if (p.addend) column.addend += p.addend_col;
    }
  };
  if (p.k >= long_row) {
    for (; i < p.m; ++i) each_column(wide_dots<1, 4, T>);
  }
  for (; i + 4 <= p.m; i += 4) each_column(wide_dots<4, 1, T>);
  for (; i < p.m; ++i) each_column(wide_dots<1, 1, T>);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
