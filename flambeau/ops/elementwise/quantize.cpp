// The integers of quantized tensors, which Python puts together with what they stand for
// (flambeau/_quantized): it has checked scales and zero points.
#include "flambeau/kernels/quantize.h"

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

void check_integers(const char* op, DType dtype) {
  CHECK(kernels::quantized_dtypes.has(dtype), RuntimeError,
        "{}: expected integers of int8, uint8 or int32, got {}", op, dtype_name(dtype));
}

struct Scaling {
  Operand scale, zero;
};

Tensor quantized(const Tensor& input, const Scaling& by, DType dtype, bool unknown_is_last) {
  check_integers("_quantized", dtype);
  CHECK(input.dtype() == DType::float32, RuntimeError,
        "_quantized: Quantize only works on Float Tensor, got {}", dtype_name(input.dtype()));
  const Operand inputs[] = {input, by.scale, by.zero};
  Tensor out;
  TensorIter iter;
  iter.build({"_quantized"}, &out, &dtype, 1, inputs, 3, DType::float32);
  kernels::quantize(iter.device.type, iter, unknown_is_last);
  return out;
}

Tensor quantized_by_one(const Tensor& input, double scale, int64_t zero_point, DType dtype) {
  const auto inverse = static_cast<double>(1 / static_cast<float>(scale));
  return quantized(input, {inverse, static_cast<double>(zero_point)}, dtype, dtype != DType::int32);
}
OP_FUNCTION(quantized_by_one, "_quantized(input, scale, zero_point, dtype)",
            "The integers that stand for input by a scale and a zero point.")

// As float32, in a shape that broadcasts with the input.
Tensor along(const Tensor& input, int64_t axis, const Tensor& values) {
  CHECK(axis >= 0 && axis < input.dim() && values.dim() == 1 && values.numel() == input.size(axis),
        RuntimeError, "quantization by channels: {} values do not fit axis {} of shape {}",
        values.numel(), axis, input.sizes());
  Dims shape(static_cast<size_t>(input.dim()), 1);
  shape[static_cast<size_t>(axis)] = values.numel();
  return reshape(to(detach(values), DType::float32), shape);
}

Tensor quantized_by_channel(const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                            int64_t axis, DType dtype) {
  const NoGrad off;
  const Tensor inverse = reciprocal(along(input, axis, scales));
  const Tensor zeros = along(input, axis, zero_points);
  if (!zero_points.is_floating()) return quantized(input, {inverse, zeros}, dtype, false);
  // What is rounded then is the sum.
  return quantized(input * inverse + zeros, {1.0, 0.0}, dtype, false);
}
OP_FUNCTION(quantized_by_channel, "_quantized_by_channel(input, scales, zero_points, axis, dtype)",
            "The integers that stand for input by a scale and a zero point for each place along "
            "axis.")

Tensor dequantized(const Tensor& input, const Scaling& by, const int64_t* zero_point) {
  check_integers("_dequantized", input.dtype());
  const DType dtype = DType::float32;
  const Operand inputs[] = {input, by.scale, by.zero};
  Tensor out;
  TensorIter iter;
  iter.build({"_dequantized"}, &out, &dtype, 1, inputs, 3, dtype);
  kernels::dequantize(iter.device.type, iter, zero_point);
  return out;
}

Tensor dequantized_by_one(const Tensor& input, double scale, int64_t zero_point) {
  return dequantized(input, {scale, static_cast<double>(zero_point)}, &zero_point);
}
OP_FUNCTION(dequantized_by_one, "_dequantized(input, scale, zero_point)",
            "What integers stand for by a scale and a zero point.")

Tensor dequantized_by_channel(const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                              int64_t axis) {
  const NoGrad off;
  const Tensor steps = along(input, axis, scales), zeros = along(input, axis, zero_points);
  return dequantized(input, {steps, zeros}, nullptr);
}
OP_FUNCTION(dequantized_by_channel, "_dequantized_by_channel(input, scales, zero_points, axis)",
            "What integers stand for by a scale and a zero point for each place along axis.")

}  // namespace
}  // namespace flambeau
