// CPU kernels of cumulative sums and products.
#include "flambeau/cpu/kernels/scan.h"
#include "flambeau/cpu/kernels/scan_rows.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Rows of floats from their begin on; false for others.
template <class F, class T>
bool scan_floats_of_rows(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  if constexpr (std::is_same_v<ComputeType<T>, float>) {
    const SliceShape shape(input, dim);
    if (reverse || shape.inner != 1 || shape.size < short_scan) return false;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    const bool beyond_cache =
        x != y && out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
    parallel_for(0, shape.outer, std::max<int64_t>(1, default_grain / 2 / shape.size),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t at = begin * shape.size; at < end * shape.size; at += shape.size)
                     scan_row_of_floats<F>(x + at, y + at, shape.size, beyond_cache);
                 });
    return true;
  }
  return false;
}

constexpr DTypeSet scanned = dtypes::FloatingComplex | DType::int64;

void cumsum_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  dispatch<scanned>("cumsum_out_cpu", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Carry<T>;
    if (scan_floats_of_rows<RunningSum, T>(input, out, dim, reverse)) return;
    scan<T>(input, out, dim, reverse, A(0), [](A a, A b) { return math::plus(a, b); });
  });
}
KERNEL_FOR(cumsum, cumsum_kernel)

void cumprod_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  dispatch<scanned>("cumprod_out_cpu", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Carry<T>;
    if (scan_floats_of_rows<RunningProduct, T>(input, out, dim, reverse)) return;
    scan<T>(input, out, dim, reverse, A(1), [](A a, A b) { return math::times(a, b); });
  });
}
KERNEL_FOR(cumprod, cumprod_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
