// Elementwise choice between tensors: where, clamp, fused multiply-adds, interpolation.
#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/elementwise/compose.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/elementwise/overwrite.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  REDIRECT(where, condition, a, b)
  CHECK(condition.dtype() == DType::bool_ || condition.dtype() == DType::uint8, RuntimeError,
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype());
  if (condition.dtype() == DType::uint8) {
    static std::atomic<bool> told{false};
    warn_once(told,
              "where received a uint8 condition tensor. This behavior is deprecated and will be "
              "removed in a future version of PyTorch. Use a boolean condition instead.");
  }
  const Device device = common_device("where", {condition, a, b});
  const DType dtype = result_type(a, b);
  const Tensor mask = to(to(condition, DType::bool_), device);
  // What is too large for half precision becomes infinite.
  const DType number_dtype = dtypes::Reduced.has(dtype) ? DType::float64 : dtype;
  for (const Operand* operand : {&a, &b}) {
    if (!operand->is_tensor()) check_number_fits("where", operand->scalar(), number_dtype);
  }
  const Tensor x = cast_operand(a, dtype, device), y = cast_operand(b, dtype, device);
  Tensor out;
  TensorIter iter;
  const Operand inputs[] = {mask, x, y};
  iter.build({"where"}, &out, &dtype, 1, inputs, 3, dtype);
  kernels::where(device.type, iter);
  if (Record r{"where", out, {x, y}}) {
    const Saved kept = r.save(mask);
    r.wrt(0, [kept](const Tensor& g) { return where(kept(), g, 0.0); });
    r.wrt(1, [kept](const Tensor& g) { return where(kept(), 0.0, g); });
  }
  return out;
}
namespace {
Tensor where_tensors(const Tensor& condition, const Tensor& input, const Tensor& other) {
  return where(condition, input, other);
}
Tensor where_method(const Tensor& self, const Tensor& condition, const Operand& other) {
  return where(condition, self, other);
}
}  // namespace
OP_FUNCTION(where_tensors, "where.self(condition, input, other)",
            "input where condition is true, other elsewhere.", elementwise)
OP_FUNCTION(where, "where.ScalarOther/ScalarSelf/Scalar(condition, input, other)",
            "input where condition is true, other elsewhere.", elementwise | no_out)
OP_METHOD(where_method, "where.self(self, condition, other)",
          "self where condition is true, other elsewhere.", elementwise)
// Its operator begins with the condition.
static Tensor where_steps(const Tensor& self, const Tensor& condition, const Operand& other) {
  return tensor_op("where", {condition, self, other});
}
STEPS(where, where_steps)

Scalar clamp_bound(const Scalar& value, DType dtype, bool low, Device device) {
  if (!is_integral(dtype) || !value.is_integral()) {
    check_number_fits("clamp", value, dtype_for_numbers(dtype, device));
    return value;
  }
  Scalar held = value;
  dispatch<dtypes::Integral>("clamp", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool above =
        value.tag() == Scalar::Tag::unsigned_integer || (value.to_int() > 0 && !value.fits(dtype));
    const bool below =
        !above && value.to_int() < 0 && (std::is_unsigned_v<T> || !value.fits(dtype));
    if (!above && !below) return;
    CHECK(low ? below : above, RuntimeError,
          "Clamp {} value {} is outside the representable range of {}", low ? "min" : "max", value,
          dtype_legacy_name(dtype));
    held = low ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  });
  return held;
}

namespace {

// A bound as an operand of the clamp kernel; a missing one is the end of the dtype's range.
Tensor bound(const Operand* given, DType dtype, Device device, bool low) {
  if (given && !given->is_tensor()) {
    return cast_operand(clamp_bound(given->scalar(), dtype, low, device), dtype, device);
  }
  if (given) return cast_operand(*given, dtype, device);
  Options options;
  options.dtype = dtype;
  options.device = device;
  Scalar limit;
  dispatch<dtypes::Real>("clamp", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      limit = low ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    } else {
      limit =
          low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    }
  });
  return full({}, limit, options);
}

// How the gradient of clamp is shared out. An element at a number is held by it; one at an element
// of a bound shares with that, unless both bounds are equal there. Where bounds cross, the upper
// rules.
struct ClampBounds {
  Tensor lower, upper;
  bool has_lower, has_upper, are_numbers;

