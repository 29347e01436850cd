// CPU kernels of sums, means, products and norms.
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class In>
struct Sum : Adding<Sum<In>, SumLane<In>, SumAcc<In>> {
  static SumLane<In> value(ComputeType<In> x) { return static_cast<SumLane<In>>(x); }
};

void sum_kernel(const Reduction& r) {
  dispatch<dtypes::All>("sum", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, SumOut<T>>(r, Sum<T>());
  });
}
KERNEL_FOR(sum, sum_kernel)

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

template <class In>
struct Mean : Adding<Mean<In>, ComputeType<In>> {
  using C = ComputeType<In>;
  int64_t count;
  explicit Mean(int64_t n) : count(n) {}
  static C value(C x) { return x; }
  C finish(C total) const {
    if constexpr (is_complex_type<C>) {
      return total / static_cast<typename C::value_type>(count);
    } else {
      return total / static_cast<C>(count);
    }
  }
};

void mean_kernel(const Reduction& r) {
  dispatch<dtypes::FloatingComplex>("mean", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, T>(r, Mean<T>(r.count));
  });
}
KERNEL_FOR(mean, mean_kernel)

template <class In>
struct Product {
  using Lane = SumAcc<In>;
  using Acc = Lane;
  static Lane start() { return Lane(1); }
  static Lane step(Lane a, ComputeType<In> x) { return math::times(a, static_cast<Lane>(x)); }
  static Lane join(Lane a, Lane b) { return math::times(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return math::times(a, b); }
  static Acc finish(Acc a) { return a; }
};

void prod_kernel(const Reduction& r) {
  dispatch<dtypes::All>("prod", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, SumOut<T>>(r, Product<T>());
  });
}
KERNEL_FOR(prod, prod_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
