// Arithmetic whose signatures or derivatives are more than a row: add and sub with alpha, division
// with rounding, powers, absolute value, rounding.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

bool is_one(const Scalar& alpha) { return alpha.is_integral() && alpha.to_int() == 1; }

void check_alpha(const char* op, DType dtype, const Scalar& alpha) {
  CHECK(!alpha.is_boolean() || dtype == DType::bool_, RuntimeError,
        "{}: Boolean alpha only supported for Boolean results.", op);
  CHECK(is_differentiable(dtype) || alpha.is_integral(true), RuntimeError,
        "{}: For integral input tensors, argument alpha must not be a floating point number.", op);
  CHECK(is_complex(dtype) || !alpha.is_complex(), RuntimeError,
        "{}: For non-complex input tensors, argument alpha must not be a complex number.", op);
}

void check_no_bool_difference(const Operand& a, const Operand& b) {
  const auto is_bool = [](const Operand& x) {
    return x.is_tensor() ? x.tensor().dtype() == DType::bool_ : x.scalar().is_boolean();
  };
  CHECK(!(is_bool(a) && is_bool(b)), NotImplementedError,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
  CHECK(!is_bool(a) && !is_bool(b), NotImplementedError,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
}

// a + alpha * b
Tensor scaled_sum(const char* op, const Operand& a, const Operand& b, const Scalar& alpha,
                  const Tensor& out) {
  const bool in_place = out.defined();
  const Device device = common_device(op, {a, b});
  const DType dtype = result_type(a, b);
  check_alpha(op, dtype, alpha);
  if (in_place) {
    check_inplace(op, out);
    check_result_cast(op, dtype, out.dtype());
  }
  Tensor result;
  {
    const NoGrad off;
    const Tensor x = cast_operand(a, dtype, device), y = cast_operand(b, dtype, device);
    if (in_place && out.dtype() == dtype) result = out;
    TensorIter iter;
    const Operand inputs[] = {x, y};
    iter.build({op}, &result, &dtype, 1, inputs, 2, dtype);
    kernels::add_scaled(device.type, iter, alpha);
    if (in_place && !result.is_same(out)) {
      copy_(out, result);
      result = out;
    } else if (in_place) {
      out.bump_version(op);
    }
  }
  static const Tensor none;
  const Tensor& other = b.is_tensor() ? b.tensor() : none;
  const auto rules = [&](Record& r) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(1, [alpha](const Tensor& g) { return mul_conj(g, scalar_tensor(alpha, options_of(g))); });
  };
  if (in_place) {
    if (Record r = Record::in_place(op, result, {other})) rules(r);
  } else if (Record r{op, result, {a.is_tensor() ? a.tensor() : none, other}}) {
    rules(r);
  }
  return result;
}

}  // namespace

Tensor add_scaled(const Operand& a, const Operand& b, const Scalar& alpha) {
  return is_one(alpha) ? add(a, b) : scaled_sum("add", a, b, alpha, {});
}
Tensor add_scaled_(const Tensor& self, const Operand& other, const Scalar& alpha) {
  return is_one(alpha) ? add_(self, other) : scaled_sum("add", self, other, alpha, self);
}

namespace {

Tensor add_op(const Tensor& input, const Operand& other, const Scalar& alpha) {
  return add_scaled(input, other, alpha);
}
Tensor sub_op(const Tensor& input, const Operand& other, const Scalar& alpha) {
  check_no_bool_difference(input, other);
  return is_one(alpha) ? sub(input, other) : scaled_sum("sub", input, other, -alpha, {});
}
Tensor sub_inplace(const Tensor& self, const Operand& other, const Scalar& alpha) {
  check_no_bool_difference(self, other);
  return is_one(alpha) ? sub_(self, other) : scaled_sum("sub", self, other, -alpha, self);
}
Tensor rsub(const Tensor& input, const Operand& other, const Scalar& alpha) {
  check_no_bool_difference(input, other);
  return is_one(alpha) ? sub(other, input) : scaled_sum("rsub", other, input, -alpha, {});
}

}  // namespace
OP(add_op, "add(input, other, *, alpha=1)", "The sum of input and alpha times other.")
OP_METHOD(add_scaled_, "add_(self, other, *, alpha=1)", "Adds alpha times other to self.")
OP(sub_op, "sub(input, other, *, alpha=1)", "The difference of input and alpha times other.")
OP_METHOD(sub_inplace, "sub_(self, other, *, alpha=1)", "Subtracts alpha times other from self.")
OP(sub_op, "subtract(input, other, *, alpha=1)", "Another name of sub.")
OP_METHOD(sub_inplace, "subtract_(self, other, *, alpha=1)", "Another name of sub_.")
OP_FUNCTION(rsub, "rsub(input, other, *, alpha=1)", "other minus alpha times input.")