  [[nodiscard]] Tensor share_of_input(const Tensor& g, const Tensor& x) const {
    const Tensor yes = ones_like(detach(x), DType::bool_);
    if (are_numbers) {
      const Tensor inside = (has_lower ? x > lower : yes) & (has_upper ? x < upper : yes);
      return where(inside, g, 0.0);
    }
    const Tensor beyond = outside(x);
    return where(beyond, 0.0, where(ne(at_lower(x), at_upper(x)), g * 0.5, g));
  }
  [[nodiscard]] Tensor share_of_lower(const Tensor& g, const Tensor& x) const {
    const Tensor rules = has_upper ? le(lower, upper) : ones_like(detach(x), DType::bool_);
    const Tensor shared = at_lower(x) & logical_not(at_upper(x));
    return where(rules & logical_not(x >= lower), g, where(rules & shared, g * 0.5, 0.0));
  }
  [[nodiscard]] Tensor share_of_upper(const Tensor& g, const Tensor& x) const {
    const Tensor crossed = has_lower ? lower > upper : zeros_like(detach(x), DType::bool_);
    const Tensor shared = at_upper(x) & logical_not(at_lower(x));
    return where(crossed | (x > upper), g, where(shared, g * 0.5, 0.0));
  }

 private:
  [[nodiscard]] Tensor no(const Tensor& x) const { return zeros_like(detach(x), DType::bool_); }
  [[nodiscard]] Tensor at_lower(const Tensor& x) const { return has_lower ? x == lower : no(x); }
  [[nodiscard]] Tensor at_upper(const Tensor& x) const { return has_upper ? x == upper : no(x); }
  [[nodiscard]] Tensor outside(const Tensor& x) const {
    Tensor found = no(x);
    if (has_lower) found = found | (x < lower);
    if (has_upper) found = found | (x > upper);
    return has_lower && has_upper ? found | (lower > upper) : found;
  }
};

Tensor clamp_between(const char* op, const Tensor& input, const Operand* low, const Operand* high) {
  CHECK(low || high, RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None");
  ResultType type;
  type.add(input);
  if (low) type.add(*low);
  if (high) type.add(*high);
  const DType dtype = type.get();
  if (dtype == DType::bool_ && !(low && high)) {
    const Operand& only = low ? *low : *high;
    if (only.is_tensor()) return low ? maximum(input, only) : minimum(input, only);
  }
  CHECK(dtypes::Real.has(dtype), NotImplementedError, "\"clamp\" not implemented for '{}'",
        dtype_legacy_name(dtype));
  const Device device = input.device();
  const Tensor x = to(input, dtype);
  const Tensor lower = bound(low, dtype, device, true), upper = bound(high, dtype, device, false);
  const bool by_numbers = !(low && low->is_tensor()) && !(high && high->is_tensor());
  Tensor out = place_of_result(x, {&lower, &upper}, dtype);
  if (!out.defined() && by_numbers && x.is_contiguous())
    out = make_tensor(x.sizes(), dtype, device);
  if (!out.defined() && !(low && high) && !by_numbers) {  // a missing bound has no say in strides
    TensorIter pair;
    const Operand given[] = {x, low ? lower : upper};
    pair.build({"clamp"}, &out, &dtype, 1, given, 2, dtype);
  }
  TensorIter iter;
  const Operand inputs[] = {x, lower, upper};
  iter.build({"clamp"}, &out, &dtype, 1, inputs, 3, dtype);
  kernels::clamp(device.type, iter);
  if (Record r{op, out, {x, lower, upper}}) {
    const auto bounds = [low_end = r.save(lower), high_end = r.save(upper),
                         has_low = low != nullptr, has_high = high != nullptr,
                         are_numbers = !(low && low->is_tensor()) && !(high && high->is_tensor())] {
      return ClampBounds{low_end(), high_end(), has_low, has_high, are_numbers};
    };
    const Saved at = r.save(x);
    r.wrt(0, [at, bounds](const Tensor& g) { return bounds().share_of_input(g, at()); });
    r.wrt(1, [at, bounds](const Tensor& g) { return bounds().share_of_lower(g, at()); });
    r.wrt(2, [at, bounds](const Tensor& g) { return bounds().share_of_upper(g, at()); });
  }
  return out;
}

Tensor clamp_tensors(const Tensor& input, const Tensor& min, const Tensor& max) {
  const Operand low(min), high(max);
  return clamp_between("clamp", input, min.defined() ? &low : nullptr,
                       max.defined() ? &high : nullptr);
}
}  // namespace

