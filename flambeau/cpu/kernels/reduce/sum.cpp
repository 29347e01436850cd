// CPU kernels of sums and means.
#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A sum, or the mean if `count` is given.
template <class In>
struct Sum : Adding<Sum<In>, SumLane<In>, SumAcc<In>> {
  using Acc = SumAcc<In>;
  int64_t count;
  explicit Sum(int64_t of) : count(of) {}
  static SumLane<In> value(ComputeType<In> x) { return static_cast<SumLane<In>>(x); }
  Acc finish(Acc total) const {
    if (count < 0) return total;
    if constexpr (is_complex_type<Acc>) {
      return total / static_cast<typename Acc::value_type>(count);
    } else {
      return total / static_cast<Acc>(count);
    }
  }
};

template <class In>
void add_up(const Reduction& r, int64_t count) {
  reduce<In, SumOut<In>>(r, Sum<In>(count));
}

void sum_kernel(const Reduction& r) {
  if (r.in_dtype == DType::bool_) return kernels::count_nonzero(DeviceType::cpu, r);
  dispatch<dtypes::FloatingComplex | dtypes::Signed | DType::uint8>(
      "sum", r.in_dtype, [&](auto tag) { add_up<typename decltype(tag)::type>(r, -1); });
}
KERNEL_FOR(sum, sum_kernel)

void mean_kernel(const Reduction& r) {
  dispatch<dtypes::FloatingComplex>(
      "mean", r.in_dtype, [&](auto tag) { add_up<typename decltype(tag)::type>(r, r.count); });
}
KERNEL_FOR(mean, mean_kernel)

template <class In>
struct NanSum : Adding<NanSum<In>, ComputeType<In>> {
  static ComputeType<In> value(ComputeType<In> x) { return x == x ? x : ComputeType<In>(0); }
};

void nansum_kernel(const Reduction& r) {
  dispatch<dtypes::Floating>("nansum", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, T>(r, NanSum<T>());
  });
}
KERNEL_FOR(nansum, nansum_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
