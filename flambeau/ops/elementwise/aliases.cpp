// Other names of ops, as PyTorch has them, and small compositions of rows.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

#define UNARY_ALIAS(name, of, ...)                                                               \
  OP([](const Tensor& input) { return of(input); }, #name "(input)", "Another name of " #of ".", \
     composed | elementwise __VA_OPT__(| __VA_ARGS__))                                           \
  OP_METHOD([](const Tensor& self) { return of##_(self); }, #name "_(self)",                     \
            "Another name of " #of "_.", composed | elementwise __VA_OPT__(| __VA_ARGS__))
UNARY_ALIAS(arccos, acos, casts_out)
UNARY_ALIAS(arcsin, asin, casts_out | takes_sparse)
UNARY_ALIAS(arctan, atan, casts_out | takes_sparse)
UNARY_ALIAS(arccosh, acosh, casts_out)
UNARY_ALIAS(arcsinh, asinh, casts_out | takes_sparse)
UNARY_ALIAS(arctanh, atanh, casts_out | takes_sparse)
UNARY_ALIAS(negative, neg, takes_sparse | takes_nested)
UNARY_ALIAS(fix, trunc, takes_sparse)

#define COMPARE_ALIAS(name, of, ...)                                                              \
  OP([](const Tensor& input, const Operand& other) { return of(input, other); },                  \
     #name "(input, other)", "Another name of " #of ".",                                          \
     composed | casts_out | gives_bool | takes_quantized | elementwise __VA_OPT__(| __VA_ARGS__)) \
  OP_METHOD([](const Tensor& self, const Operand& other) { return of##_(self, other); },          \
            #name "_(self, other)", "Another name of " #of "_.", composed | elementwise)
OP([](const Operand& input, const Operand& other) { return mul(input, other); },
   "multiply(input, other)", "Another name of mul.",
   takes_sparse | casts_out | takes_nested | elementwise | composed)
OP_METHOD([](const Tensor& self, const Operand& other) { return mul_(self, other); },
          "multiply_(self, other)", "Another name of mul_.",
          takes_sparse | takes_nested | elementwise | composed)
COMPARE_ALIAS(not_equal, ne)
COMPARE_ALIAS(less, lt)
COMPARE_ALIAS(less_equal, le)
COMPARE_ALIAS(greater, gt, takes_nested)
COMPARE_ALIAS(greater_equal, ge, takes_nested)
OP([](const Tensor& input, const Tensor& other) { return atan2(input, other); },
   "arctan2(input, other)", "Another name of atan2.", casts_out | elementwise | composed)
OP_METHOD([](const Tensor& self, const Tensor& other) { return atan2_(self, other); },
          "arctan2_(self, other)", "Another name of atan2_.", elementwise | composed)

// To PyTorch this has no derivative at all: it leaves the history of self alone, and writes to
// leaves.
Tensor logical_not_(const Tensor& self) {
  const NoGrad off;
  check_inplace("logical_not_", self);
  return copy_(self, logical_not(self));
}
OP_METHOD(logical_not_, "logical_not_(self)", "Replaces each element by whether it is zero.",
          takes_nested | elementwise)

Tensor positive(const Tensor& input) {
  CHECK(input.dtype() != DType::bool_, NotImplementedError,
        "The `+` operator, on a bool tensor is not supported.");
  return input;
}
OP_VIEW(positive, "positive(input)", "input itself.",
        takes_nested | elementwise | keeps_zero | composed)

}  // namespace

Tensor sgn(const Tensor& input) {
  REDIRECT(sgn, input)
  if (!input.is_complex()) return sign(input);
  if (is_stored(input.dtype())) return to(sgn(to(input, widened(input.dtype()))), input.dtype());
  Tensor out;
  {
    const NoGrad off;
    const Tensor size = abs(input);
    out = where(size == 0, 0.0, input / size);
  }
  if (Record r{"sgn", out, {input}}) {
    // What turns z turns its sign, as much more as z is small; what stretches z does nothing.
    // PyTorch has 0 at 0.
    r.wrt(0, [x = r.save(input)](const Tensor& g) {
      const Tensor size = abs(x()), none = size == 0, sign = sgn(x());
      const Tensor across = g - sign * real(g * conj_physical(sign));
      return where(none, 0.0, across / where(none, 1.0, size));
    });
  }
  return out;
}
OP_INPLACE((one_step<sgn, "sgn">), "sgn(input)",
           "The sign of each element; a complex one divided by its size.",
           takes_nested | elementwise | keeps_zero)

namespace {

Tensor angle(const Tensor& input) {
  if (input.is_complex()) {
    const Tensor rows = contiguous(input);
    return atan2(imag(rows), real(rows));
  }
  const Tensor x = is_integral(input.dtype(), true) ? to(input, default_dtype()) : input;
  Tensor out = real_angle(detach(x), 0, 0);
  if (Record r{"angle", out, {x}}) {
    r.wrt(0, [kept = r.save(x)](const Tensor&) { return zeros_like(detach(kept())); });
  }
  return out;
}
OP((one_step<angle, "angle">), "angle(input)",
   "The angle of each complex element; pi for negative real ones.",
   casts_out | elementwise | keeps_zero)

Tensor fill(const Tensor& input, const Operand& value) { return fill_(clone(input), value); }
OP_FUNCTION((one_step<fill, "fill">), "fill(input, value)",
            "A tensor like input with every element set to value.", no_out)

Tensor isreal(const Tensor& input) {
  return input.is_complex() ? imag(input) == 0 : ones_like(input, DType::bool_);
}
OP(isreal, "isreal(input)", "Whether the imaginary part of each element is zero.",
   takes_nested | elementwise | no_out | composed)

Tensor ldexp(const Tensor& input, const Tensor& other) {
  const DType common = result_type(input, other);
  const DType dtype = is_integral(common, true) ? default_dtype() : common;
  if (!is_integral(other.dtype(), true) || input.is_complex())
    return input * pow(Operand(2.0), to(other, dtype));
  // The power alone may be no number where the product is one: it is taken in double precision, for
  // that one in parts.
  const auto scaled = [](const Tensor& x, const Tensor& exponent) {
    return x * pow(Operand(2.0), exponent);
  };
  constexpr double part = 1000.0;  // 2 ** 1000 and 2 ** -1000 are numbers
  const auto cut = [&](const Tensor& x) { return clamp(x, Scalar(-part), Scalar(part)); };
  const Tensor wide = to(input, DType::float64), exponent = to(other, DType::float64);
  const Tensor first = cut(exponent);
  const Tensor out = scaled(wide, first);
  if (dtype != DType::float64) return to(out, dtype);
  const Tensor rest = exponent - first, second = cut(rest);
  return scaled(scaled(out, second), cut(rest - second));
}
OP_INPLACE((one_step<ldexp, "ldexp">), "ldexp.Tensor(input, other)",
           "input times 2 to the power of other.", casts_out | elementwise)

Tensor logit(const Tensor& input, std::optional<double> eps) {
  const Tensor x = to(input, compute_dtype("logit", dtypes::Floating, input.dtype()));
  Tensor out;
  {
    const NoGrad off;
    const DType number_dtype = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
    if (eps) check_number_fits("logit", *eps, number_dtype);
    out = eps ? logit_between(x, *eps, 1 - *eps) : logit_between(x, -INFINITY, INFINITY);
  }
  if (Record r{"logit", out, {x}}) {
    r.wrt(0, [kept = r.save(x), eps](const Tensor& g) {
      const Tensor p = kept();
      const double low = eps.value_or(0.0);
      const Tensor inside = lying_as(g, p, (p >= low) & (p <= 1 - low));
      return where(inside, g / (p * (1 - p)), eps ? 0.0 : NAN);
    });
  }
  return out;
}
OP_INPLACE(logit, "logit(input, eps=None)",
           "log(x / (1 - x)) of each element, kept eps away from 0 and 1.",
           casts_out | elementwise | in_special)

Tensor sinc(const Tensor& input) {
  const DType dtype = is_integral(input.dtype(), true) ? default_dtype() : input.dtype();
  // pi x rounded to half precision would be far from its sine already.
  const DType wide = dtypes::Reduced.has(dtype) ? DType::float32 : dtype;
  Tensor out;
  {
    const NoGrad off;
    const Tensor x = to(input, wide) * M_PI;
    out = to(where(x == 0, 1.0, sin(x) / where(x == 0, 1.0, x)), dtype);
  }
  if (Record r{"sinc", out, {input}}) {
    r.wrt(0, [kept = r.save(input), wide](const Tensor& g) {
      const Tensor x = to(kept(), wide) * M_PI, none = x == 0, some = where(none, 1.0, x);
      return where(none, 0.0, mul_conj(g, (cos(x) - sin(x) / some) / some * M_PI));
    });
  }
  return out;
}
OP_INPLACE(sinc, "sinc(input)", "sin(pi x) / (pi x) of each element, 1 at zero.",
           casts_out | elementwise | in_special)

}  // namespace
}  // namespace flambeau
