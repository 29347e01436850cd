// Special functions: torch.special, and those that are also functions of torch.
#include "flambeau/kernels/special.h"

#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {

#define METHOD(name, function, keeps, gradient, doc, ...) static Tensor name(const Tensor& input);
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc)
#define POLYNOMIAL(name, value, doc)
#include "flambeau/kernels/special.def"

namespace {

// What the rarer functions are defined for. Integers are taken as floating numbers.
constexpr DTypeSet FloatDouble = DType::float32 | DType::float64;

constexpr double half_sqrt_pi = 0.88622692545275801365;
constexpr double two_over_sqrt_pi = 1.12837916709551257390;
constexpr double one_over_sqrt_2_pi = 0.39894228040143267794;
constexpr double sqrt_2_over_pi = 0.79788456080286535588;
constexpr double sqrt_half = 0.70710678118654752440;

// i1' = i0 - i1 / x, and 1/2 at zero.
Tensor i1_slope(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, 0.5, i0(x) - special_i1(x) / where(zero, 1.0, x));
}
Tensor i1e_slope(const Tensor& x) {
  const Tensor zero = x == 0;
  const Tensor y = special_i1e(x);
  return where(zero, 0.5, special_i0e(x) - y * (sign(x) + 1.0 / where(zero, 1.0, x)));
}

// --- polygamma --------------------------------------------------------------------------------

Tensor polygamma(int64_t n, const Tensor& input) {
  CHECK(n >= 0, RuntimeError, "polygamma(n, x) does not support negative n.");
  CHECK(n < INT64_MAX, RuntimeError, "polygamma(n, x): n is too large, got {}", n);
  static constexpr UnaryRow row = {"polygamma",
                                   dtypes::Floating,
                                   OutDType::same,
                                   &kernels::polygamma,
                                   Keep::x,
                                   [](const Tensor& g, const Tensor& x, const Scalar* numbers) {
                                     return g * polygamma(numbers[0].to_int() + 1, x);
                                   },
                                   OpDef::plain};
  const Scalar numbers[] = {n, 0};
  return unary_op(row, input, numbers, 1);
}
OP_FUNCTION(polygamma, "polygamma(n, input)", "The n-th derivative of digamma.",
            casts_out | elementwise | in_special)
OP_METHOD([](const Tensor& self, int64_t n) { return polygamma(n, self); }, "polygamma(self, n)",
          "The n-th derivative of digamma.", casts_out | elementwise | in_special)
// The derivative needs the input, which is about to be overwritten: it gets a copy.
OP_METHOD([](const Tensor& self, int64_t n) { return copy_(self, polygamma(n, clone(self))); },
          "polygamma_(self, n)", "The n-th derivative of digamma, in place.", elementwise)

}  // namespace

// --- Rows of one tensor -------------------------------------------------------------------------

