// CPU kernels of cumulative extremes.
#include <limits>

#include "flambeau/cpu/kernels/scan/indices.h"
#include "flambeau/cpu/kernels/slices.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Extremes so far and their indices. The last of equal elements counts; NaN, once seen, stays.
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

// Along one row: of a block of elements none of which is taken only the indices are written.
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

// How n rows of elements of some dtype are scanned, and how n columns side by side.
struct IndexScan {
  int64_t item;  // bytes of an element
  void (*rows)(const char* x, char* values, int64_t* index, int64_t size, int64_t n);
  void (*columns)(const char* x, char* values, int64_t* index, int64_t size, int64_t step,
                  int64_t n);
  bool past;  // what they write is stored non-temporally
};

void scan_slices(const Tensor& input, const Tensor& values, const Tensor& indices,
                 const SliceShape& s, const IndexScan& scan) {
  const char* x = static_cast<const char*>(input.raw());
  char* y = static_cast<char*>(values.raw());
  int64_t* index = indices.data<int64_t>();
  const auto rows = [&](int64_t at, int64_t n) {
    scan.rows(x + at * scan.item, y + at * scan.item, index + at, s.size, n);
    if (scan.past) _mm_sfence();
  };
  for_each_slice(s, 2, rows, [&](int64_t at, int64_t n) {
    scan.columns(x + at * scan.item, y + at * scan.item, index + at, s.size, s.inner, n);
    if (scan.past) _mm_sfence();
  });
}

template <class T>
const T* typed(const char* x) {
  return reinterpret_cast<const T*>(x);
}
template <class T>
T* typed(char* x) {
  return reinterpret_cast<T*>(x);
}

template <class T, class Better>
IndexScan scan_of_any() {
  return {sizeof(T),
          [](const char* x, char* values, int64_t* index, int64_t size, int64_t n) {
            for (int64_t at = 0; at < n * size; at += size) {
              scan_index_row(typed<T>(x) + at, typed<T>(values) + at, index + at, size, Better());
            }
          },
          [](const char* x, char* values, int64_t* index, int64_t size, int64_t step, int64_t n) {
            scan_index_columns(typed<T>(x), typed<T>(values), index, size, step, n, Better());
          },
          false};
}

#if FLAMBEAU_ISA_RANK >= 4
// Floats, and what is computed as such, in SIMD registers.
template <class T, class Better, bool past>
IndexScan scan_of_floats() {
  return {sizeof(T),
          [](const char* x, char* values, int64_t* index, int64_t size, int64_t n) {
            for (int64_t at = 0; at < n * size; at += size) {
              scan_indices_of_row<Better::code, past>(typed<T>(x) + at, typed<T>(values) + at,
                                                      index + at, size);
            }
          },
          [](const char* x, char* values, int64_t* index, int64_t size, int64_t step, int64_t n) {
            const T* from = typed<T>(x);
            T* to = typed<T>(values);
            const int64_t whole = n & ~static_cast<int64_t>(float_lanes - 1);
            scan_indices_of_columns<Better::code, past>(from, to, index, size, step, whole);
            scan_index_columns(from + whole, to + whole, index + whole, size, step, n - whole,
                               Better());
          },
          past};
}
#endif

template <class Better>
void scan_index(const char* name, const Tensor& input, const Tensor& values, const Tensor& indices,
                int64_t dim) {
  const SliceShape s(input, dim);
  dispatch<dtypes::RealBool>(name, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
#if FLAMBEAU_ISA_RANK >= 4
    if constexpr (std::is_same_v<ComputeType<T>, float>) {
      if (s.size <= std::numeric_limits<int32_t>::max()) {
        const int64_t run = s.inner == 1 ? s.size : s.inner;
        const uintptr_t addresses =
            reinterpret_cast<uintptr_t>(values.raw()) | reinterpret_cast<uintptr_t>(indices.raw());
        const bool whole_lines = (addresses | (run * sizeof(T))) % 64 == 0;
        const bool past =
            whole_lines && values.numel() * static_cast<int64_t>(sizeof(T)) * 2 >= cached_bytes;
        return scan_slices(
            input, values, indices, s,
            past ? scan_of_floats<T, Better, true>() : scan_of_floats<T, Better, false>());
      }
    }
#endif
    scan_slices(input, values, indices, s, scan_of_any<T, Better>());
  });
}

// Whether an element takes the place of one before it.
struct AsLarge {
  static constexpr int code = _CMP_GE_OQ;
  template <class C>
  bool operator()(C a, C b) const {
    return a >= b;
  }
};
struct AsSmall {
  static constexpr int code = _CMP_LE_OQ;
  template <class C>
  bool operator()(C a, C b) const {
    return a <= b;
  }
};

void cummax_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index<AsLarge>("cummax_cpu", input, values, indices, dim);
}
KERNEL_FOR(cummax, cummax_kernel)
void cummin_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index<AsSmall>("cummin_cpu", input, values, indices, dim);
}
KERNEL_FOR(cummin, cummin_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
