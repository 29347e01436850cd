// Arithmetic whose signatures or derivatives are more than a row: add and sub with alpha, division
// with rounding, absolute value, rounding.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/gelu.h"
#include "flambeau/ops/elementwise/compose.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/reduce/reduce.h"
#include "flambeau/ops/sparse/sparse.h"

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

Scalar product(const Scalar& a, const Scalar& b) {
  return double{static_cast<float>(a.to<double>()) * static_cast<float>(b.to<double>())};
}

// a + alpha * b, or a - alpha * b
Tensor scaled_sum(const char* op, const Operand& a, const Operand& b, const Scalar& alpha,
                  bool subtracts, const Tensor& out) {
  if (!a.is_tensor() && !b.is_tensor()) {
    const Tensor number = cast_operand(a, a.scalar().natural_dtype(), default_device());
    return scaled_sum(op, number, b, alpha, subtracts, out);
  }
  if ((a.is_tensor() && a.tensor().is_sparse()) || (b.is_tensor() && b.tensor().is_sparse()))
      [[unlikely]]
    return sparse_sum(op, a, b, subtracts ? -alpha : alpha, out);
  const bool in_place = out.defined();
  const Device device = common_device(op, {a, b});
  const DType dtype = result_type(a, b);
  if (dtype == DType::complex32) [[unlikely]] {
    const Tensor sum = scaled_sum(op, cast_operand(a, DType::complex64, device),
                                  cast_operand(b, DType::complex64, device), alpha, subtracts, {});
    return in_place ? copy_(out, sum) : to(sum, dtype);
  }
  check_alpha(op, dtype, alpha);
  check_number_fits(op, alpha, dtype_for_numbers(dtype, device));
  const Scalar factor = subtracts ? -alpha : alpha;
  if (in_place) {
    check_inplace(op, out, b.requires_grad());
    check_result_cast(op, dtype, out.dtype());
  }
  Tensor result;
  {
    const NoGrad off;
    // A number beside half precision is rounded on the CPU alone, as in PyTorch.
    const bool exact = dtype_for_numbers(dtype, device) != dtype && !b.is_tensor();
    const Tensor x = cast_operand(a, dtype, device);
    const Tensor y = exact ? Tensor() : cast_operand(b, dtype, device);
    if (in_place && out.dtype() == dtype) result = out;
    TensorIter iter;
    const Operand inputs[] = {x, exact ? Operand(Scalar(1.0)) : Operand(y)};
    iter.build({op}, &result, &dtype, 1, inputs, 2, dtype);
    kernels::add_scaled(device.type, iter, exact ? product(factor, b.scalar()) : factor);
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
    r.wrt(1,
          [factor](const Tensor& g) { return mul_conj(g, scalar_tensor(factor, options_of(g))); });
  };
  if (in_place) {
    if (Record r = Record::in_place(op, result, {other})) rules(r);
  } else if (Record r{op, result, {a.is_tensor() ? a.tensor() : none, other}}) {
    rules(r);
  }
  return result;
}

Tensor difference(const char* op, const Operand& a, const Operand& b, const Scalar& alpha,
                  const Tensor& out) {
  check_no_bool_operand(a, b);
  return scaled_sum(op, a, b, alpha, true, out);
}

}  // namespace

Tensor add_scaled(const Operand& a, const Operand& b, const Scalar& alpha) {
  if (is_one(alpha)) return add(a, b);
  REDIRECT(add, a, b, alpha)
  return scaled_sum("add", a, b, alpha, false, {});
}
Tensor add_scaled_(const Tensor& self, const Operand& other, const Scalar& alpha) {
  if (is_one(alpha)) return add_(self, other);
  REDIRECT(add_, self, other, alpha)
  return scaled_sum("add", self, other, alpha, false, self);
}

namespace {

Tensor sub_op(const Operand& input, const Operand& other, const Scalar& alpha) {
  return is_one(alpha) ? sub(input, other) : difference("sub", input, other, alpha, {});
}
Tensor sub_inplace(const Tensor& self, const Operand& other, const Scalar& alpha) {
  return is_one(alpha) ? sub_(self, other) : difference("sub", self, other, alpha, self);
}

}  // namespace

