// Powers: pow and float_power of tensors and numbers. Roots and small powers have formulas of their
// own, exponents that the dtype cannot hold are met in double precision.
#include <cmath>
#include <complex>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/sparse/sparse.h"

namespace flambeau {
namespace {

Tensor pow_gradient_base(const Tensor& g, const Tensor& base, const Tensor& exponent) {
  // Where the exponent is zero the derivative is zero, whatever the base, and so is the second one.
  const Tensor constant = exponent == 0, lower = where(constant, 1, exponent) - 1;
  return where(constant, 0.0, mul_conj(g, exponent * pow(base, lower)));
}

// The same for an exponent that is a number, which keeps all of its digits.
Tensor pow_gradient_base(const Tensor& g, const Tensor& base, const Scalar& exponent) {
  const bool is_least = exponent.is_integral(true) && exponent == Scalar(INT64_MIN);
  const Scalar lower = exponent.is_complex() ? Scalar(exponent.to<std::complex<double>>() - 1.0)
                       : exponent.is_floating() || is_least ? Scalar(exponent.to<double>() - 1)
                                                            : Scalar(exponent.to<int64_t>() - 1);
  return mul_conj(g, pow(base, lower) * exponent);
}

// Whether single precision would round an exponent, and so take odd ones for even.
bool needs_double_exponent(const Scalar& exponent, DType dtype) {
  if (dtype != DType::float32 && !dtypes::Reduced.has(dtype)) return false;
  if (exponent.is_complex()) return false;
  const auto value = exponent.to<double>();
  return std::abs(value) > 0x1p24 && std::isfinite(value) && value != static_cast<float>(value);
}

// Where powers of zero are zero all around, or one.
Tensor at_least_zero(const Tensor& exponent) {
  if (!exponent.is_complex()) return exponent >= 0;
  return logical_and(real(exponent) >= 0, imag(exponent) == 0);
}

Tensor pow_gradient_exponent(const Tensor& g, const Tensor& base, const Tensor& exponent,
                             const Tensor& y) {
  const Tensor flat = logical_and(base == 0, at_least_zero(exponent));
  return where(flat, 0.0, mul_conj(g, y * log(base)));
}

// The same for a base that is a number, which may lie beyond the dtype of the exponent.
Tensor pow_gradient_exponent(const Tensor& g, const Scalar& base, const Tensor& exponent,
                             const Tensor& y) {
  const Scalar slope = y.is_complex() ? Scalar(std::log(base.to<std::complex<double>>()))
                                      : Scalar(std::log(base.to<double>()));
  const Tensor grad = mul_conj(g, y * slope);
  return base == Scalar(0) ? where(at_least_zero(exponent), 0.0, grad) : grad;
}

// An exponent that is a number must have its place in the dtype of the power, unless that is
// computed in double precision or in floats.
void check_exponent(const Scalar& exponent, DType dtype) {
  if (is_integral(dtype)) {
    CHECK(!exponent.is_integral() || exponent.fits(DType::int64), RuntimeError,
          "pow: value cannot be converted to type int64_t without overflow: {}", exponent);
    CHECK(exponent.to_int() >= 0, RuntimeError,
          "Integers to negative integer powers are not allowed.");
  }
  if (is_integral(dtype) || dtypes::Reduced.has(dtype)) check_number_fits("pow", exponent, dtype);
}

// Gives the value of x ** exponent its history.
Tensor recorded_power(Tensor out, const Tensor& x, const Scalar& exponent) {
  if (Record r{"pow", out, {x}}) {
    r.wrt(0, [base = r.save(x), exponent](const Tensor& g) {
      return pow_gradient_base(g, base(), exponent);
    });
  }
  return out;
}

// A power whose exponent has more digits than the dtype of the base.
Tensor power_in_double(const Tensor& x, const Scalar& exponent) {
  const NoGrad off;
  return to(pow(to(x, DType::float64), exponent), x.dtype());
}

// x ** 0.5 and others of which PyTorch computes a simpler formula, in all but half precision: the
// root of -inf is NaN, and its power inf. Undefined where there is none.
Tensor power_by_formula(const Tensor& x, const Scalar& exponent) {
  if (is_integral(x.dtype())) {
    if (exponent == Scalar(2)) return square(x);
    return exponent == Scalar(3) ? cube(x, 0, 0) : Tensor();
  }
  if (!is_differentiable(x.dtype()) || x.dtype() == DType::float16) return {};
  const NoGrad off;
  if (exponent == Scalar(0.5)) return sqrt(x);
  if (exponent == Scalar(-0.5)) return rsqrt(x);
  if (exponent == Scalar(-1)) return reciprocal(x);
  // The square is rounded to what half precision holds.
  const bool rounds = dtypes::Reduced.has(x.dtype());
  if (exponent == Scalar(3)) return rounds ? mul_(x * x, x) : cube(x, 0, 0);
  if (exponent == Scalar(-2)) return rounds ? reciprocal(square(x)) : inverse_square(x, 0, 0);
  return {};
}

// x ** 0, with a derivative of zero.
Tensor ones_instead(const Tensor& x, DType dtype) {
  Tensor out = ones_like(x, dtype);
  if (Record r{"pow", out, {x}}) r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
  return out;
}

}  // namespace

Tensor pow(const Operand& a, const Operand& b) {
  REDIRECT(pow, a, b)
  if (a.is_tensor() && a.tensor().is_sparse()) [[unlikely]]
    return sparse_pow(a.tensor(), b);
  const Device device = common_device("pow", {a, b});
  const DType dtype = result_type(a, b);
  if (dtype == DType::complex32 && !device.is_cpu()) {
    const Tensor x = a.is_tensor() ? to(a.tensor(), DType::complex64) : Tensor();
    const Tensor e = b.is_tensor() ? to(b.tensor(), DType::complex64) : Tensor();
    return to(pow(x.defined() ? Operand(x) : a, e.defined() ? Operand(e) : b), dtype);
  }
  if (!b.is_tensor()) {
    if (b.scalar() == Scalar(0)) return ones_instead(a.tensor(), dtype);
    const Tensor base = to(a.tensor(), dtype);
    if (b.scalar() == Scalar(1)) {
      return recorded_power(clone(detach_alias(base)), base, b.scalar());
    }
    check_exponent(b.scalar(), dtype);
    if (needs_double_exponent(b.scalar(), dtype)) {
      return recorded_power(power_in_double(base, b.scalar()), base, b.scalar());
    }
    // The squares that programs are full of have a simpler derivative too.
    if (b.scalar() == Scalar(2) && is_differentiable(dtype)) return square(base);
    const Tensor power = power_by_formula(base, b.scalar());
    if (power.defined()) return recorded_power(power, base, b.scalar());
  }
  compute_dtype("pow", dtypes::Numeric, dtype);
  // The powers of a number are laid out row by row, whatever the exponents are.
  const Tensor x = cast_operand(a, dtype, device);
  const Tensor e =
      a.is_tensor() ? cast_operand(b, dtype, device) : contiguous(cast_operand(b, dtype, device));
  // A number is a parameter of this kernel and has no say in the strides.
  const Tensor& lone = b.is_tensor() ? e : x;
  Tensor out;
  if (!(a.is_tensor() && b.is_tensor()) && lone.is_contiguous()) {
    out = make_tensor(lone.sizes(), dtype, lone.device());
  }
  TensorIter iter;
  const Operand inputs[] = {x, e};
  iter.build({"pow"}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::pow(device.type, iter);
  if (!b.is_tensor()) return recorded_power(std::move(out), x, b.scalar());
  if (Record r{a.is_tensor() ? "pow.1" : "pow.2", out, {x, e}}) {
    const Saved exponent = r.save(e);
    if (!a.is_tensor()) {
      r.wrt(1, [base = a.scalar(), exponent, y = r.save_output(out)](const Tensor& g) {
        return pow_gradient_exponent(g, base, exponent(), y());
      });
      return out;
    }
    const Saved base = r.save(x);
    r.wrt(0,
          [base, exponent](const Tensor& g) { return pow_gradient_base(g, base(), exponent()); });
    r.wrt(1, [base, exponent, y = r.wants(1) ? r.save_output(out) : Saved()](const Tensor& g) {
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

DType float_power_dtype(const Operand& a, const Operand& b) {
  const auto complex = [](const Operand& x) {
    return x.is_tensor() ? x.tensor().is_complex() : x.scalar().is_complex();
  };
  return complex(a) || complex(b) ? DType::complex128 : DType::float64;
}
Tensor float_power_of(const Operand& a, const Operand& b) {
  const DType dtype = float_power_dtype(a, b);
  const Tensor x = a.is_tensor() ? to(a.tensor(), dtype) : Tensor();
  const Tensor e = b.is_tensor() ? to(b.tensor(), dtype) : Tensor();
  return pow(x.defined() ? Operand(x) : a, e.defined() ? Operand(e) : b);
}
void check_power_target(const char* what, const Operand& a, const Operand& b, DType target) {
  const DType dtype = float_power_dtype(a, b);
  CHECK(target == dtype, RuntimeError,
        "the {} has dtype {} but the operation's result requires dtype {}", what,
        dtype_legacy_name(target), dtype_legacy_name(dtype));
}
Tensor float_power(const Tensor& input, const Operand& exponent) {
  return float_power_of(input, exponent);
}
Tensor float_power_number(const Scalar& self, const Tensor& exponent) {
  return float_power_of(Operand(self), exponent);
}
Tensor float_power_(const Tensor& self, const Operand& exponent) {
  check_inplace("float_power_", self);
  check_power_target("base given to float_power_", self, exponent, self.dtype());
  // What the power keeps of self must not be what is overwritten.
  const Tensor base = grad_enabled() && self.requires_grad() ? clone(self) : self;
  return copy_(self, float_power_of(base, exponent));
}
}  // namespace
OP_INPLACE(pow_op, "pow.Tensor_Tensor/Tensor_Scalar/Scalar(input, exponent)",
           "input to the power of exponent.", takes_sparse | casts_out | elementwise | cuda_exact)
OP_FUNCTION(pow_number, "pow.Scalar(self, exponent)", "self to the power of exponent.",
            takes_sparse | casts_out | elementwise | cuda_exact)
OP(float_power, "float_power(input, exponent)",
   "input to the power of exponent in double precision.", elementwise | composed)
OP_FUNCTION(float_power_number, "float_power(self, exponent)",
            "self to the power of exponent in double precision.", elementwise | composed)
OP_METHOD(float_power_, "float_power_(self, exponent)",
          "Raises self, of double precision, to the power of exponent.", elementwise | composed)

}  // namespace flambeau
