// CPU kernels of cumulative sums and products.
#include "flambeau/cpu/kernels/scan/integers.h"
#include "flambeau/cpu/kernels/scan/pairs.h"
#include "flambeau/cpu/kernels/scan/rows.h"
#include "flambeau/cpu/kernels/scan/scan.h"
#include "flambeau/cpu/kernels/scan/tiles.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// bfloat16 is computed in float, all others in double precision.
template <class T>
constexpr bool in_pairs = std::is_same_v<T, BFloat16>;

template <class F, bool past, class T>
void scan_rows_of_floats(const T* x, T* y, int64_t rows, int64_t n, bool beyond_cache) {
  // Few rows are not worth it, unless it makes a difference where products leave the floats.
  constexpr int64_t least = in_pairs<T> && F::neutral == 1 ? 1 : tile_rows;
  for (int64_t some; rows >= least; rows -= some, x += some * n, y += some * n) {
    if constexpr (in_pairs<T>) {
      some = std::min<int64_t>(rows, pair_rows);
      scan_rows_of_pairs<F, past>(x, y, some, n);
    } else {
      some = tile_rows;
      scan_four_rows<F, past>(x, y, n, n);
    }
  }
  if (past) _mm_sfence();
  for (; rows > 0; --rows, x += n, y += n) scan_row_of_floats<F>(x, y, n, beyond_cache);
}

template <class F, bool past, class T>
void scan_columns_of_floats(const T* x, T* y, int64_t size, int64_t step, int64_t n) {
  if constexpr (in_pairs<T>) {
    scan_columns_of_pairs<F, past>(x, y, size, step, n);
  } else {
    scan_float_columns<F, past>(x, y, size, step, n);
  }
  if (past) _mm_sfence();
}

// Floats, and what is computed as such; false for others, and for rows from their end on.
template <class F, class T>
bool scan_as_floats(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  if constexpr (std::is_same_v<ComputeType<T>, float>) {
    const SliceShape shape(input, dim);
    const T* x = input.data<T>();
    T* y = out.data<T>();
    const bool along_rows = shape.inner == 1;
    if (x == y || (along_rows && (reverse || shape.size < short_scan))) return false;
    const int64_t run = along_rows ? shape.size : shape.inner;
    const bool beyond_cache = out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
    const bool whole_lines = (reinterpret_cast<uintptr_t>(y) | (run * sizeof(T))) % 64 == 0;
    const bool past = beyond_cache && whole_lines;
    for_each_slice(
        shape, 2,
        [&](int64_t at, int64_t rows) {
          const auto scan_some =
              past ? scan_rows_of_floats<F, true, T> : scan_rows_of_floats<F, false, T>;
          scan_some(x + at, y + at, rows, shape.size, beyond_cache);
        },
        [&](int64_t at, int64_t n) {
          const int64_t first = at + (reverse ? (shape.size - 1) * shape.inner : 0);
          const int64_t step = reverse ? -shape.inner : shape.inner;
          const auto scan_some =
              past ? scan_columns_of_floats<F, true, T> : scan_columns_of_floats<F, false, T>;
          scan_some(x + first, y + first, shape.size, step, n);
        });
    return true;
  }
  return false;
}

constexpr DTypeSet scanned = dtypes::FloatingComplex | DType::int64;

void cumsum_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  if (scan_integer_sums(input, out, dim, reverse)) return;
  dispatch<scanned>("cumsum_out_cpu", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Carry<T>;
    if (scan_as_floats<RunningSum, T>(input, out, dim, reverse)) return;
    scan<T>(input, out, dim, reverse, A(0), [](A a, A b) { return math::plus(a, b); });
  });
}
KERNEL_FOR(cumsum, cumsum_kernel)

void cumprod_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  dispatch<scanned>("cumprod_out_cpu", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Carry<T>;
    if (scan_as_floats<RunningProduct, T>(input, out, dim, reverse)) return;
    scan<T>(input, out, dim, reverse, A(1), [](A a, A b) { return math::times(a, b); });
  });
}
KERNEL_FOR(cumprod, cumprod_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