Tensor clamp_min(const Tensor& input, const Operand& min) {
  REDIRECT(clamp_min, input, min)
  return clamp_between(min.is_tensor() ? "clamp_min.1" : "clamp_min", input, &min, nullptr);
}
static Tensor clamp_max(const Tensor& input, const Operand& max) {
  return clamp_between(max.is_tensor() ? "clamp_max.1" : "clamp_max", input, nullptr, &max);
}

Tensor clamp(const Tensor& input, const std::optional<Scalar>& min,
             const std::optional<Scalar>& max) {
  REDIRECT(clamp, input, min, max)
  const bool complex_bound = (min && min->is_complex()) || (max && max->is_complex());
  CHECK(input.is_complex() || !complex_bound, RuntimeError,
        "clamp: value cannot be converted to type double without overflow: a bound is complex");
  const Operand low(min.value_or(0)), high(max.value_or(0));
  return clamp_between("clamp.1", input, min ? &low : nullptr, max ? &high : nullptr);
}
// Tensors first: one without dimensions would pass for a number too.
OP_INPLACE(clamp_tensors, "clamp.Tensor(input, min=None, max=None)",
           "Each element moved into the range from min to max.", elementwise | casts_out)
OP_INPLACE(clamp, "clamp(input, min=None, max=None)",
           "Each element moved into the range from min to max.", elementwise)
OP_INPLACE(clamp_tensors, "clip(input, min=None, max=None)", "Another name of clamp.",
           elementwise | composed)
OP_INPLACE(clamp, "clip(input, min=None, max=None)", "Another name of clamp.",
           elementwise | composed)
OP_INPLACE(clamp_min, "clamp_min.Tensor/default(input, min)",
           "Each element, or min where that is larger.", elementwise)
OP_INPLACE(clamp_max, "clamp_max.Tensor/default(input, max)",
           "Each element, or max where that is smaller.", elementwise)

namespace {

// x + value * f(a, b) for the two fused forms.
using FusedSlot = Slot<void(const TensorIter& iter, const Scalar& value)>;
Tensor fused(const char* op, const FusedSlot& slot, const Tensor& x, const Tensor& a,
             const Tensor& b, const Scalar& value, Tensor& x_, Tensor& a_, Tensor& b_) {
  const Device device = common_device(op, {x, a, b});
  ResultType type;
  for (const Tensor* tensor : {&x, &a, &b}) type.add(*tensor);
  const DType dtype = type.get();
  check_number_fits(op, value, dtypes::Reduced.has(dtype) ? DType::float32 : dtype);
  x_ = cast_operand(x, dtype, device);
  a_ = cast_operand(a, dtype, device);
  b_ = cast_operand(b, dtype, device);
  Tensor out = place_of_result(x_, {&a_, &b_}, dtype);
  TensorIter iter;
  const Operand inputs[] = {x_, a_, b_};
  iter.build({op}, &out, &dtype, 1, inputs, 3, dtype);
  slot(device.type, iter, value);
  return out;
}

}  // namespace

Tensor addcmul(const Tensor& input, const Tensor& tensor1, const Tensor& tensor2,
               const Scalar& value) {
  REDIRECT(addcmul, input, tensor1, tensor2, value)
  const auto is_half = [](const Tensor& x) { return x.dtype() == DType::complex32; };
  if (is_half(input) && is_half(tensor1) && is_half(tensor2)) [[unlikely]] {
    const auto wide = [](const Tensor& x) { return to(x, DType::complex64); };
    return to(addcmul(wide(input), wide(tensor1), wide(tensor2), value), DType::complex32);
  }
  Tensor x, a, b;
  Tensor out = fused("addcmul", kernels::addcmul, input, tensor1, tensor2, value, x, a, b);
  if (Record r{"addcmul", out, {x, a, b}}) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(2, [a = r.save_for(2, a), value](const Tensor& g) { return mul_conj(g, a() * value); });
    r.wrt(1, [b = r.save_for(1, b), value](const Tensor& g) { return mul_conj(g, b() * value); });
  }
  return out;
}

