// Running results along one dimension of a contiguous tensor.
#pragma once

#include <algorithm>
#include <complex>
#include <type_traits>

#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Long running sums lose digits; floats are therefore carried in double.
template <class T>
using Carry = std::conditional_t<
    is_floating_type<T>, double,
    std::conditional_t<std::is_same_v<T, std::complex<float>>, std::complex<double>, T>>;

template <class T, class Carried>
inline T narrow(Carried value) {
  if constexpr (is_complex_type<T>) {
    return T(value);
  } else {
    return static_cast<T>(static_cast<ComputeType<T>>(value));
  }
}

// Copies results that nobody will read soon, as they are too many for the caches.
template <class T>
void move_non_temporal(const T* from, T* to, int64_t n) {
  copy_non_temporal(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from),
                    n * static_cast<int64_t>(sizeof(T)));
}

// Rows that are scanned together: each step of one waits for the step before, those of others need
// not.
constexpr int together = 8;

// out[i] = f(out[i - 1], in[i]) along N rows of n elements that begin `row` apart, from their ends
// if `reverse`. In chunks, so that the conversions are vector code.
template <int N, class T, class F>
void scan_rows(const T* x, T* y, int64_t n, int64_t row, bool reverse, bool beyond_cache,
               Carry<T> start, F f) {
  using A = Carry<T>;
  constexpr int64_t chunk = 128;
  if constexpr (N == 1 && std::is_same_v<A, T>) {
    if (!beyond_cache && !reverse) {  // nothing is converted, and the first step waits for nothing
      for (int64_t i = 0; i < n; ++i) y[i] = start = f(start, x[i]);
      return;
    }
  }
  A scratch[N][chunk], carried[N];
  T results[chunk];
  std::fill_n(carried, N, start);
  for (int64_t done = 0; done < n; done += chunk) {
    const int64_t count = std::min(chunk, n - done), at = reverse ? n - done - count : done;
    for (int k = 0; k < N; ++k) {
      const T* from = x + k * row + at;
      for (int64_t i = 0; i < count; ++i) {
        scratch[k][i] = static_cast<A>(static_cast<ComputeType<T>>(from[i]));
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t next = reverse ? count - 1 - i : i;
#pragma GCC unroll 8
      for (int k = 0; k < N; ++k) scratch[k][next] = carried[k] = f(carried[k], scratch[k][next]);
    }
    for (int k = 0; k < N; ++k) {
      T *place = y + k * row + at, *to = beyond_cache ? results : place;
      for (int64_t i = 0; i < count; ++i) to[i] = narrow<T>(scratch[k][i]);
      if (beyond_cache) move_non_temporal(results, place, count);
    }
  }
  if (beyond_cache) _mm_sfence();
}

// Rows of a few elements, of which the processor works on several at once by itself.
constexpr int64_t short_scan = 32;
template <class T, class F>
void scan_short_rows(const T* x, T* y, int64_t rows, int64_t n, bool reverse, Carry<T> start, F f) {
  using A = Carry<T>;
  const int64_t step = reverse ? -1 : 1, first = reverse ? n - 1 : 0;
  for (int64_t row = 0; row < rows; ++row) {
    A carried = start;
    const T* from = x + row * n + first;
    T* to = y + row * n + first;
    for (int64_t i = 0; i < n; ++i, from += step, to += step) {
      carried = f(carried, static_cast<A>(static_cast<ComputeType<T>>(*from)));
      *to = narrow<T>(carried);
    }
  }
}

// out[i] = f(out[i - 1], in[i]) along the dimension, from `start`.
template <class T, class F>
void scan(const Tensor& input, const Tensor& out, int64_t dim, bool reverse, Carry<T> start, F f) {
  using A = Carry<T>;
  const SliceShape shape(input, dim);
  const T* x = input.data<T>();
  T* y = out.data<T>();
  const bool beyond_cache = x != y && out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
  const auto index = [&](int64_t i) { return reverse ? shape.size - 1 - i : i; };
  for_each_slice(
      shape, 2,
      [&](int64_t at, int64_t rows) {
        const int64_t n = shape.size;
        if (n < short_scan) return scan_short_rows(x + at, y + at, rows, n, reverse, start, f);
        for (; rows >= together; rows -= together, at += together * n) {
          scan_rows<together>(x + at, y + at, n, n, reverse, beyond_cache, start, f);
        }
        for (; rows > 0; --rows, at += n) {
          scan_rows<1>(x + at, y + at, n, n, reverse, beyond_cache, start, f);
        }
      },
      [&](int64_t at, int64_t n) {
        A carried[column_block];
        T scratch[column_block];
        std::fill_n(carried, n, start);
        for (int64_t i = 0; i < shape.size; ++i) {
          const int64_t k = at + index(i) * shape.inner;
          T* to = beyond_cache ? scratch : y + k;
          IVDEP for (int64_t j = 0; j < n; ++j) {
            carried[j] = f(carried[j], static_cast<A>(static_cast<ComputeType<T>>(x[k + j])));
            to[j] = narrow<T>(carried[j]);
          }
          if (beyond_cache) move_non_temporal(scratch, y + k, n);
        }
        if (beyond_cache) _mm_sfence();
      });
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
