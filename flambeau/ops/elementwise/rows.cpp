// The ops of unary.def and binary.def: for each row the function, its in-place form, its out= form
// and its registration.
#include <cmath>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

constexpr double ln_2 = 0.69314718055994530942;
constexpr double ln_10 = 2.30258509299404568402;
constexpr double degree = 0.017453292519943295769;
constexpr double two_over_sqrt_pi = 1.12837916709551257390;

Tensor silu_gradient(const Tensor& g, const Tensor& x) {
  if (!x.is_complex()) return real_silu_gradient(g, x);
  const Tensor s = sigmoid(x);
  return mul_conj(g, s * (1 + x * (1 - s)));
}

// The second derivative of silu.
Tensor silu_curvature(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1 - s) * (2 + x * (1 - s * 2));
}

// A gradient that is the same for all x nearby. Its own derivative in x is zero, but x is used.
Tensor flat(const Tensor& gradient, const Tensor& x) {
  if (!grad_enabled() || !x.requires_grad()) return gradient;
  return where(scalar_tensor(true, {DType::bool_, x.device()}), gradient, x);
}

// Half precision as float32: what takes several steps is rounded at their end.
Tensor wide(const Tensor& x) { return dtypes::Reduced.has(x.dtype()) ? to(x, DType::float32) : x; }

Tensor mish_gradient(const Tensor& g, const Tensor& input) {
  const Tensor x = wide(input), t = tanh(softplus(x, 1.0, 20.0));
  return to(g * (t + x * sigmoid(x) * (1 - t * t)), g.dtype());
}

// Below -1, where there is no real value, PyTorch has this one slope.
Tensor acosh_gradient(const Tensor& g, const Tensor& x) {
  if (!x.is_complex()) return g * rsqrt(x * x - 1);
  return mul_conj(g, rsqrt(x - 1) * rsqrt(x + 1));
}

Tensor hardswish_gradient(const Tensor& g, const Tensor& input) {
  const Tensor x = wide(input);
  const Tensor beyond = where(x < 3.0, g * (x / 3.0 + 0.5), g);
  return to(where(lying_as(g, x, x <= -3.0), 0.0, beyond), g.dtype());
}

// The gradient of the larger (sign 1) or smaller (-1) of two goes to where it came from; equal
// elements share it.
Tensor share_of_extreme(const Tensor& g, const Tensor& mine, const Tensor& other, int sign) {
  const Tensor loses = sign > 0 ? mine < other : mine > other;
  return where(mine == other, g / 2.0, where(loses, 0.0, g));
}

// The same for fmax and fmin, where a NaN loses.
Tensor share_of_number(const Tensor& g, const Tensor& mine, const Tensor& other, int sign) {
  const Tensor loses = (sign > 0 ? mine < other : mine > other) | isnan(mine);
  return where(mine == other, g / 2.0,
               where(logical_and(loses, logical_not(isnan(other))), 0.0, g));
}

}  // namespace

#define UNARY_ROW(name_, dtypes_, out_, keeps_, gradient_, ...)                                    \
  static constexpr UnaryRow row = {#name_,    dtypes::dtypes_,      out_, &kernels::name_, keeps_, \
                                   gradient_, OP_FLAGS(__VA_ARGS__)}
#define UNARY_GRADIENT(keeps, gradient)                                      \
  [](const Tensor& g [[maybe_unused]], const Tensor& keeps [[maybe_unused]], \
     const Scalar* numbers [[maybe_unused]]) -> Tensor {                     \
    [[maybe_unused]] const Scalar &p = numbers[0], &q = numbers[1];          \
    return gradient;                                                         \
  }

