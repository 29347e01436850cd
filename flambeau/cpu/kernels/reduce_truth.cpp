// CPU kernels of any, all and count_nonzero.
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A flag as wide as the element, so that comparing and gathering use registers alike.
template <class In>
using FlagLane =
    std::conditional_t<sizeof(In) == 1, uint8_t,
                       std::conditional_t<sizeof(In) == 2, uint16_t,
                                          std::conditional_t<sizeof(In) == 4, uint32_t, uint64_t>>>;

template <class In>
struct Any {
  using Lane = FlagLane<In>;
  using Acc = Lane;
  static Lane start() { return 0; }
  static Lane step(Lane a, ComputeType<In> x) { return a | static_cast<Lane>(math::truth(x)); }
  static Lane join(Lane a, Lane b) { return a | b; }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return a | b; }
  static bool finish(Acc a) { return a != 0; }
};

template <class In>
struct All {
  using Lane = FlagLane<In>;
  using Acc = Lane;
  static Lane start() { return 1; }
  static Lane step(Lane a, ComputeType<In> x) { return a & static_cast<Lane>(math::truth(x)); }
  static Lane join(Lane a, Lane b) { return a & b; }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return a & b; }
  static bool finish(Acc a) { return a != 0; }
};

template <class In>
using CountLane = std::conditional_t<sizeof(In) <= 4, int32_t, int64_t>;
template <class In>
struct CountNonzero : Adding<CountNonzero<In>, CountLane<In>, int64_t> {
  static CountLane<In> value(ComputeType<In> x) { return math::truth(x); }
};

template <template <class> class Op, class Out>
void truth_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::All>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Signs do not matter, so signed integers share the code of unsigned ones.
    if constexpr (std::is_integral_v<T>) {
      using U = FlagLane<T>;
      reduce<U, Out>(r, Op<U>());
    } else {
      reduce<T, Out>(r, Op<T>());
    }
  });
}
KERNEL_FOR(any, [](const Reduction& r) { truth_kernel<Any, bool>("any", r); })
KERNEL_FOR(all, [](const Reduction& r) { truth_kernel<All, bool>("all", r); })
KERNEL_FOR(count_nonzero,
           [](const Reduction& r) { truth_kernel<CountNonzero, int64_t>("count_nonzero", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
