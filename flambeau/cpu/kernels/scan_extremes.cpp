// CPU kernels of cumulative extremes.
#include <limits>

#include "flambeau/cpu/kernels/scan_places.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Extremes so far and their places. The last of equal elements counts; NaN, once seen, stays.
// Without branches, which nobody could foresee: along n columns side by side.
template <class T, class Better>
void scan_index_columns(const T* x, T* values, int64_t* indices, int64_t size, int64_t step,
                        int64_t n, Better better) {
  using C = ComputeType<T>;
  C best[column_block];
  int64_t at[column_block];
  for (int64_t j = 0; j < n; ++j) best[j] = static_cast<C>(x[j]), at[j] = 0;
  for (int64_t i = 0; i < size; ++i, x += step, values += step, indices += step) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const C v = static_cast<C>(x[j]), top = best[j];
      const bool taken = (v != v) | ((top == top) & better(v, top));
      const C chosen = taken ? v : top;
      const int64_t place = taken ? i : at[j];
      best[j] = chosen;
      at[j] = place;
      values[j] = static_cast<T>(chosen);
      indices[j] = place;
    }
  }
}

// Along one row: of a block of elements none of which is taken only the places are written.
template <class T, class Better>
void scan_index_row(const T* x, T* values, int64_t* indices, int64_t size, Better better) {
  using C = ComputeType<T>;
  constexpr int block = 16;
  C best = static_cast<C>(x[0]);
  int64_t at = 0;
  for (int64_t i = 0; i < size; i += block) {
    const int64_t n = std::min<int64_t>(block, size - i);
    int any = n < block;
    for (int j = 0; j < block && n == block; ++j) {
      const C v = static_cast<C>(x[i + j]);
      any |= (v != v) | better(v, best);
    }
    if (!any) {
      std::fill_n(values + i, block, static_cast<T>(best));
      std::fill_n(indices + i, block, at);
      continue;
    }
    for (int64_t j = i; j < i + n; ++j) {
      const C v = static_cast<C>(x[j]);
      const bool taken = (v != v) | ((best == best) & better(v, best));
      best = taken ? v : best;
      at = taken ? j : at;
      values[j] = static_cast<T>(best);
      indices[j] = at;
    }
  }
}

// Floats, and what is computed as such, by registers; false for others.
template <int better, class T, class Better>
bool scan_index_of_floats([[maybe_unused]] const Tensor& input,
                          [[maybe_unused]] const Tensor& values,
                          [[maybe_unused]] const Tensor& indices,
                          [[maybe_unused]] const SliceShape& s, [[maybe_unused]] Better compare) {
#if FLAMBEAU_ISA_RANK >= 4
  if constexpr (std::is_same_v<ComputeType<T>, float>) {
    if (s.size > std::numeric_limits<int32_t>::max()) return false;
    const T* x = input.data<T>();
    T* y = values.data<T>();
    int64_t* places = indices.data<int64_t>();
    const int64_t run = s.inner == 1 ? s.size : s.inner;
    const uintptr_t addresses =
        reinterpret_cast<uintptr_t>(y) | reinterpret_cast<uintptr_t>(places);
    const bool whole_lines = (addresses | (run * sizeof(T))) % 64 == 0;
    const bool past =
        whole_lines && values.numel() * static_cast<int64_t>(sizeof(T)) * 2 >= cached_bytes;
    const auto rows = [&](int64_t at, int64_t n) {
      const auto scan_row =
          past ? scan_places_of_row<better, true, T> : scan_places_of_row<better, false, T>;
      for (; n > 0; --n, at += s.size) scan_row(x + at, y + at, places + at, s.size);
      if (past) _mm_sfence();
    };
    const auto columns = [&](int64_t at, int64_t n) {
      const int64_t whole = n & ~static_cast<int64_t>(float_lanes - 1);
      const auto scan_some =
          past ? scan_places_of_columns<better, true, T> : scan_places_of_columns<better, false, T>;
      scan_some(x + at, y + at, places + at, s.size, s.inner, whole);
      if (past) _mm_sfence();
      at += whole;
      scan_index_columns(x + at, y + at, places + at, s.size, s.inner, n - whole, compare);
    };
    for_each_slice(s, 2, rows, columns);
    return true;
  }
#endif
  return false;
}

template <int better, class Better>
void scan_index(const char* name, const Tensor& input, const Tensor& values, const Tensor& indices,
                int64_t dim, Better compare) {
  dispatch<dtypes::RealBool>(name, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SliceShape s(input, dim);
    if (scan_index_of_floats<better, T>(input, values, indices, s, compare)) return;
    const T* x = input.data<T>();
    T* y = values.data<T>();
    int64_t* places = indices.data<int64_t>();
    const auto rows = [&](int64_t at, int64_t n) {
      for (; n > 0; --n, at += s.size) {
        scan_index_row(x + at, y + at, places + at, s.size, compare);
      }
    };
    for_each_slice(s, 2, rows, [&](int64_t at, int64_t n) {
      scan_index_columns(x + at, y + at, places + at, s.size, s.inner, n, compare);
    });
  });
}

void cummax_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index<_CMP_GE_OQ>("cummax_cpu", input, values, indices, dim,
                         [](auto a, auto b) { return a >= b; });
}
KERNEL_FOR(cummax, cummax_kernel)
void cummin_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index<_CMP_LE_OQ>("cummin_cpu", input, values, indices, dim,
                         [](auto a, auto b) { return a <= b; });
}
KERNEL_FOR(cummin, cummin_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