namespace {

Tensor addcdiv(const Tensor& input, const Tensor& tensor1, const Tensor& tensor2,
               const Scalar& value) {
  CHECK(!is_integral(tensor1.dtype(), true) || !is_integral(tensor2.dtype(), true), RuntimeError,
        "Integer division with addcdiv is no longer supported; use floating tensors.");
  Tensor x, a, b;
  Tensor out = fused("addcdiv", kernels::addcdiv, input, tensor1, tensor2, value, x, a, b);
  if (Record r{"addcdiv", out, {x, a, b}}) {
    r.wrt(0, [](const Tensor& g) { return g; });
    const Saved kept_a = r.save_for(2, a);
    const Saved kept_b = r.wants(1) || r.wants(2) ? r.save(b) : Saved();
    r.wrt(1, [b = kept_b, value](const Tensor& g) { return mul_conj(g, reciprocal(b()) * value); });
    r.wrt(2, [a = kept_a, b = kept_b, value](const Tensor& g) {
      return mul_conj(-g, a() * value / (b() * b()));
    });
  }
  return out;
}

Tensor lerp(const Tensor& input, const Tensor& end, const Operand& weight) {
  CHECK(input.dtype() == end.dtype(), RuntimeError,
        "lerp: expected dtype {} for `end` but got dtype {}", input.dtype(), end.dtype());
  const DType dtype = input.dtype();
  // A weight without dimensions takes part as a number would.
  if (weight.is_tensor() && weight.tensor().dim() == 0 && weight.tensor().dtype() != dtype) {
    ResultType type;
    type.add(input);
    type.add(weight);
    const DType common = type.get();
    return lerp(to(input, common), to(end, common), to(weight.tensor(), common));
  }
  const Device device = common_device("lerp", {input, end, weight});
  CHECK(!weight.is_tensor() || weight.tensor().dtype() == dtype, RuntimeError,
        "lerp: expected dtype {} for `weight` but got dtype {}", dtype,
        weight.is_tensor() ? weight.tensor().dtype() : dtype);
  if (dtype == DType::complex32 && !device.is_cpu()) {
    const auto wide = [](const Tensor& x) { return to(x, DType::complex64); };
    const Tensor w = weight.is_tensor() ? wide(weight.tensor()) : Tensor();
    return to(lerp(wide(input), wide(end), w.defined() ? Operand(w) : weight), dtype);
  }
  CHECK(is_differentiable(dtype), NotImplementedError, "\"lerp\" not implemented for '{}'",
        dtype_legacy_name(dtype));
  if (!weight.is_tensor()) {
    check_number_fits("lerp", weight.scalar(), dtypes::Reduced.has(dtype) ? DType::float32 : dtype);
  }
  if (!weight.is_tensor() && weight.scalar().is_complex()) {
    return lerp(input, end, cast_operand(weight, dtype, device));
  }
  static const Tensor none;
  const Tensor& w = weight.is_tensor() ? weight.tensor() : none;
  Tensor out = place_of_result(input, {&end, &w}, dtype);
  TensorIter iter;
  const Operand inputs[] = {input, end, weight};
  iter.build({"lerp"}, &out, &dtype, 1, inputs, weight.is_tensor() ? 3 : 2, dtype);
  // A number is not rounded to the dtype of the tensors.
  kernels::lerp(device.type, iter, weight.is_tensor() ? nullptr : &weight.scalar());
  if (Record r{weight.is_tensor() ? "lerp.1" : "lerp", out, {input, end, w}}) {
    if (!weight.is_tensor()) {
      const auto number = weight.scalar().to<double>();
      r.wrt(0, [number](const Tensor& g) { return g * (1 - number); });
      r.wrt(1, [number](const Tensor& g) { return g * number; });
      return out;
    }
    const Saved kept_end = r.save_for(2, end), kept_input = r.save_for(2, input), part = r.save(w);
    r.wrt(0, [part](const Tensor& g) { return mul_conj(g, 1 - part()); });
    r.wrt(1, [part](const Tensor& g) { return mul_conj(g, part()); });
    r.wrt(2, [a = kept_input, b = kept_end](const Tensor& g) { return mul_conj(g, b() - a()); });
  }
  return out;
}

}  // namespace
OP_INPLACE(addcmul, "addcmul(input, tensor1, tensor2, *, value=1)",
           "input plus value times tensor1 times tensor2.",
           casts_out | numbers_first | elementwise | cuda_widest)
OP_INPLACE(addcdiv, "addcdiv(input, tensor1, tensor2, *, value=1)",
           "input plus value times tensor1 over tensor2.",
           casts_out | numbers_first | elementwise | cuda_widest)
OP_INPLACE(lerp, "lerp(input, end, weight)", "The point from input towards end that weight says.",
           casts_out | elementwise)

}  // namespace flambeau
