// CPU kernels of binary.def.
#include <functional>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/math/coarse.h"
#include "flambeau/cpu/kernels/math/complex_pairs.h"
#include "flambeau/cpu/kernels/math/elementary.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/neighbour.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Formulas that call the C library for huge quotients, without that call.
template <class Formula>
struct WithoutCall;

// Formulas that are computed in SIMD registers, being bound by arithmetic otherwise.
template <class Formula>
constexpr bool binary_simd =
    is_one_of<Formula, struct gated_formula, struct real_silu_gradient_formula,
              struct logaddexp_formula, struct xlogy_formula, struct atan2_formula>;
// Formulas that call the vector library.
template <class Formula>
constexpr bool calls_library = is_one_of<Formula, struct hypot_formula, struct logaddexp2_formula>;
// Formulas that are worth a second thread earlier than additions are.
template <class Formula, class C>
constexpr bool costs_more = calls_library<Formula> || (std::is_floating_point_v<C> &&
                                                       requires { sizeof(WithoutCall<Formula>); });
// Formulas of complex numbers that look at one part at a time.
template <class Formula>
constexpr bool binary_by_parts = is_one_of<Formula, struct add_formula, struct sub_formula>;
// Formulas of complex numbers that have one for registers of pairs.
template <class Formula>
constexpr bool has_pairs = is_one_of<Formula, struct add_formula, struct sub_formula,
                                     struct mul_formula, struct div_formula>;
inline Floats pairs_of(const struct add_formula&, Floats a, Floats b) { return a + b; }
inline Floats pairs_of(const struct sub_formula&, Floats a, Floats b) { return a - b; }
inline Floats pairs_of(const struct mul_formula&, Floats a, Floats b) {
  return product_of_pairs(a, b);
}
inline Floats pairs_of(const struct div_formula&, Floats a, Floats b) {
  return quotient_of_pairs(a, b);
}
// Formulas whose operands may be swapped.
template <class Formula>
constexpr bool commutes = is_one_of<Formula, struct add_formula, struct mul_formula>;
template <class Formula>
struct BinarySimd {
  static Floats at(Floats a, Floats b) requires binary_simd<Formula> { return Formula::at(a, b); }
};
template <>
struct BinarySimd<struct bce_logits_formula> {
  static Floats at(Floats a, Floats b) { return math::max(a, 0) - a * b + math::softplus_tail(a); }
};

#define BY_REGISTER(name)                                              \
  template <>                                                          \
  struct BinarySimd<struct name##_formula> {                           \
    static Floats at(Floats a, Floats b) { return name##_simd(a, b); } \
  };
BY_REGISTER(fmod)
BY_REGISTER(remainder)
BY_REGISTER(div_floor)
#undef BY_REGISTER

template <>
struct WithoutCall<struct fmod_formula> {
  template <class C>
  static C at(C a, C b) {
    return math::fmod_of_exact(a, b);
  }
};
template <>
struct WithoutCall<struct remainder_formula> {
  template <class C>
  static C at(C a, C b) {
    return math::remainder_from(math::fmod_of_exact(a, b), b);
  }
};
template <>
struct WithoutCall<struct div_floor_formula> {
  template <class C>
  static C at(C a, C b) {
    return math::div_floor_from(math::fmod_of_exact(a, b), a, b);
  }
};

// Formulas that fewer instructions serve where operands and results are bfloat16.
template <class Formula>
struct ForBFloat16;
// The result is one of the operands, which needs no rounding.
template <>
struct ForBFloat16<struct maximum_formula> {
  static constexpr bool is_exact = true;
  Floats operator()(Floats a, Floats b) const { return a != a ? a : larger_or_second(a, b); }
};
template <>
struct ForBFloat16<struct minimum_formula> {
  static constexpr bool is_exact = true;
  Floats operator()(Floats a, Floats b) const { return a != a ? a : smaller_or_second(a, b); }
};
#if FLAMBEAU_ISA_RANK >= 4
#define FOR_BFLOAT16(name)                                                      \
  template <>                                                                   \
  struct ForBFloat16<struct name##_formula> {                                   \
    Floats operator()(Floats a, Floats b) const { return coarse_##name(a, b); } \
  };
FOR_BFLOAT16(hypot)
FOR_BFLOAT16(atan2)
FOR_BFLOAT16(logaddexp)
FOR_BFLOAT16(xlogy)
FOR_BFLOAT16(fmod)
FOR_BFLOAT16(remainder)
FOR_BFLOAT16(div_floor)
#undef FOR_BFLOAT16
#endif