#define UNARY(name, dtypes, value, keeps, gradient, doc, ...)                             \
  static const UnaryRow& name##_row() {                                                   \
    UNARY_ROW(name, dtypes, OutDType::same, Keep::keeps, UNARY_GRADIENT(keeps, gradient), \
              __VA_ARGS__);                                                               \
    return row;                                                                           \
  }                                                                                       \
  Tensor name(const Tensor& input) {                                                      \
    REDIRECT(name, input)                                                                 \
    return unary_op(name##_row(), input, nullptr, 0);                                     \
  }                                                                                       \
  Tensor name##_(const Tensor& self) {                                                    \
    REDIRECT(name##_, self)                                                               \
    return unary_op(name##_row(), self, nullptr, 0, self);                                \
  }                                                                                       \
  static Tensor name##_out(const Tensor& input, const Tensor& out) {                      \
    return unary_op(name##_row(), input, nullptr, 0, out);                                \
  }                                                                                       \
  OP(name, #name "(input)", doc, elementwise __VA_OPT__(| __VA_ARGS__))                   \
  OP_OUT(name##_out, #name "(input, *, out)")                                             \
  OP_METHOD(name##_, #name "_(self)", doc, elementwise __VA_OPT__(| __VA_ARGS__))

#define PREDICATE(name, dtypes, value, doc, ...)                                     \
  Tensor name(const Tensor& input) {                                                 \
    REDIRECT(name, input)                                                            \
    UNARY_ROW(name, dtypes, OutDType::boolean, Keep::nothing, nullptr, __VA_ARGS__); \
    return unary_op(row, input, nullptr, 0);                                         \
  }                                                                                  \
  OP(name, #name "(input)", doc, elementwise | gives_bool __VA_OPT__(|) __VA_ARGS__)

#define UNARY1(name, p_name, p_default, dtypes, value, keeps, gradient, doc, ...)          \
  static const UnaryRow& name##_row() {                                                    \
    UNARY_ROW(name, dtypes, OutDType::same, Keep::keeps, UNARY_GRADIENT(keeps, gradient)); \
    return row;                                                                            \
  }                                                                                        \
  Tensor name(const Tensor& input, const Scalar& p) {                                      \
    REDIRECT(name, input, p)                                                               \
    return unary_op(name##_row(), input, &p, 1);                                           \
  }                                                                                        \
  Tensor name##_(const Tensor& self, const Scalar& p) {                                    \
    REDIRECT(name##_, self, p)                                                             \
    return unary_op(name##_row(), self, &p, 1, self);                                      \
  }                                                                                        \
  OP_FUNCTION(name, #name "(input, " #p_name p_default ")", doc,                           \
              elementwise __VA_OPT__(| __VA_ARGS__))                                       \
  OP_FUNCTION(name##_, #name "_(input, " #p_name p_default ")", doc, elementwise)

#define UNARY2(name, p_name, p_default, q_name, q_default, dtypes, value, keeps, gradient, doc, \
               ...)                                                                             \
  static const UnaryRow& name##_row() {                                                         \
    UNARY_ROW(name, dtypes, OutDType::same, Keep::keeps, UNARY_GRADIENT(keeps, gradient));      \
    return row;                                                                                 \
  }                                                                                             \
  Tensor name(const Tensor& input, const Scalar& p, const Scalar& q) {                          \
    REDIRECT(name, input, p, q)                                                                 \
    const Scalar numbers[] = {p, q};                                                            \
    return unary_op(name##_row(), input, numbers, 2);                                           \
  }                                                                                             \
  Tensor name##_(const Tensor& self, const Scalar& p, const Scalar& q) {                        \
    REDIRECT(name##_, self, p, q)                                                               \
    const Scalar numbers[] = {p, q};                                                            \
    return unary_op(name##_row(), self, numbers, 2, self);                                      \
  }                                                                                             \
  OP_FUNCTION(name, #name "(input, " #p_name p_default ", " #q_name q_default ")", doc,         \
              elementwise __VA_OPT__(| __VA_ARGS__))                                            \
  OP_FUNCTION(name##_, #name "_(input, " #p_name p_default ", " #q_name q_default ")", doc,     \
              elementwise)

#define KERNEL2(name, dtypes, value)                                   \
  Tensor name(const Tensor& input, const Scalar& p, const Scalar& q) { \
    REDIRECT(name, input, p, q)                                        \
    UNARY_ROW(name, dtypes, OutDType::same, Keep::nothing, nullptr);   \
    const Scalar numbers[] = {p, q};                                   \
    return unary_op(row, input, numbers, 2);                           \
  }                                                                    \
  OP_FUNCTION(name, "_" #name "(input, p, q)", "", elementwise)

#include "flambeau/kernels/unary.def"

#define BINARY_ROW(name_, dtypes_, out_, keeps_a, grad_a, keeps_b, grad_b)                   \
  static constexpr BinaryRow row = {#name_,        dtypes::dtypes_, out_,   &kernels::name_, \
                                    Keep::keeps_a, Keep::keeps_b,   grad_a, grad_b}
#define BINARY_GRADIENT(gradient)                                        \
  [](const Tensor& g [[maybe_unused]], const Tensor& a [[maybe_unused]], \
     const Tensor& b [[maybe_unused]],                                   \
     const Tensor& y [[maybe_unused]]) -> Tensor { return gradient; }
#define BINARY_FUNCTIONS(name)                               \
  Tensor name(const Operand& input, const Operand& other) {  \
    REDIRECT(name, input, other)                             \
    return binary_op(name##_row(), input, other);            \
  }                                                          \
  Tensor name##_(const Tensor& self, const Operand& other) { \
    REDIRECT(name##_, self, other)                           \
    return binary_op(name##_row(), self, other, self);       \
  }
// The forms of a row. Other says what Python may pass as `other`: const Operand& for a tensor or a
// number, const Tensor& for a tensor.
#define FUNCTION_FORMS(name, Input, Other, doc, ...)                                \
  static Tensor name##_op(Input input, Other other) { return name(input, other); }  \
  static Tensor name##_out(Input input, Other other, const Tensor& out) {           \
    return binary_op(name##_row(), input, other, out);                              \
  }                                                                                 \
  OP(name##_op, #name "(input, other)", doc, elementwise __VA_OPT__(| __VA_ARGS__)) \
  OP_OUT(name##_out, #name "(input, other, *, out)")
#define INPLACE_FORM(name, Other, doc, ...)                                                      \
  static Tensor name##_inplace(const Tensor& self, Other other) { return name##_(self, other); } \
  OP_METHOD(name##_inplace, #name "_(self, other)", doc, elementwise __VA_OPT__(| __VA_ARGS__))
#define BINARY_OPS(name, doc, ...)                                      \
  FUNCTION_FORMS(name, const Tensor&, const Operand&, doc, __VA_ARGS__) \
  INPLACE_FORM(name, const Operand&, doc)
#define TENSOR_OPS(name, doc, ...)                                     \
  FUNCTION_FORMS(name, const Tensor&, const Tensor&, doc, __VA_ARGS__) \
  INPLACE_FORM(name, const Tensor&, doc)

#define KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc)              \
  static const BinaryRow& name##_row() {                                                \
    BINARY_ROW(name, dtypes, OutDType::same, keeps_a, BINARY_GRADIENT(grad_a), keeps_b, \
               BINARY_GRADIENT(grad_b));                                                \
    return row;                                                                         \
  }                                                                                     \
  BINARY_FUNCTIONS(name)
#define BINARY(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc) \
  KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc)       \
  BINARY_OPS(name, doc)
#define EITHER(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) \
  KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc)            \
  FUNCTION_FORMS(name, const Operand&, const Operand&, doc, __VA_ARGS__)        \
  INPLACE_FORM(name, const Operand&, doc, __VA_ARGS__)
#define TENSORS(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) \
  KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc)             \
  TENSOR_OPS(name, doc __VA_OPT__(, ) __VA_ARGS__)
#define FRESH(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc) \
  KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc)      \
  FUNCTION_FORMS(name, const Tensor&, const Tensor&, doc)

#define PLAIN_ROW(name, dtypes, out)                                   \
  static const BinaryRow& name##_row() {                               \
    BINARY_ROW(name, dtypes, out, nothing, nullptr, nothing, nullptr); \
    return row;                                                        \
  }                                                                    \
  BINARY_FUNCTIONS(name)
// In place a comparison cuts the history of what it overwrites.
#define COMPARE(name, dtypes, value, doc, ...)                                                    \
  static const BinaryRow& name##_row() {                                                          \
    BINARY_ROW(name, dtypes, OutDType::boolean, nothing, BINARY_GRADIENT(zeros_like(g)), nothing, \
               BINARY_GRADIENT(zeros_like(g)));                                                   \
    return row;                                                                                   \
  }                                                                                               \
  BINARY_FUNCTIONS(name)                                                                          \
  BINARY_OPS(name, doc, gives_bool | takes_quantized __VA_OPT__(|) __VA_ARGS__)
#define LOGIC(name, dtypes, value, doc)      \
  PLAIN_ROW(name, dtypes, OutDType::boolean) \
  TENSOR_OPS(name, doc, gives_bool)
#define INTEGERS(name, dtypes, value, doc)                               \
  PLAIN_ROW(name, dtypes, OutDType::same)                                \
  BINARY_OPS(name, doc)                                                  \
  static Tensor name##_number(const Scalar& self, const Tensor& other) { \
    return name(Operand(self), other);                                   \
  }                                                                      \
  OP_FUNCTION(name##_number, #name ".Scalar_Tensor(self, other)", doc, elementwise)
// Of floating numbers these have a history, but no derivative.
static Tensor no_gradient(const char* op) {
  fail<RuntimeError>("derivative for aten::{} is not implemented", op);
}
#define DISCRETE(name, dtypes, value, doc)                                                 \
  static const BinaryRow& name##_row() {                                                   \
    BINARY_ROW(name, dtypes, OutDType::same, nothing, BINARY_GRADIENT(no_gradient(#name)), \
               nothing, BINARY_GRADIENT(no_gradient(#name)));                              \
    return row;                                                                            \
  }                                                                                        \
  BINARY_FUNCTIONS(name)                                                                   \
  TENSOR_OPS(name, doc, out_fails)

#include "flambeau/kernels/binary.def"

// Rows that only other ops call, which layers see by these names.
#define PRIVATE_OP(name, signature)                                                  \
  static Tensor name##_op(const Operand& a, const Operand& b) { return name(a, b); } \
  OP_FUNCTION(name##_op, signature, "", elementwise)
PRIVATE_OP(_prelu_kernel, "_prelu_kernel.default(input, other)")
PRIVATE_OP(div_floor, "_div_floor(input, other)")
PRIVATE_OP(div_trunc, "_div_trunc(input, other)")
PRIVATE_OP(gated, "_gated(input, other)")
PRIVATE_OP(squared_difference, "_squared_difference(input, other)")
PRIVATE_OP(bce, "_bce(input, other)")
PRIVATE_OP(bce_logits, "_bce_logits(input, other)")
PRIVATE_OP(relu_gradient, "_relu_gradient(input, other)")
PRIVATE_OP(tanh_gradient, "_tanh_gradient.tanh_backward.default(input, other)")
PRIVATE_OP(sigmoid_gradient, "_sigmoid_gradient.sigmoid_backward.default(input, other)")
PRIVATE_OP(real_silu_gradient, "_real_silu_gradient.silu_backward.default(input, other)")

// The out= forms of ops that have a form of their own beside the row.
#define ROW_OUT(name, ...)                                                                      \
  static Tensor name##_row_out(const Operand& input, const Operand& other, const Tensor& out) { \
    return binary_op(name##_row(), input, other, out);                                          \
  }                                                                                             \
  __VA_ARGS__
ROW_OUT(add, OP_OUT(add_row_out, "add(input, other, *, out)"))
ROW_OUT(sub, OP_OUT(sub_row_out, "sub(input, other, *, out)")
                 OP_OUT(sub_row_out, "subtract(input, other, *, out)"))
ROW_OUT(div, OP_OUT(div_row_out, "div(input, other, *, out)")
                 OP_OUT(div_row_out, "divide(input, other, *, out)")
                     OP_OUT(div_row_out, "true_divide(input, other, *, out)"))

// What PyTorch makes of some.
static Tensor square_steps(const Tensor& input) { return pow(input, Scalar(int64_t{2})); }
static Tensor square_inplace_steps(const Tensor& self) {
  return tensor_op("pow_", {self, int64_t{2}});
}
static Tensor isfinite_steps(const Tensor& input) {
  if (is_integral(input.dtype(), true)) return ones_like(input, DType::bool_);
  return mul(ne(abs(input), Scalar(INFINITY)), eq(input, input));
}
static Tensor conj_physical_steps(const Tensor& input) {
  return input.is_complex() ? Tensor() : input;
}
STEPS(square, square_steps)
STEPS(square_, square_inplace_steps)
STEPS(isfinite, isfinite_steps)
STEPS(conj_physical, conj_physical_steps)
STEPS(relu6, ([](const Tensor& input) { return tensor_op("hardtanh", {input, 0.0, 6.0}); }))
STEPS(special_ndtr, ([](const Tensor& input) {
        return mul(add(erf(mul(input, Scalar(M_SQRT1_2))), Scalar(1.0)), Scalar(0.5));
      }))

}  // namespace flambeau
