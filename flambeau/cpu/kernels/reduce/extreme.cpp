// CPU kernels of amax and amin.
#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <template <class> class Op>
void extreme_kernel(const char* name, const Reduction& r, const ReduceSlot& of_bools) {
  if (r.in_dtype == DType::bool_) return of_bools(DeviceType::cpu, r);
  dispatch<dtypes::Real - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, T>(r, Op<ComputeType<T>>());
  });
}
KERNEL_FOR(amax,
           [](const Reduction& r) { extreme_kernel<Largest>("max_values_cpu", r, kernels::any); })
KERNEL_FOR(amin,
           [](const Reduction& r) { extreme_kernel<Smallest>("min_values_cpu", r, kernels::all); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