namespace {

template <class Formula, class C>
struct Plain {
  auto operator()(C a, C b) const { return Formula::at(a, b); }
  Floats operator()(Floats a, Floats b) const requires std::is_same_v<C, float> && requires {
    BinarySimd<Formula>::at(a, b);
  }
  { return BinarySimd<Formula>::at(a, b); }
};
template <class Formula, class C>
struct Division {
  C operator()(C a, C b) const { return Formula::at(a, b); }
  static bool usual(C a, C b) { return math::quotient_is_exact(a, b); }
  static C only_usual(C a, C b) { return WithoutCall<Formula>::at(a, b); }
};

// Whether all operands are arrays of the same length.
bool takes_arrays(const TensorIter& iter) {
  bool dense = iter.ndim <= 1;
  for (int k = 0; k < iter.count; ++k) {
    dense &= iter.strides[k][0] == static_cast<int64_t>(item_size(iter.dtypes[k]));
  }
  return dense;
}
// Arrays of complex numbers as arrays of their parts.
TensorIter over_parts(TensorIter iter) {
  iter.shape[0] *= 2;
  iter.numel *= 2;
  for (int k = 0; k < iter.count; ++k) {
    iter.strides[k][0] /= 2;
    iter.dtypes[k] = to_real(iter.dtypes[k]);
  }
  return iter;
}

// Whether rows are combined with one value each, or all with one, as their first operand: as the
// second one, loops have a form for it.
bool begins_with_number(const TensorIter& iter) {
  return iter.ndim > 0 && iter.strides[1][0] == 0 && iter.strides[2][0] != 0;
}
TensorIter with_operands_swapped(TensorIter iter) {
  std::swap(iter.data[1], iter.data[2]);
  std::swap(iter.strides[1], iter.strides[2]);
  return iter;
}

template <class Formula, DTypeSet Set, bool Compares>
void binary_kernel(const TensorIter& iter, const Scalar* params) {
  if constexpr (commutes<Formula>) {
    if (begins_with_number(iter))
      return binary_kernel<Formula, Set, Compares>(with_operands_swapped(iter), params);
  }
  if constexpr (binary_by_parts<Formula>) {
    if (is_complex(iter.dtypes[1]) && takes_arrays(iter)) {
      return binary_kernel<Formula, Set, Compares>(over_parts(iter), params);
    }
  }
  if constexpr (has_pairs<Formula>) {
    if (iter.dtypes[1] == DType::complex64)
      return pairs_loop<2>(iter, [](Floats a, Floats b) { return pairs_of(Formula(), a, b); });
  }
  constexpr bool multiplies = std::is_same_v<Formula, struct mul_formula>;
  if constexpr (multiplies) {
    if (iter.dtypes[1] == DType::complex128)
      return pairs_loop<2, Doubles>(iter,
                                    [](Doubles a, Doubles b) { return product_of_pairs(a, b); });
  }
  constexpr bool is_short = requires { sizeof(ForBFloat16<Formula>); };
  if constexpr (is_short) {
    if (iter.dtypes[1] == DType::bfloat16) {
      return elementwise_loop<BFloat16, BFloat16, BFloat16>(iter, ForBFloat16<Formula>(),
                                                            costs_more<Formula, float> ? 4 : 1);
    }
  }
  constexpr DTypeSet others = is_short ? Set - DType::bfloat16 : Set;
  dispatch_loop<others, has_ordered_rows<others>>(Formula::name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using Out = std::conditional_t<Compares, StoredBool, T>;
    constexpr bool rare_case = std::is_same_v<C, double> && requires {
      sizeof(WithoutCall<Formula>);
    };
    constexpr bool by_pairs = (has_pairs<Formula> && std::is_same_v<C, std::complex<float>>) ||
                              (multiplies && std::is_same_v<C, std::complex<double>>);
    if constexpr (!by_pairs) {
      using F = std::conditional_t<rare_case, Division<Formula, C>, Plain<Formula, C>>;
      elementwise_loop<Out, T, T>(iter, F(), costs_more<Formula, C> ? 4 : 1);
    }
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
#define BINARY(name, set, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) \
  FORMULA(name, value)                                                       \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, false>)
#define KERNEL BINARY
#define COMPARE(name, set, value, doc, ...) \
  FORMULA(name, value)                      \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, true>)
#define INTEGERS(name, set, value, doc) \
  FORMULA(name, value)                  \
  KERNEL_FOR(name, binary_kernel<name##_formula, dtypes::set, false>)
#include "flambeau/kernels/binary.def"

namespace {

// After the rows, so that it stays in the slot: the sign of a reduced number is a bit.
void copysign_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::float16 || iter.dtypes[1] == DType::bfloat16) {
    return elementwise_loop<uint16_t, uint16_t, uint16_t>(
        iter,
        [](uint16_t a, uint16_t b) { return static_cast<uint16_t>((a & 0x7fff) | (b & 0x8000)); },
        1);
  }
  binary_kernel<copysign_formula, dtypes::Floating, false>(iter, params);
}
KERNEL_FOR(copysign, copysign_kernel)

// Of bools as of bytes: GCC makes no vector code of what may be left out.
template <class Formula, class OfBytes>
void logical_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::bool_)
    return elementwise_loop<uint8_t, uint8_t, uint8_t>(
        iter, [](uint8_t a, uint8_t b) { return OfBytes()(a != 0, b != 0); }, 1);
  binary_kernel<Formula, dtypes::All, true>(iter, params);
}
KERNEL_FOR(logical_and, logical_kernel<logical_and_formula, std::bit_and<uint8_t>>)
KERNEL_FOR(logical_or, logical_kernel<logical_or_formula, std::bit_or<uint8_t>>)

