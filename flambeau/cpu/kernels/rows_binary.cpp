// CPU kernels of binary.def.
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class Formula, DTypeSet Set, bool Compares>
void binary_kernel(const TensorIter& iter, const Scalar*) {
  dispatch<Set>(Formula::name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using Out = std::conditional_t<Compares, bool, T>;
    binary_loop<Out, T>(
        iter, [](C a, C b) { return Formula::at(a, b); }, 1);
  });
}

}  // namespace

#define FORMULA(name_, value)                   \
  struct name_##_formula {                      \
    static constexpr const char* name = #name_; \
    template <class C>                          \
    static auto at(C a, C b) {                  \
      using namespace math;                     \
      return value;                             \
    }                                           \
  };
#define BINARY(name, set, value, keeps_a, grad_a, keeps_b, grad_b, doc) \
  FORMULA(name, value)                                                  \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, false>)
#define KERNEL BINARY
#define COMPARE(name, set, value, doc) \
  FORMULA(name, value)                 \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, true>)
#define INTEGERS(name, set, value, doc) \
  FORMULA(name, value)                  \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, false>)
#include "flambeau/kernels/binary.def"

}  // namespace flambeau::cpu::ISA_NAMESPACE
