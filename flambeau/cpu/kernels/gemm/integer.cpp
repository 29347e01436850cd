// Products of matrices of integers, in tiles of registers. Sums wrap, so that the types without a
// sign, whose overflow the language defines, stand for those with one.
#include <cstring>

#include "flambeau/cpu/kernels/gemm/small.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class U>
void finish_one(const Part<U>& p, int64_t i, int64_t j, U sum) {
  U value = p.alpha * sum;
  if (p.addend) value += p.beta * p.addend[i * p.addend_row + j * p.addend_col];
  p.out[i * p.out_row + j * p.out_col] = value;
}

template <class U>
[[gnu::noinline]] void finish(const Part<U>& p, int64_t i, int64_t j,
                              typename Register<U>::type sums) {
  constexpr int lanes = register_bytes / sizeof(U);
  for (int l = 0; l < lanes; ++l) finish_one<U>(p, i, j + l, sums[l]);
}

// Rows x Registers of sums at (i, j). Rows of b are contiguous.
template <int Rows, int Registers, class U>
void tile(const Part<U>& p, int64_t i, int64_t j) {
  using V = typename Register<U>::type;
  constexpr int lanes = register_bytes / sizeof(U);
  V sums[Rows][Registers] = {};
  const U *a = p.a + i * p.a_row, *b = p.b + j;
  for (int64_t x = 0; x < p.k; ++x, a += p.a_col, b += p.b_row) {
    V right[Registers];
#pragma GCC unroll 8
    for (int v = 0; v < Registers; ++v) std::memcpy(&right[v], b + v * lanes, sizeof(V));
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const U left = a[r * p.a_row];
#pragma GCC unroll 8
      for (int v = 0; v < Registers; ++v) sums[r][v] += left * right[v];
    }
  }
  // One by one: GCC keeps arrays that are copied as a whole in memory, at every step.
  const bool as_they_are = !p.addend && p.alpha == 1 && p.out_col == 1;
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < Registers; ++v) {
      const V sum = sums[r][v];
      if (as_they_are) {
        std::memcpy(p.out + (i + r) * p.out_row + j + v * lanes, &sum, sizeof sum);
      } else {
        finish<U>(p, i + r, j + v * lanes, sum);
      }
    }
  }
}

template <int Registers, class U>
void strip(const Part<U>& p, int64_t j) {
  constexpr int64_t rows = 4;
  int64_t i = 0;
  for (; i + rows <= p.m; i += rows) tile<rows, Registers>(p, i, j);
  for (; i < p.m; ++i) tile<1, Registers>(p, i, j);
}

// The last columns, fewer than a register has lanes.
template <class U>
void single_columns(const Part<U>& p, int64_t first) {
  for (int64_t i = 0; i < p.m; ++i) {
    const U* a = p.a + i * p.a_row;
    for (int64_t j = first; j < p.n; ++j) {
      const U* b = p.b + j * p.b_col;
      U sum = 0;
      if (p.a_col == 1 && p.b_row == 1) {
        for (int64_t x = 0; x < p.k; ++x) sum += a[x] * b[x];
      } else {
        for (int64_t x = 0; x < p.k; ++x) sum += a[x * p.a_col] * b[x * p.b_row];
      }
      finish_one(p, i, j, sum);
    }
  }
}

template <class U>
void product(Part<U> p) {
  constexpr int64_t lanes = register_bytes / sizeof(U);
  Memory<U> copy;
  if (p.n >= lanes && p.b_col != 1) {
    copy = memory_for<U>(p.k * p.n);
    for (int64_t x = 0; x < p.k; ++x) {
      for (int64_t j = 0; j < p.n; ++j) copy[x * p.n + j] = p.b[x * p.b_row + j * p.b_col];
    }
    p.b = copy.get();
    p.b_row = p.n, p.b_col = 1;
  } else if (p.n == 1 && p.b_row != 1) {
    copy = memory_for<U>(p.k);
    for (int64_t x = 0; x < p.k; ++x) copy[x] = p.b[x * p.b_row];
    p.b = copy.get();
    p.b_row = 1;
  }
  int64_t j = 0;
  for (; j + 2 * lanes <= p.n; j += 2 * lanes) strip<2>(p, j);
  for (; j + lanes <= p.n; j += lanes) strip<1>(p, j);
  if (j < p.n) single_columns(p, j);
}

}  // namespace

template <class T>
void integer_product(const Part<T>& p) {
  using U = std::make_unsigned_t<T>;
  const auto plain = [](const T* data) { return reinterpret_cast<const U*>(data); };
  product<U>({p.m, p.n, p.k, plain(p.a), p.a_row, p.a_col, plain(p.b), p.b_row, p.b_col,
              reinterpret_cast<U*>(p.out), p.out_row, p.out_col, plain(p.addend), p.addend_row,
              p.addend_col, static_cast<U>(p.alpha), static_cast<U>(p.beta)});
}
template void integer_product(const Part<int32_t>&);
template void integer_product(const Part<int64_t>&);

}  // namespace flambeau::cpu::ISA_NAMESPACE