#define UNARY_ROW(name, dtypes, keeps, gradient, ...)                                             \
  static const UnaryRow& name##_row() {                                                           \
    static constexpr UnaryRow row = {#name,       dtypes,   OutDType::same,       &kernels::name, \
                                     Keep::keeps, gradient, OP_FLAGS(__VA_ARGS__)};               \
    return row;                                                                                   \
  }                                                                                               \
  static Tensor name(const Tensor& input) {                                                       \
    REDIRECT(name, input)                                                                         \
    return unary_op(name##_row(), input, nullptr, 0);                                             \
  }
#define GRADIENT(keeps, gradient)                                            \
  [](const Tensor& g [[maybe_unused]], const Tensor& keeps [[maybe_unused]], \
     const Scalar*) -> Tensor { return gradient; }
#define METHOD(name, function, keeps, gradient, doc, ...)                                      \
  UNARY_ROW(name, dtypes::Floating, keeps, GRADIENT(keeps, gradient), __VA_ARGS__)             \
  OP(name, #name "(input)", doc, casts_out | elementwise __VA_OPT__(| __VA_ARGS__))            \
  OP_METHOD([](const Tensor& self) { return unary_op(name##_row(), self, nullptr, 0, self); }, \
            #name "_(self)", doc, elementwise __VA_OPT__(| __VA_ARGS__))
#define SPECIAL(name, function, keeps, gradient, doc)                 \
  UNARY_ROW(name, dtypes::Floating, keeps, GRADIENT(keeps, gradient)) \
  OP_FUNCTION(name, #name "(input)", doc, casts_out | elementwise)
#define WIDE(name, function, keeps, gradient, doc)               \
  UNARY_ROW(name, FloatDouble, keeps, GRADIENT(keeps, gradient)) \
  OP_FUNCTION(name, #name "(input)", doc, casts_out | elementwise)
#define UNSLOPED(name, function, doc)            \
  UNARY_ROW(name, FloatDouble, nothing, nullptr) \
  OP_FUNCTION(name, #name "(input)", doc, casts_out | elementwise | out_drops)

// --- Rows of two --------------------------------------------------------------------------------

using Gradient = BinaryRow::Gradient;

static Tensor run_binary(const char* name, DTypeSet dtypes, const ElementwiseSlot& slot,
                         const Operand& a, const Operand& b, uint8_t keeps_a, uint8_t keeps_b,
                         Gradient g_a, Gradient g_b, const Tensor& out = {}) {
  const BinaryRow row = {name, dtypes, OutDType::same, &slot, keeps_a, keeps_b, g_a, g_b};
  CHECK(a.is_tensor() || b.is_tensor(), TypeError, "{}(): at least one argument must be a Tensor",
        name);
  return binary_op(row, a, b, out);
}

#define POLYNOMIAL(name, value, doc)                                                         \
  static Tensor name(const Operand& x, const Operand& n) {                                   \
    return run_binary(#name, FloatDouble, kernels::name, x, n, Keep::nothing, Keep::nothing, \
                      nullptr, nullptr);                                                     \
  }                                                                                          \
  OP_FUNCTION(name, #name "(x, n)", doc, casts_out | elementwise | out_drops)

#include "flambeau/kernels/special.def"

namespace {

Tensor special_zeta(const Operand& s, const Operand& q) {
  return run_binary(
      "special_zeta", FloatDouble, kernels::special_zeta, s, q, Keep::nothing, Keep::ab,
      [](const Tensor&, const Tensor&, const Tensor&, const Tensor&) -> Tensor {
        fail<NotImplementedError>("the derivative for 'zeta' is not implemented.");
      },
      [](const Tensor& g, const Tensor& a, const Tensor& b, const Tensor&) -> Tensor {
        return g * -a * special_zeta(a + 1, b);
      });
}
OP_FUNCTION(special_zeta, "special_zeta(input, other)", "The Hurwitz zeta function.",
            casts_out | elementwise)

Tensor special_xlog1py(const Operand& x, const Operand& y) {
  return run_binary(
      "special_xlog1py", dtypes::Floating, kernels::special_xlog1py, x, y, Keep::ab, Keep::ab,
      [](const Tensor& g, const Tensor& a, const Tensor& b, const Tensor&) -> Tensor {
        return g * where((a == 0) & (b <= -1.0), 0.0, log1p(b));
      },
      [](const Tensor& g, const Tensor& a, const Tensor& b, const Tensor&) -> Tensor {
        return g * a / (b + 1);
      });
}
OP_FUNCTION(special_xlog1py, "special_xlog1py(input, other)",
            "input times log1p(other); 0 where input is 0.", casts_out | elementwise)

// The density of the gamma distribution of shape a at x.
Tensor gamma_density(const Tensor& a, const Tensor& x) {
  return exp((a - 1) * log(x) - x - lgamma(a));
}
#define INCOMPLETE_GAMMA(name, sign_of_slope, doc)                                                \
  Tensor name(const Tensor& a, const Tensor& x, const Tensor& out) {                              \
    return run_binary(                                                                            \
        #name, dtypes::OnlyFloating, kernels::name, a, x, Keep::nothing, Keep::ab,                \
        [](const Tensor&, const Tensor&, const Tensor&, const Tensor&) -> Tensor {                \
          fail<NotImplementedError>("the derivative for '" #name ": input' is not implemented."); \
        },                                                                                        \
        [](const Tensor& g, const Tensor& p, const Tensor& q, const Tensor&) -> Tensor {          \
          return g * gamma_density(p, q) * sign_of_slope;                                         \
        },                                                                                        \
        out);                                                                                     \
  }                                                                                               \
  OP([](const Tensor& input, const Tensor& other) { return name(input, other, {}); },             \
     #name "(input, other)", doc, casts_out | elementwise)                                        \
  OP_METHOD([](const Tensor& self, const Tensor& other) { return name(self, other, self); },      \
            #name "_(self, other)", doc, elementwise)
INCOMPLETE_GAMMA(igamma, 1.0, "The regularized lower incomplete gamma function.")
INCOMPLETE_GAMMA(igammac, -1.0, "The regularized upper incomplete gamma function.")

// --- The rest -----------------------------------------------------------------------------------

Tensor mvlgamma(const Tensor& input, int64_t p) {
  CHECK(input.dtype() != DType::bool_, RuntimeError,
        "mvlgamma: The input tensor may not be a boolean tensor.");
  CHECK(p >= 1, RuntimeError, "p has to be greater than or equal to 1");
  const Tensor x = is_integral(input.dtype(), true) ? to(input, default_dtype()) : input;
  const Tensor steps = arange(Scalar(0.5 - 0.5 * static_cast<double>(p)), Scalar(0.25), Scalar(0.5),
                              {.dtype = x.dtype(), .device = x.device()});
  const double constant =
      0.25 * static_cast<double>(p) * static_cast<double>(p - 1) * 1.14472988584940017414;
  return sum(lgamma(unsqueeze(x, -1) + steps), IntSpan{-1}, false) + constant;
}
OP_INPLACE(mvlgamma, "mvlgamma(input, p)",
           "The logarithm of the multivariate gamma function of dimension p.",
           casts_out | elementwise)

}  // namespace
}  // namespace flambeau
