// CPU kernels of unary.def.
#include <functional>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/math/complex_pairs.h"
#include "flambeau/cpu/kernels/math/elementary.h"
#include "flambeau/cpu/kernels/math/result_tables.h"
#include "flambeau/cpu/kernels/math/trigonometry.h"
#include "flambeau/cpu/kernels/simd/doubles.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Formulas that are computed in SIMD registers, being bound by arithmetic otherwise: as their rows
// say, or by what suits registers better.
template <class Formula>
constexpr bool unary_simd =
    is_one_of<Formula, struct sigmoid_formula, struct silu_formula, struct expm1_formula,
              struct tanh_formula, struct atan_formula, struct erf_formula, struct log_formula,
              struct log1p_formula, struct sin_formula, struct cos_formula, struct tan_formula,
              struct asin_formula, struct acos_formula, struct sinh_formula, struct cosh_formula>;
template <class Formula>
struct UnarySimd {
  static Floats at(Floats x, Floats p, Floats q) requires unary_simd<Formula> {
    return Formula()(x, p, q);
  }
};
template <>
struct UnarySimd<struct elu_formula> {
  static Floats at(Floats x, Floats alpha, Floats) {
    return x < 0.0f ? math::expm1_below(x, alpha) : x;
  }
};
template <>
struct UnarySimd<struct selu_formula> {
  static Floats at(Floats x, Floats, Floats) {
    constexpr float scale = 1.0507009873554805f, scaled_alpha = 1.7580993408473766f;
    return x < 0.0f ? math::expm1_below(x, all_lanes(scaled_alpha)) : x * scale;
  }
};
template <>
struct UnarySimd<struct celu_formula> {
  static Floats at(Floats x, Floats alpha, Floats) {
    const Floats inverse = 1.0f / alpha;  // the same for all x, as in PyTorch; it may be negative
    return x < 0.0f ? math::expm1_below(math::min(x * inverse, 89.0f), alpha) : x;
  }
};
template <>
struct UnarySimd<struct logit_between_formula> {
  static Floats at(Floats x, Floats low, Floats high) {
    const Floats p = x < low ? low : smaller_or_second(high, x);
    return math::log(p / (1.0f - p));
  }
};
#if FLAMBEAU_ISA_RANK >= 4  // elsewhere the vector library's and the processor's are as fast
template <>
struct UnarySimd<struct exp_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::exp(x); }
};
template <>
struct UnarySimd<struct exp2_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::exp2(x); }
};
template <>
struct UnarySimd<struct log2_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::log2(x); }
};
template <>
struct UnarySimd<struct log10_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::log10(x); }
};
template <>
struct UnarySimd<struct sqrt_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::sqrt(x); }
};
template <>
struct UnarySimd<struct rsqrt_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::rsqrt(x); }
};
#endif
template <>
struct UnarySimd<struct softplus_formula> {
  static Floats at(Floats x, Floats beta, Floats threshold) {
    const Floats y = x * beta;
    const Floats soft = math::max(y, 0) + math::softplus_tail(y);
    return y > threshold ? x : soft * (1.0f / beta);
  }
};
template <>
struct UnarySimd<struct log_sigmoid_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::min(x, 0) - math::softplus_tail(x); }
};
template <>
struct UnarySimd<struct mish_formula> {
  static Floats at(Floats x, Floats, Floats) { return math::mish(x); }
};

