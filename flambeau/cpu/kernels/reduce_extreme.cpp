// CPU kernels of amax and amin.
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <template <class> class Op>
void extreme_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::RealBool - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // A bool is compared as the byte that it is.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    reduce<Stored, Stored>(r, Op<ComputeType<Stored>>());
  });
}
KERNEL_FOR(amax, [](const Reduction& r) { extreme_kernel<Largest>("max_values_cpu", r); })
KERNEL_FOR(amin, [](const Reduction& r) { extreme_kernel<Smallest>("min_values_cpu", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