// --- Division ----------------------------------------------------------------------------------

namespace {

// Integer kernels cannot signal; the one divisor that must not reach them is looked for here.
void check_divisor(const char* op, const Operand& a, const Operand& b) {
  if (!is_integral(result_type(a, b), true)) return;
  if (!b.is_tensor()) {
    CHECK(b.scalar().to<bool>(), ZeroDivisionError, "{}: ZeroDivisionError", op);
    return;
  }
  if (b.tensor().device().is_meta() || b.tensor().numel() == 0) return;
  const NoGrad off;
  CHECK(!any_zero(b.tensor()), ZeroDivisionError, "{}: ZeroDivisionError", op);
}

Tensor divide(const Operand& a, const Operand& b, std::optional<std::string_view> mode,
              const Tensor& out) {
  if (!mode) return out.defined() ? div_(out, b) : div(a, b);
  CHECK(*mode == "trunc" || *mode == "floor", RuntimeError,
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{}'", *mode);
  check_divisor("div", a, b);
  if (*mode == "floor") return out.defined() ? div_floor_(out, b) : div_floor(a, b);
  return out.defined() ? div_trunc_(out, b) : div_trunc(a, b);
}

Tensor div_op(const Tensor& input, const Operand& other,
              std::optional<std::string_view> rounding_mode) {
  return divide(input, other, rounding_mode, {});
}
Tensor div_inplace(const Tensor& self, const Operand& other,
                   std::optional<std::string_view> rounding_mode) {
  return divide(self, other, rounding_mode, self);
}
Tensor true_divide(const Tensor& input, const Operand& other) { return div(input, other); }
Tensor floor_divide_op(const Tensor& input, const Operand& other) {
  return floor_divide(input, other);
}
Tensor floor_divide_number(const Scalar& self, const Tensor& other) {
  return floor_divide(self, other);
}
Tensor floor_divide_(const Tensor& self, const Operand& other) {
  return divide(self, other, "floor", self);
}
// Remainders divide too; their rows must not meet a zero among integers.
using Division = Tensor (*)(const Operand&, const Operand&);
template <Division divide>
Tensor checked(const Tensor& input, const Operand& other) {
  check_divisor(divide == static_cast<Division>(fmod) ? "fmod" : "remainder", input, other);
  return divide(input, other);
}
Tensor remainder_number(const Scalar& self, const Tensor& other) {
  check_divisor("remainder", Operand(self), other);
  return remainder(Operand(self), other);
}
Tensor remainder_inplace(const Tensor& self, const Operand& other) {
  check_divisor("remainder", self, other);
  return remainder_(self, other);
}
Tensor fmod_inplace(const Tensor& self, const Operand& other) {
  check_divisor("fmod", self, other);
  return fmod_(self, other);
}

}  // namespace
Tensor floor_divide(const Operand& input, const Operand& other) {
  return divide(input, other, "floor", {});
}
OP(div_op, "div(input, other, *, rounding_mode=None)",
   "The quotient of input and other, rounded as asked.")
OP_METHOD(div_inplace, "div_(self, other, *, rounding_mode=None)", "Divides self by other.")
OP(div_op, "divide(input, other, *, rounding_mode=None)", "Another name of div.")
OP_METHOD(div_inplace, "divide_(self, other, *, rounding_mode=None)", "Another name of div_.")
OP_INPLACE(true_divide, "true_divide(input, other)",
           "The quotient of input and other, as a floating number.")
OP(floor_divide_op, "floor_divide(input, other)", "The quotient of input and other rounded down.")
OP_FUNCTION(floor_divide_number, "floor_divide(self, other)",
            "The quotient of self and other rounded down.")
OP_METHOD(floor_divide_, "floor_divide_(self, other)", "Divides self by other, rounding down.")
OP(checked<remainder>, "remainder(input, other)",
   "The remainder of a division that rounds down; it has the sign of other.")
OP_METHOD(remainder_inplace, "remainder_(self, other)",
          "Replaces self by the remainder of its division by other.")
OP(checked<fmod>, "fmod(input, other)",
   "The remainder of a division that rounds towards zero; it has the sign of input.")
OP_METHOD(fmod_inplace, "fmod_(self, other)",
          "Replaces self by the remainder of its division by other.")
OP_FUNCTION(remainder_number, "remainder(self, other)",
            "The remainder of a division that rounds down.")

// --- Powers --------------------------------------------------------------------------------------

namespace {

Tensor pow_gradient_base(const Tensor& g, const Tensor& base, const Tensor& exponent) {
  // Where the exponent is zero the derivative is zero, whatever the base.
  return where(exponent == 0, 0.0, mul_conj(g, exponent * pow(base, exponent - 1)));
}

Tensor pow_gradient_exponent(const Tensor& g, const Tensor& base, const Tensor& exponent,
                             const Tensor& y) {
  const Tensor zero_to_positive =
      exponent.is_complex() ? base == 0 : logical_and(base == 0, exponent >= 0);
  return where(zero_to_positive, 0.0, mul_conj(g, y * log(base)));
}

}  // namespace

Tensor pow(const Operand& a, const Operand& b) {
  const Device device = common_device("pow", {a, b});
  const DType dtype = result_type(a, b) == DType::bool_ ? DType::int64 : result_type(a, b);
  if (!b.is_tensor() && is_integral(dtype) && b.scalar().is_integral()) {
    CHECK(b.scalar().to_int() >= 0, RuntimeError,
          "pow: Integers to negative integer powers are not allowed.");
  }
  if (a.is_tensor() && !b.is_tensor() && is_differentiable(dtype)) {
    // The squares and roots that programs are full of; their derivatives are simpler too.
    if (b.scalar() == Scalar(2)) return square(to(a.tensor(), dtype));
    if (b.scalar() == Scalar(0.5)) return sqrt(to(a.tensor(), dtype));
    if (b.scalar() == Scalar(1)) return clone(to(a.tensor(), dtype));
  }
  const Tensor x = cast_operand(a, dtype, device), e = cast_operand(b, dtype, device);
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {x, e};
  iter.build({"pow"}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::pow(device.type, iter);
  if (Record r{"pow", out, {x, e}}) {
    r.wrt(0, [base = r.save(x), exponent = r.save(e)](const Tensor& g) {
      return pow_gradient_base(g, base(), exponent());
    });
    r.wrt(1, [base = r.save(x), exponent = r.save(e), y = r.save_output(out)](const Tensor& g) {
      return pow_gradient_exponent(g, base(), exponent(), y());
    });
  }
  return out;
}
namespace {
Tensor pow_op(const Tensor& input, const Operand& exponent) { return pow(input, exponent); }
Tensor pow_number(const Scalar& self, const Tensor& exponent) {
  return pow(Operand(self), exponent);
}
Tensor float_power(const Tensor& input, const Operand& exponent) {
  const bool complex =
      input.is_complex() ||
      (exponent.is_tensor() ? exponent.tensor().is_complex() : exponent.scalar().is_complex());
  const DType dtype = complex ? DType::complex128 : DType::float64;
  CHECK(!is_differentiable(input.dtype()) || can_cast(input.dtype(), dtype), RuntimeError,
        "float_power: the base of dtype {} cannot be cast to {}", input.dtype(), dtype);
  return pow(to(input, dtype),
             exponent.is_tensor() ? Operand(to(exponent.tensor(), dtype)) : exponent);
}
}  // namespace
OP_INPLACE(pow_op, "pow(input, exponent)", "input to the power of exponent.")
OP_FUNCTION(pow_number, "pow(self, exponent)", "self to the power of exponent.")
OP_INPLACE(float_power, "float_power(input, exponent)",
           "input to the power of exponent in double precision.")

// --- Absolute value and rounding -----------------------------------------------------------------

Tensor abs(const Tensor& input) {
  const DType dtype = to_real(input.dtype());
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"abs"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::abs(iter.device.type, iter);
  if (Record r{"abs", out, {input}}) {
    r.wrt(0, [x = r.save(input)](const Tensor& g) {
      if (!x().is_complex()) return g * sign(x());
      const Tensor size = abs(x());
      return where(size == 0, 0.0, x() / size) * g;
    });
  }
  return out;
}
OP_INPLACE(abs, "abs(input)", "The absolute value of each element.")
OP_INPLACE(abs, "absolute(input)", "Another name of abs.")

Tensor conj(const Tensor& input) { return input.is_complex() ? conj_physical(input) : input; }
OP(conj, "conj(input)", "The complex conjugate of each element; input itself if it is real.")

bool any_zero(const Tensor& input) {
  const NoGrad off;
  return is_nonzero(sum(logical_not(input)));
}

namespace {

Tensor round_op(const Tensor& input, int64_t decimals) {
  CHECK(dtypes::Real.has(input.dtype()), NotImplementedError, "\"round\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  CHECK(decimals == 0 || input.is_floating(), NotImplementedError,
        "\"round\" with decimals is not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const DType dtype = input.dtype();
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"round"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::round(iter.device.type, iter, decimals);
  if (Record r{"round", out, {input}}) r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
  return out;
}

Tensor bitwise_not(const Tensor& input) {
  CHECK(is_integral(input.dtype(), true), NotImplementedError,
        "\"bitwise_not\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const DType dtype = input.dtype();
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"bitwise_not"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::bitwise_not(iter.device.type, iter);
  return out;
}

Tensor nan_to_num(const Tensor& input, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (!input.is_floating()) return clone(input);
  const DType dtype = input.dtype();
  double largest = 0;
  dispatch<dtypes::Floating>("nan_to_num", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half>) {
      largest = 65504.0;
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      largest = 3.3895313892515355e38;
    } else {
      largest = std::numeric_limits<T>::max();
    }
  });
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"nan_to_num"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::nan_to_num(iter.device.type, iter, nan.value_or(0), posinf.value_or(largest),
                      neginf.value_or(-largest));
  if (Record r{"nan_to_num", out, {input}}) {
    r.wrt(0, [x = r.save(input)](const Tensor& g) { return g * isfinite(x()); });
  }
  return out;
}

Tensor gelu(const Tensor& input, std::string_view approximate) {
  CHECK(approximate == "none" || approximate == "tanh", RuntimeError,
        "gelu: approximate argument must be either none or tanh, got '{}'", approximate);
  const bool tanh_form = approximate == "tanh";
  const DType dtype = compute_dtype("gelu", dtypes::Floating, input.dtype());
  CHECK(dtype == input.dtype(), NotImplementedError, "\"gelu\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"gelu"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::gelu(iter.device.type, iter, tanh_form);
  if (Record r{"gelu", out, {input}}) {
    r.wrt(0, [saved = r.save(input), tanh_form](const Tensor& g) {
      const Tensor x = saved();
      if (!tanh_form) {
        const Tensor cdf = 0.5 * (1 + erf(x * M_SQRT1_2));
        return g * (cdf + x * exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5));
      }
      constexpr double k = 0.79788456080286535588, cubic = 0.044715;
      const Tensor t = tanh(k * (x + cubic * (x * x * x)));
      return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (k * (1 + 3 * cubic * (x * x))));
    });
  }
  return out;
}

}  // namespace
OP_INPLACE(round_op, "round(input, *, decimals=0)",
           "Each element rounded to the nearest integer or decimal place, halves to even.")
OP_INPLACE(bitwise_not, "bitwise_not(input)",
           "The bits not set in input; the logical not of booleans.")
OP_INPLACE(nan_to_num, "nan_to_num(input, nan=None, posinf=None, neginf=None)",
           "input with NaN and infinities replaced by numbers.")
OP_FUNCTION(gelu, "_nn_gelu(input, *, approximate='none')",
            "x times the chance that a normal variable is below x.")

}  // namespace flambeau
