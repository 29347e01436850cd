// CPU kernel of products.
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class In>
struct Product {
  using Lane = ComputeType<In>;
  using Acc = Lane;
  static Lane start() { return Lane(1); }
  static Lane step(Lane a, ComputeType<In> x) { return math::times(a, x); }
  static Lane join(Lane a, Lane b) { return math::times(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return math::times(a, b); }
  static Acc finish(Acc a) { return a; }
};

void prod_kernel(const Reduction& r) {
  dispatch<dtypes::FloatingComplex | DType::int64>("prod", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T, T>(r, Product<T>());
  });
}
KERNEL_FOR(prod, prod_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
