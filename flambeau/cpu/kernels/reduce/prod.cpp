// CPU kernel of products.
#include "flambeau/cpu/kernels/math/complex_pairs.h"
#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Floats are multiplied as such in lanes, and those in double precision, where what no float can
// bring back counts as zero: the processor is slow with products that are just not normal.
template <class In>
struct Product {
  using Lane = ComputeType<In>;
  using Acc = std::conditional_t<std::is_same_v<Lane, float>, double, Lane>;
  static constexpr bool joins_values = true;
  static Lane start() { return Lane(1); }
  static Lane step(Lane a, ComputeType<In> x) { return math::times(a, x); }
  static Lane join(Lane a, Lane b) { return math::times(a, b); }
  using Pairs = std::conditional_t<std::is_same_v<In, std::complex<float>>, Floats, Doubles>;
  static Pairs step_register(Pairs a, Pairs x) requires is_complex_type<In> {
    return product_of_pairs(x, a);
  }
  static Acc widen(Lane a) { return static_cast<Acc>(a); }
  static Acc merge(Acc a, Acc b) {
    const Acc product = math::times(a, b);
    if constexpr (std::is_same_v<Lane, float>) {
      return math::abs(product) < 0x1p-500 ? product * 0.0 : product;
    } else {
      return product;
    }
  }
  static Lane finish(Acc a) { return static_cast<Lane>(a); }
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
