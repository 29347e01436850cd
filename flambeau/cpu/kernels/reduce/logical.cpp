// CPU kernels of any, all and count_nonzero. An element is true if any of its bits is set, but for
// the signs of its parts: minus zero is false. So all dtypes are read as unsigned integers, for
// which complex128 is too large (ops/reduce/logical.cpp).
#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class U>
struct Any {
  using Lane = U;
  using Acc = U;
  U bits;
  static Lane start() { return 0; }
  Lane step(Lane a, U x) const { return a | (x & bits); }
  static Lane join(Lane a, Lane b) { return a | b; }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return a | b; }
  static bool finish(Acc a) { return a != 0; }
};

template <class U>
struct All {
  using Lane = U;
  using Acc = U;
  U bits;
  static Lane start() { return 1; }
  Lane step(Lane a, U x) const { return a & static_cast<Lane>((x & bits) != 0); }
  static Lane join(Lane a, Lane b) { return a & b; }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return a & b; }
  static bool finish(Acc a) { return a != 0; }
};

template <class U>
using CountLane = std::conditional_t<sizeof(U) <= 4, int32_t, int64_t>;
template <class U>
struct CountNonzero : Adding<CountNonzero<U>, CountLane<U>, int64_t> {
  U bits;
  explicit CountNonzero(U counted) : bits(counted) {}
  CountLane<U> value(U x) const {
    if constexpr (sizeof(U) == 1) return std::min<U>(x & bits, 1);
    return (x & bits) != 0;
  }
};

template <template <class> class Op, class Out>
void logical_kernel(const char* name, const Reduction& r) {
  const auto as = [&]<class U>(U bits) { reduce<U, Out>(r, Op<U>{bits}); };
  dispatch<dtypes::All - DType::complex128>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr bool has_sign = !std::is_integral_v<T>;
    if constexpr (std::is_same_v<T, std::complex<float>>) {
      as(UINT64_C(0x7fffffff7fffffff));
    } else if constexpr (sizeof(T) == 1) {
      as(uint8_t{0xff});
    } else if constexpr (sizeof(T) == 2) {
      as(static_cast<uint16_t>(has_sign ? 0x7fff : 0xffff));
    } else if constexpr (sizeof(T) == 4) {
      as(has_sign ? UINT32_C(0x7fffffff) : UINT32_C(0xffffffff));
    } else {
      as(has_sign ? UINT64_C(0x7fffffffffffffff) : UINT64_C(0xffffffffffffffff));
    }
  });
}
KERNEL_FOR(any, [](const Reduction& r) { logical_kernel<Any, bool>("any", r); })
KERNEL_FOR(all, [](const Reduction& r) { logical_kernel<All, bool>("all", r); })
KERNEL_FOR(count_nonzero,
           [](const Reduction& r) { logical_kernel<CountNonzero, int64_t>("count_nonzero", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