Tensor rsub(const Tensor& input, const Operand& other, const Scalar& alpha) {
  REDIRECT(rsub, input, other, alpha)
  return is_one(alpha) ? sub(other, input) : difference("rsub", other, input, alpha, {});
}
OP(add_scaled, "add(input, other, *, alpha=1)", "The sum of input and alpha times other.",
   takes_sparse | casts_out | numbers_first | elementwise | takes_nested | wraps_numbers)
OP_METHOD(add_scaled_, "add_(self, other, *, alpha=1)", "Adds alpha times other to self.",
          takes_sparse | numbers_first | elementwise | takes_nested | wraps_numbers)
OP(sub_op, "sub(input, other, *, alpha=1)", "The difference of input and alpha times other.",
   takes_sparse | casts_out | numbers_first | elementwise | takes_nested | wraps_numbers)
OP_METHOD(sub_inplace, "sub_(self, other, *, alpha=1)", "Subtracts alpha times other from self.",
          takes_sparse | numbers_first | elementwise | takes_nested | wraps_numbers)
OP(sub_op, "subtract(input, other, *, alpha=1)", "Another name of sub.",
   takes_sparse | casts_out | elementwise | takes_nested | composed)
OP_METHOD(sub_inplace, "subtract_(self, other, *, alpha=1)", "Another name of sub_.",
          takes_sparse | elementwise | composed)
OP_FUNCTION((one_step<rsub, "rsub">), "rsub(input, other, *, alpha=1)",
            "other minus alpha times input.", takes_sparse | elementwise | no_out)

// --- Division ----------------------------------------------------------------------------------