// Formulas that fewer instructions serve where eight bits of the result are kept, and the same
// ones. Some are so short that half of a large tensor's results are better computed than looked up,
// or all of them where looking up takes long.
template <class Formula>
struct ForBFloat16;
template <>
struct ForBFloat16<struct hardsigmoid_formula> {
  static constexpr bool beside_table = false;
  static Floats six_times(Floats x) { return math::min(math::max(x + 3.0f, 0), 6); }
  Floats operator()(Floats x) const { return six_times(x) * (1.0f / 6); }
};
template <>
struct ForBFloat16<struct hardswish_formula> {
  static constexpr bool beside_table = false;
  Floats operator()(Floats x) const {
    return x * ForBFloat16<struct hardsigmoid_formula>::six_times(x) * (1.0f / 6);
  }
};
template <>
struct ForBFloat16<struct relu6_formula> {
  static constexpr bool beside_table = false, is_exact = true;
  Floats operator()(Floats x) const { return math::min(math::max(x, 0), 6); }
};
#if FLAMBEAU_ISA_RANK >= 4
// The powers of two that `powers_of_two` has, of which one is 15 units higher: so all results are
// right, two of which a polynomial of degree two would miss.
constexpr auto powers_for_bfloat16 = [] {
  auto bits = powers_of_two;
  bits[14] += 15;
  return bits;
}();
template <>
struct ForBFloat16<struct exp_formula> {
  static constexpr bool beside_table = true;
  Floats operator()(Floats x) const {
    if (!all_between(magnitude(x), 0.0f, 87.0f)) [[unlikely]]
      return math::exp(x);
    constexpr auto steps = static_cast<float>(std::numbers::log2e);
    constexpr float shift = 0x1.8p23f / float_lanes;
    const Floats shifted = x * steps + shift, r = x * steps - (shifted - shift);
    const Ints count = std::bit_cast<Ints>(shifted);
    const Ints above = chosen(std::bit_cast<Ints>(powers_for_bfloat16), count);
    const Floats power = std::bit_cast<Floats>(above + (count << (23 - lane_bits)));
    return power * ((r * 0.2402265f + std::numbers::ln2_v<float>)*r) + power;
  }
};
// By estimates of 14 bits and what they miss, where neither is near the ends of the range.
template <>
struct ForBFloat16<struct reciprocal_formula> {
  static constexpr bool beside_table = true;
  Floats operator()(Floats x) const {
    if (!all_between(magnitude(x), 0x1p-125f, 0x1p125f)) [[unlikely]]
      return 1.0f / x;
    const Floats estimate = inverse_estimate(x);
    return (1.0f - x * estimate) * estimate + estimate;
  }
};
template <>
struct ForBFloat16<struct rsqrt_formula> {
  static constexpr bool beside_table = true;
  Floats operator()(Floats x) const {
    if (!all_between(x, 0x1p-125f, 0x1p125f)) [[unlikely]]
      return 1.0f / Floats(_mm512_maskz_sqrt_ps(0xffff, x));
    const Floats estimate = inverse_root_estimate(x);
    return (1.0f - (x * estimate) * estimate) * (estimate * 0.5f) + estimate;
  }
};
template <>
struct ForBFloat16<struct sqrt_formula> {
  static constexpr bool beside_table = true;
  Floats operator()(Floats x) const {
    if (!all_between(x, 0x1p-125f, 0x1p125f)) [[unlikely]]
      return _mm512_maskz_sqrt_ps(0xffff, x);
    const Floats inverse = inverse_root_estimate(x), estimate = x * inverse;
    return (x - estimate * estimate) * (inverse * 0.5f) + estimate;
  }
};
#endif

// Functions that take longer than looking them up in a table of the results of all 16-bit numbers.
template <class Formula>
constexpr bool is_worth_a_table =
    is_one_of<Formula, struct exp_formula, struct exp2_formula, struct expm1_formula,
              struct log_formula, struct log2_formula, struct log10_formula, struct log1p_formula,
              struct sqrt_formula, struct rsqrt_formula, struct reciprocal_formula,
              struct sin_formula, struct cos_formula, struct tan_formula, struct asin_formula,
              struct acos_formula, struct atan_formula, struct sinh_formula, struct cosh_formula,
              struct tanh_formula, struct asinh_formula, struct acosh_formula, struct atanh_formula,
              struct sigmoid_formula, struct erf_formula, struct erfc_formula, struct silu_formula,
              struct log_sigmoid_formula, struct mish_formula, struct hardswish_formula,
              struct hardsigmoid_formula, struct selu_formula, struct elu_formula,
              struct celu_formula, struct softplus_formula, struct logit_between_formula>;

// Functions of real numbers that cost as little as additions; so do all of integers.
template <class Formula>
constexpr bool is_cheap =
    is_one_of<Formula, struct neg_formula, struct abs_formula, struct relu_formula,
              struct sign_formula, struct square_formula, struct logical_not_formula>;