// As math::shift_left and its sibling, without a branch; numbers below zero are large counts.
template <bool left>
int32_t shifted(int32_t a, int32_t b) {
  using Word = std::conditional_t<left, uint32_t, int32_t>;
  const uint32_t count = static_cast<uint32_t>(b), most = count < 32 ? count : 31;
  const auto word = static_cast<Word>(a);
  const Word moved = left ? word << most : word >> most;
  return static_cast<int32_t>(!left || count < 32 ? moved : Word(0));
}
// Of bytes, by the bits of b: no instruction shifts each byte by a count of its own, and in words
// there are a quarter as many at once.
template <bool left>
uint8_t shifted_byte(uint8_t a, uint8_t b) {
  a = b & 1 ? static_cast<uint8_t>(left ? a << 1 : a >> 1) : a;
  a = b & 2 ? static_cast<uint8_t>(left ? a << 2 : a >> 2) : a;
  a = b & 4 ? static_cast<uint8_t>(left ? a << 4 : a >> 4) : a;
  return b < 8 ? a : uint8_t{0};
}
template <class Formula, bool left>
void shift_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::uint8)
    return elementwise_loop<uint8_t, uint8_t, uint8_t>(
        iter, [](uint8_t a, uint8_t b) { return shifted_byte<left>(a, b); }, 1);
  if (iter.dtypes[1] == DType::int32)
    return elementwise_loop<int32_t, int32_t, int32_t>(
        iter, [](int32_t a, int32_t b) { return shifted<left>(a, b); }, 1);
  binary_kernel<Formula, dtypes::Integral, false>(iter, params);
}
KERNEL_FOR(bitwise_left_shift, shift_kernel<bitwise_left_shift_formula, true>)
KERNEL_FOR(bitwise_right_shift, shift_kernel<bitwise_right_shift_formula, false>)

void nextafter_kernel(const TensorIter& iter, const Scalar*) {
  const DType dtype = iter.dtypes[1];
  if (dtype == DType::float32) {
    return elementwise_loop<float, float, float>(
        iter, [](float a, float b) { return math::next_of_bits<int32_t>(a, b); }, 1);
  }
  if (dtype == DType::float64) {
    return elementwise_loop<double, double, double>(
        iter, [](double a, double b) { return math::next_of_bits<int64_t>(a, b); }, 1);
  }
  const uint16_t infinity = dtype == DType::float16 ? 0x7c00 : 0x7f80;
  elementwise_loop<uint16_t, uint16_t, uint16_t>(
      iter, [=](uint16_t a, uint16_t b) { return math::next_pattern(a, b, infinity); }, 1);
}
KERNEL_FOR(nextafter, nextafter_kernel)

// Divisions take most of Euclid's time: for the type that is used, by shifts and differences of odd
// numbers. As unsigned numbers, which have the size of the least integer.
inline int64_t binary_gcd(int64_t x, int64_t y) {
  uint64_t a = x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  uint64_t b = y < 0 ? -static_cast<uint64_t>(y) : static_cast<uint64_t>(y);
  if (a == 0 || b == 0) return static_cast<int64_t>(a | b);
  const int twos = __builtin_ctzll(a | b);
  a >>= __builtin_ctzll(a);
  for (b >>= __builtin_ctzll(b); a != b;) {
    const uint64_t difference = a > b ? a - b : b - a;
    b = a < b ? a : b;
    a = difference >> __builtin_ctzll(difference);
  }
  return static_cast<int64_t>(a << twos);
}

void gcd_kernel(const TensorIter& iter, const Scalar* params) {
  if (iter.dtypes[1] == DType::int64)
    return elementwise_loop<int64_t, int64_t, int64_t>(iter, binary_gcd, 4);
  binary_kernel<gcd_formula, dtypes::Integral, false>(iter, params);
}
KERNEL_FOR(gcd, gcd_kernel)

}  // namespace

}  // namespace flambeau::cpu::ISA_NAMESPACE