namespace {

// Integer kernels cannot signal; the one divisor that must not reach them is looked for here. A
// number is zero if the dtype of the result makes it so. Tensors of other devices than the CPU are
// not looked at, as PyTorch does not: it would have to wait for them, and their division does not
// trap.
void check_divisor(const char* op, const Operand& a, const Operand& b) {
  const DType dtype = result_type(a, b);
  if (!is_integral(dtype) || (a.is_tensor() && a.tensor().numel() == 0)) return;
  if (!b.is_tensor()) {
    bool zero = false;
    dispatch<dtypes::Integral>(
        op, dtype, [&](auto tag) { zero = b.scalar().to<typename decltype(tag)::type>() == 0; });
    CHECK(!zero, RuntimeError, "{}: ZeroDivisionError", op);
    return;
  }
  if (!b.tensor().device().is_cpu() || b.tensor().numel() == 0) return;
  const NoGrad off;
  CHECK(!any_zero(b.tensor()), RuntimeError, "{}: ZeroDivisionError", op);
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

const Tensor& tensor_or_none(const Operand& operand) {
  static const Tensor none;
  return operand.is_tensor() ? operand.tensor() : none;
}

// The result of an op that has no derivative although it takes floating numbers.
void no_derivative(Record& r, const char* op) {
  r.all([op](Grads&, Grads&) {
    fail<RuntimeError>("derivative for aten::{} is not implemented", op);
  });
}

Tensor div_op(const Operand& input, const Operand& other,
              std::optional<std::string_view> rounding_mode) {
  return divide(input, other, rounding_mode, {});
}
Tensor div_inplace(const Tensor& self, const Operand& other,
                   std::optional<std::string_view> rounding_mode) {
  return divide(self, other, rounding_mode, self);
}
Tensor true_divide(const Operand& input, const Operand& other) { return div(input, other); }
Tensor true_divide_(const Tensor& self, const Operand& other) { return div_(self, other); }
Tensor floor_divide_(const Tensor& self, const Operand& other) {
  check_inplace("floor_divide_", self, other.requires_grad());
  {
    const NoGrad off;
    divide(self, other, "floor", self);
  }
  if (Record r = Record::in_place("not_implemented", self, {tensor_or_none(other)})) {
    no_derivative(r, "floor_divide_");
  }
  return self;
}
// Remainders divide too; their rows must not see a zero among integers.
Tensor fmod_op(const Tensor& input, const Operand& other) {
  check_divisor("fmod", input, other);
  return fmod(input, other);
}
Tensor fmod_inplace(const Tensor& self, const Operand& other) {
  check_inplace("fmod_", self);
  check_divisor("fmod", self, other);
  return fmod_(self, other);
}
Tensor remainder_op(const Tensor& input, const Operand& other) {
  return remainder_checked(input, other);
}
Tensor remainder_number(const Scalar& self, const Tensor& other) {
  return remainder_checked(Operand(self), other);
}
Tensor remainder_inplace(const Tensor& self, const Operand& other) {
  check_inplace("remainder_", self);
  check_divisor("remainder", self, other);
  return remainder_(self, other);
}

}  // namespace
Tensor remainder_checked(const Operand& input, const Operand& other) {
  REDIRECT(remainder, input, other)
  check_divisor("remainder", input, other);
  if (input.is_tensor()) return remainder(input, other);
  Tensor out;
  {
    const NoGrad off;
    out = remainder(input, other);
  }
  if (Record r{"not_implemented", out, {other.tensor()}}) no_derivative(r, "remainder");
  return out;
}
Tensor floor_divide(const Operand& input, const Operand& other) {
  REDIRECT(floor_divide, input, other)
  Tensor out;
  {
    const NoGrad off;
    out = divide(input, other, "floor", {});
  }
  if (Record r{"not_implemented", out, {tensor_or_none(input), tensor_or_none(other)}}) {
    no_derivative(r, "floor_divide");
  }
  return out;
}
OP(div_op, "div.Tensor/Tensor_mode(input, other, *, rounding_mode=None)",
   "The quotient of input and other, rounded as asked.",
   takes_sparse | casts_out | elementwise | takes_nested | wraps_numbers)
OP_METHOD(div_inplace, "div_.Tensor/Tensor_mode(self, other, *, rounding_mode=None)",
          "Divides self by other.", takes_sparse | elementwise | takes_nested | wraps_numbers)
OP(div_op, "divide(input, other, *, rounding_mode=None)", "Another name of div.",
   takes_sparse | casts_out | elementwise | takes_nested | composed)
OP_METHOD(div_inplace, "divide_(self, other, *, rounding_mode=None)", "Another name of div_.",
          takes_sparse | elementwise | composed)
OP(true_divide, "true_divide(input, other)",
   "The quotient of input and other, as a floating number.",
   takes_sparse | casts_out | elementwise | takes_nested | composed)
OP_METHOD(true_divide_, "true_divide_(self, other)", "Another name of div_.",
          takes_sparse | elementwise | composed)
OP(floor_divide, "floor_divide.default(input, other)",
   "The quotient of input and other rounded down.",
   takes_sparse | casts_out | elementwise | out_fails)
OP_METHOD(floor_divide_, "floor_divide_.Tensor(self, other)",
          "Divides self by other, rounding down.", takes_sparse | elementwise)
OP(remainder_op, "remainder(input, other)",
   "The remainder of a division that rounds down; it has the sign of other.",
   casts_out | elementwise)
OP_METHOD(remainder_inplace, "remainder_(self, other)",
          "Replaces self by the remainder of its division by other.", elementwise)
OP(fmod_op, "fmod(input, other)",
   "The remainder of a division that rounds towards zero; it has the sign of input.",
   casts_out | elementwise)
OP_METHOD(fmod_inplace, "fmod_(self, other)",
          "Replaces self by the remainder of its division by other.", elementwise)
OP_FUNCTION(remainder_number, "remainder.Scalar_Tensor(self, other)",
            "The remainder of a division that rounds down.", casts_out | elementwise)

// --- Absolute value and rounding -----------------------------------------------------------------

Tensor abs(const Tensor& input) {
  REDIRECT(abs, input)
  if (is_stored(input.dtype()) && is_signed(input.dtype())) [[unlikely]]
    return to(abs(to(input, widened(input.dtype()))), to_real(input.dtype()));
  // As in PyTorch, the CPU alone has no absolute values of bools.
  compute_dtype("abs", input.device().is_cpu() ? dtypes::Numeric : dtypes::All, input.dtype());
  const DType dtype = to_real(input.dtype());
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {input};
  iter.build({"abs"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::abs(iter.device.type, iter);
  if (Record r{"abs", out, {input}}) {
    r.wrt(0, [x = r.save(input)](const Tensor& g) { return g * sgn(x()); });
  }
  return out;
}
namespace {
Tensor abs_(const Tensor& self) {
  check_inplace("abs_", self);
  CHECK(!self.is_complex(), RuntimeError, "In-place abs is not supported for complex tensors.");
  return copy_(self, abs(grad_enabled() && self.requires_grad() ? clone(self) : self));
}

// Those of complex numbers may be written in any real precision, or as complex numbers.
Tensor abs_out(const Tensor& input, const Tensor& out) {
  const bool fits = out.dtype() == input.dtype() || (input.is_complex() && out.is_floating());
  CHECK(fits, RuntimeError, "abs(): Expected out tensor to have dtype {}, but got {} instead",
        dtype_name(to_real(input.dtype())), dtype_name(out.dtype()));
  CHECK(out.device() == input.device(), RuntimeError,
        "abs(): Expected out tensor to have device {}, but got {} instead", input.device(),
        out.device());
  check_no_partial_overlap("abs", out, input);
  return write_result(out, abs(input));
}
}  // namespace
OP(abs, "abs(input)", "The absolute value of each element.",
   elementwise | takes_nested | foreach | keeps_zero)
OP_OUT(abs_out, "abs(input, *, out)")
OP_METHOD(abs_, "abs_(self)", "Replaces each element by its absolute value.",
          elementwise | takes_nested | foreach)
OP(abs, "absolute(input)", "Another name of abs.",
   elementwise | keeps_zero | takes_nested | composed)
OP_OUT(abs_out, "absolute(input, *, out)")
OP_METHOD(abs_, "absolute_(self)", "Another name of abs_.",
          elementwise | keeps_zero | takes_nested | composed)

Tensor conj(const Tensor& input) {
  REDIRECT(conj_physical, input)
  return input.is_complex() ? conj_physical(input) : input;
}

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
  if (Record r{decimals ? "round.1" : "round", out, {input}}) {
    r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
  }
  return out;
}

}  // namespace

Tensor bitwise_not(const Tensor& input) {
  REDIRECT(bitwise_not, input)
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

namespace {

Tensor nan_to_num(const Tensor& input, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (input.is_complex()) {  // part by part
    return view_as_complex(nan_to_num(view_as_real(input), nan, posinf, neginf));
  }
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
  Tensor out = empty_like(input);
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

// g times the slope of gelu at x, in one pass.
Tensor gelu_backward(const Tensor& g, const Tensor& x, bool tanh_form) {
  Tensor out;
  TensorIter iter;
  const DType dtype = x.dtype();
  const Operand inputs[] = {g, x};
  iter.build({"gelu_backward"}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::gelu_backward(iter.device.type, iter, tanh_form);
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
      if (!grad_enabled()) return gelu_backward(g, x, tanh_form);
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
           "Each element rounded to the nearest integer or decimal place, halves to even.",
           elementwise | foreach | in_special | keeps_zero)
OP_INPLACE(bitwise_not, "bitwise_not(input)",
           "The bits not set in input; the logical not of booleans.", elementwise)
OP_INPLACE(nan_to_num, "nan_to_num(input, nan=None, posinf=None, neginf=None)",
           "input with NaN and infinities replaced by numbers.", elementwise | keeps_zero)
OP_FUNCTION(gelu, "_nn_gelu.gelu.default(input, *, approximate='none')",
            "x times the chance that a normal variable is below x.", elementwise | takes_nested)

}  // namespace flambeau
