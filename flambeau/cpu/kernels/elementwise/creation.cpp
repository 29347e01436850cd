// CPU kernels that fill contiguous tensors with sequences.
#include "flambeau/kernels/creation.h"
#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

void arange_kernel(const Tensor& out, const Scalar& start, const Scalar& step) {
  dispatch<dtypes::Real>("arange", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    const C first = start.to<C>(), by = step.to<C>();
    T* data = out.data<T>();
    parallel_for(0, out.numel(), default_grain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        data[i] = static_cast<T>(first + by * static_cast<C>(i));
    });
  });
}
KERNEL_FOR(arange, arange_kernel)

// From both ends towards the middle, so that the sequence is symmetric and ends exactly.
void linspace_kernel(const Tensor& out, const Scalar& start, const Scalar& end) {
  const int64_t n = out.numel();
  dispatch<dtypes::Numeric>("linspace", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_integral_v<T>, double, ComputeType<T>>;
    const C first = start.to<C>(), last = end.to<C>();
    const C step = n > 1 ? (last - first) / static_cast<C>(n - 1) : C(0);
    T* data = out.data<T>();
    parallel_for(0, n, default_grain, [=](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        const C value = i < n / 2 || n == 1 ? first + step * static_cast<C>(i)
                                            : last - step * static_cast<C>(n - 1 - i);
        data[i] = static_cast<T>(value);
      }
    });
  });
}
KERNEL_FOR(linspace, linspace_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