namespace {

// Transcendental functions are worth a second thread earlier than additions are.
constexpr int unary_cost = 4, table_cost = 8;

// A formula and its parameters, of which most have none.
template <class Formula, class C>
struct WithParameters {
  C p, q;
  auto operator()(C x) const { return Formula()(x, p, q); }
  Floats operator()(Floats x) const requires std::is_same_v<C, float> && requires {
    UnarySimd<Formula>::at(x, x, x);
  }
  { return UnarySimd<Formula>::at(x, all_lanes(p), all_lanes(q)); }
};
template <class Formula>
struct Plain : Formula {
  using Formula::operator();
  Floats operator()(Floats x) const requires requires { UnarySimd<Formula>::at(x, x, x); }
  { return UnarySimd<Formula>::at(x, x, x); }
};

template <class F>
void bfloat16_loop(const TensorIter& iter) {
  static constexpr ElementwiseLoop loop = [] {
    ElementwiseLoop made = LoopOf<F, BFloat16, BFloat16>::value;
#if FLAMBEAU_ISA_RANK >= 4
    if (F::beside_table) made.look_up = ResultTable::look_up<F>;
#endif
    return made;
  }();
  const bool by_table = F::beside_table && gathers_fast();
  run_elementwise(iter, loop, &loop, by_table ? table_cost : unary_cost);
}

template <class Formula, DTypeSet Set, bool Predicate>
void unary_kernel(const TensorIter& iter, [[maybe_unused]] const Scalar* params) {
  if constexpr (requires { sizeof(ForBFloat16<Formula>); }) {
    if (iter.dtypes[1] == DType::bfloat16) return bfloat16_loop<ForBFloat16<Formula>>(iter);
  }
  const bool by_table = is_worth_a_table<Formula> && dtypes::Reduced.has(iter.dtypes[1]);
  const DType dtype = iter.dtypes[1];
  const bool cheap = is_integral(dtype, true) || (is_cheap<Formula> && !dtypes::Complex.has(dtype));
  const int cost = by_table ? table_cost : cheap ? 1 : unary_cost;
  constexpr bool ordered = has_ordered_rows<Set>;
  dispatch<loop_types<Set, ordered>>(Formula::name, loop_dtype<Set, ordered>(dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using Out = std::conditional_t<Predicate, StoredBool, T>;
    if constexpr (std::is_same_v<Formula, struct sqrt_formula> && is_reduced_type<T>) {
      // In the types as they are stored, the processor's is as fast as going through floats.
      elementwise_loop<Out, T>(
          iter, [](C x) { return math::sqrt(x); }, cost);
    } else if constexpr (Formula::parameters == 0) {
      const Plain<Formula> formula;
      run_elementwise(iter, loop_of<Plain<Formula>, Out, T>, &formula, cost);
    } else {
      const C p = params[0].to<C>(), q = Formula::parameters == 2 ? params[1].to<C>() : C(0);
      const WithParameters<Formula, C> formula{p, q};
      run_elementwise(iter, loop_of<WithParameters<Formula, C>, Out, T>, &formula, cost);
    }
  });
}

}  // namespace

// Registers of floats are taken by the formulas that are named above.
#define FORMULA(name_, value, parameters_)                                               \
  struct name_##_formula {                                                               \
    static constexpr const char* name = #name_;                                          \
    static constexpr int parameters = parameters_;                                       \
    template <class C>                                                                   \
    requires(!std::is_same_v<C, Floats> || unary_simd<name_##_formula>) auto operator()( \
        C x, [[maybe_unused]] C p = {}, [[maybe_unused]] C q = {}) const {               \
      using namespace math;                                                              \
      return static_cast<std::common_type_t<decltype(value)>>(value);                    \
    }                                                                                    \
  };
