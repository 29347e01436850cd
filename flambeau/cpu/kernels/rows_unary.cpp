// CPU kernels of unary.def.
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

struct sigmoid_formula;
struct silu_formula;

namespace {

// Transcendental functions are worth a second thread earlier than additions are.
constexpr int unary_cost = 4;

// Formulas that are computed by registers where they are bound by arithmetic.
template <class Formula, class C>
concept OfRegisters = std::is_same_v<C, float> &&
    (std::is_same_v<Formula, sigmoid_formula> || std::is_same_v<Formula, silu_formula>);

template <class Formula, class C>
struct Plain {
  C p, q;
  auto operator()(C x) const { return Formula::at(x, p, q); }
  Floats operator()(Floats x) const requires OfRegisters<Formula, C> {
    return Formula::at(x, all_lanes(p), all_lanes(q));
  }
};

template <class Formula, DTypeSet Set, bool Predicate>
void unary_kernel(const TensorIter& iter, const Scalar* params) {
  dispatch_row<Set>(Formula::name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using Out = std::conditional_t<Predicate, bool, T>;
    const C p = params ? params[0].to<C>() : C(0);
    const C q = Formula::two && params ? params[1].to<C>() : C(0);
    unary_loop<Out, T>(iter, Plain<Formula, C>{p, q}, unary_cost);
  });
}

}  // namespace

#define FORMULA(name_, value, two_)                                   \
  struct name_##_formula {                                            \
    static constexpr const char* name = #name_;                       \
    static constexpr bool two = two_;                                 \
    template <class C>                                                \
    static auto at(C x, [[maybe_unused]] C p, [[maybe_unused]] C q) { \
      using namespace math;                                           \
      return static_cast<std::common_type_t<decltype(value)>>(value); \
    }                                                                 \
  };
#define UNARY(name, set, value, keeps, gradient, doc, ...) \
  FORMULA(name, value, false)                              \
  KERNEL_FOR(name, unary_kernel<name##_formula, dtypes::set, false>)
#define PREDICATE(name, set, value, doc, ...) \
  FORMULA(name, value, false)                 \
  KERNEL_FOR(name, unary_kernel<name##_formula, dtypes::set, true>)
#define UNARY1(name, p, p_default, set, value, keeps, gradient, doc) \
  UNARY(name, set, value, keeps, gradient, doc)
#define UNARY2(name, p_name, p_default, q_name, q_default, set, value, keeps, gradient, doc) \
  FORMULA(name, value, true)                                                                 \
  KERNEL_FOR(name, unary_kernel<name##_formula, dtypes::set, false>)
#include "flambeau/kernels/unary.def"

namespace {

// After the rows, so that it stays in the slot: the sign of a reduced number is a bit.
void neg_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::float16 || iter.dtypes[1] == DType::bfloat16) {
    return unary_loop<uint16_t, uint16_t>(
        iter, [](uint16_t bits) { return static_cast<uint16_t>(bits ^ 0x8000); }, 1);
  }
  unary_kernel<neg_formula, dtypes::Numeric, false>(iter, params);
}
KERNEL_FOR(neg, neg_kernel)

}  // namespace

}  // namespace flambeau::cpu::ISA_NAMESPACE