#define ROW(name, parameters, set, value) \
  FORMULA(name, value, parameters)        \
  KERNEL_FOR(name, unary_kernel<name##_formula, dtypes::set, false>)
#define UNARY(name, set, value, keeps, gradient, doc, ...) ROW(name, 0, set, value)
#define PREDICATE(name, set, value, doc, ...) \
  FORMULA(name, value, 0)                     \
  KERNEL_FOR(name, unary_kernel<name##_formula, dtypes::set, true>)
#define UNARY1(name, p, p_default, set, value, keeps, gradient, doc, ...) ROW(name, 1, set, value)
#define UNARY2(name, p_name, p_default, q_name, q_default, set, value, keeps, gradient, doc, ...) \
  ROW(name, 2, set, value)
#define KERNEL2(name, set, value) ROW(name, 2, set, value)
#include "flambeau/kernels/unary.def"

namespace {

// Complex numbers with other signs: of the imaginary parts, or of both. A sign is a bit.
template <class R>
void change_signs(const TensorIter& iter, bool both) {
  constexpr auto last = std::numeric_limits<int64_t>::min();
  Longs signs{};
  for (int i = 0; i < double_lanes; ++i) {
    if constexpr (std::is_same_v<R, Floats>)
      signs[i] = both ? last | (int64_t{1} << 31) : last;
    else
      signs[i] = both || i % 2 != 0 ? last : 0;
  }
  pairs_loop<1, R>(iter, [=](R x) { return std::bit_cast<R>(std::bit_cast<Longs>(x) ^ signs); });
}
void change_signs(const TensorIter& iter, bool both) {
  iter.dtypes[1] == DType::complex64 ? change_signs<Floats>(iter, both)
                                     : change_signs<Doubles>(iter, both);
}
void conj_kernel(const TensorIter& iter, const Scalar* params) {
  if (is_complex(iter.dtypes[1])) return change_signs(iter, false);
  unary_kernel<conj_physical_formula, dtypes::Addable, false>(iter, params);
}
KERNEL_FOR(conj_physical, conj_kernel)

// After the rows, so that it stays in the slot: the sign of a reduced number is a bit.
void neg_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::float16 || iter.dtypes[1] == DType::bfloat16) {
    return elementwise_loop<uint16_t, uint16_t>(
        iter, [](uint16_t bits) { return static_cast<uint16_t>(bits ^ 0x8000); }, 1);
  }
  if (is_complex(iter.dtypes[1])) return change_signs(iter, true);
  unary_kernel<neg_formula, dtypes::Numeric, false>(iter, params);
}
KERNEL_FOR(neg, neg_kernel)

// So is whether it is infinite or NaN a question of its size.
template <class Formula, class Compares>
void size_kernel(const TensorIter& iter, const Scalar* params) {
  const DType dtype = iter.dtypes[1];
  if (dtype == DType::float16 || dtype == DType::bfloat16) {
    const uint16_t infinity = dtype == DType::float16 ? 0x7c00 : 0x7f80;
    return elementwise_loop<uint8_t, uint16_t>(
        iter,
        [=](uint16_t bits) -> uint8_t {
          return Compares()(static_cast<uint16_t>(bits & 0x7fff), infinity);
        },
        1);
  }
  unary_kernel<Formula, dtypes::Anything, true>(iter, params);
}
KERNEL_FOR(isnan, size_kernel<isnan_formula, std::greater<uint16_t>>)
KERNEL_FOR(isinf, size_kernel<isinf_formula, std::equal_to<uint16_t>>)
KERNEL_FOR(isfinite, size_kernel<isfinite_formula, std::less<uint16_t>>)

#if FLAMBEAU_ISA_RANK >= 4
void sqrt_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::float64) {  // whose elements are as large as pairs of floats
    return pairs_loop<1>(
        iter,
        [](Floats x) { return std::bit_cast<Floats>(sqrt_of_lanes(std::bit_cast<Doubles>(x))); },
        unary_cost);
  }
  unary_kernel<sqrt_formula, dtypes::FloatingComplex, false>(iter, params);
}
KERNEL_FOR(sqrt, sqrt_kernel)
#endif

void square_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::complex64)
    return pairs_loop<1>(iter, [](Floats x) { return product_of_pairs(x, x); });
  if (iter.dtypes[1] == DType::complex128)
    return pairs_loop<1, Doubles>(iter, [](Doubles x) { return product_of_pairs(x, x); });
  unary_kernel<square_formula, dtypes::CountingNumeric, false>(iter, params);
}
KERNEL_FOR(square, square_kernel)

void reciprocal_kernel(const TensorIter& iter, const Scalar* params) {
  using C = std::complex<float>;
  if (iter.dtypes[1] == DType::complex64) {
    return pairs_loop<1>(iter, [](Floats x) {
      return quotient_of_pairs(all_pairs(1), x, [](C, C y) { return math::reciprocal(y); });
    });
  }
  unary_kernel<reciprocal_formula, dtypes::FloatingComplex, false>(iter, params);
}
KERNEL_FOR(reciprocal, reciprocal_kernel)

}  // namespace

}  // namespace flambeau::cpu::ISA_NAMESPACE
