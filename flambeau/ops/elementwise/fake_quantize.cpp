// Rounding to the grid of a quantized dtype without leaving floating point, as training for
// quantization does: the gradient passes where the value lies inside the grid.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/ops/op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

struct Grid {
  Tensor scale, zero;  // they broadcast with the input
  int64_t lowest, highest;
};

void check_fake_quantize(const Tensor& input, int64_t quant_min, int64_t quant_max,
                         const char* kernel) {
  CHECK(input.is_floating(), NotImplementedError, "\"{}\" not implemented for '{}'", kernel,
        dtype_legacy_name(input.dtype()));
  CHECK(quant_min <= quant_max, RuntimeError,
        "`quant_min` should be less than or equal to `quant_max`, got {} and {}.", quant_min,
        quant_max);
}

// Ties go to the even neighbour.
Tensor rounded(const Tensor& x) {
  const DType dtype = x.dtype();
  const Operand inputs[] = {x};
  Tensor out;
  TensorIter iter;
  iter.build({"round"}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::round(iter.device.type, iter, 0);
  return out;
}

Tensor onto(const Grid& grid, const char* op, const Tensor& input) {
  Tensor out, inside;
  {
    const NoGrad off;
    const DType dtype = input.dtype() == DType::float64 ? DType::float64 : DType::float32;
    const Tensor steps = to(input, dtype) * reciprocal(grid.scale);
    // A zero that is no integer is part of what is rounded.
    const Tensor place =
        grid.zero.is_floating() ? rounded(steps + grid.zero) : rounded(steps) + grid.zero;
    inside = (place >= Scalar(grid.lowest)) & (place <= Scalar(grid.highest));
    const Tensor known = where(isnan(place), Scalar(grid.lowest), place);
    const Tensor kept = clamp(known, Scalar(grid.lowest), Scalar(grid.highest));
    out = to((kept - grid.zero) * grid.scale, input.dtype());
  }
  if (Record r{op, out, {input}}) {
    r.wrt(0, [inside = r.save(inside)](const Tensor& g) { return g * inside(); });
  }
  return out;
}

constexpr const char* per_tensor_kernel = "fake_quantize_tensor_cachemask_kernel_type_handling";

Tensor per_tensor(const Tensor& input, double scale, int64_t zero_point, int64_t quant_min,
                  int64_t quant_max) {
  check_fake_quantize(input, quant_min, quant_max, per_tensor_kernel);
  CHECK(zero_point >= quant_min && zero_point <= quant_max, RuntimeError,
        "`zero_point` must be between `quant_min` and `quant_max`.");
  const Tensor step = full({}, Scalar(scale), {.dtype = DType::float32, .device = input.device()});
  const Tensor zero =
      full({}, Scalar(zero_point), {.dtype = DType::int64, .device = input.device()});
  return onto({step, zero, quant_min, quant_max}, "fake_quantize_per_tensor_affine_cachemask",
              input);
}
OP_FUNCTION(per_tensor,
            "fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)",
            "input on the grid of steps of scale around zero_point, of which there are as many as "
            "integers from quant_min to quant_max.",
            elementwise | cpu_exact | no_out)

Tensor per_tensor_of_tensors(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                             int64_t quant_min, int64_t quant_max) {
  check_fake_quantize(input, quant_min, quant_max, per_tensor_kernel);
  for (const Tensor& one : {scale, zero_point}) {
    CHECK(one.numel() == 1, RuntimeError, "a Tensor with {} elements cannot be converted to Scalar",
          one.numel());
    CHECK(!one.requires_grad(), RuntimeError,
          "The function 'fake_quantize_per_tensor_affine' is not differentiable with respect to "
          "argument '{}'. This input cannot have requires_grad True.",
          one.is_same(scale) ? "scale" : "zero_point");
  }
  const Tensor step = to(reshape(scale, {}), DType::float32);
  const Tensor zero = to(reshape(zero_point, {}), DType::int64);
  return onto({step, zero, quant_min, quant_max},
              "fake_quantize_per_tensor_affine_cachemask_tensor_qparams", input);
}
OP_FUNCTION(per_tensor_of_tensors,
            "fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)",
            "The same with scale and zero_point in tensors of one element.",
            elementwise | cpu_exact | no_out)

Tensor per_channel(const Tensor& input, const Tensor& scale, const Tensor& zero_point, int64_t axis,
                   int64_t quant_min, int64_t quant_max) {
  const DType kind = zero_point.dtype();
  CHECK(scale.dtype() == DType::float32 || scale.dtype() == DType::bfloat16, RuntimeError,
        "Scale must be Float or BFloat16, found {}", dtype_legacy_name(scale.dtype()));
  CHECK(kind == DType::int32 || zero_point.is_floating(), RuntimeError,
        "Zero-point must be Int32, Float or Half, found {}", dtype_legacy_name(kind));
  CHECK(scale.dim() == 1, RuntimeError, "scale should be a 1-D tensor, got {}", scale.sizes());
  CHECK(zero_point.dim() == 1, RuntimeError, "zero point should be a 1-D tensor, got {}",
        zero_point.sizes());
  CHECK(scale.numel() == zero_point.numel(), RuntimeError,
        "scale and zero-point need to have the same dimensions, got {} and {}", scale.sizes(),
        zero_point.sizes());
  CHECK(axis >= 0 || axis < -input.dim(), RuntimeError,
        "`axis` must be between 0 and number of dimensions of input, got {}", axis);
  wrap_dim(axis, input.dim());
  CHECK(scale.numel() == input.size(axis), RuntimeError,
        "dimensions of scale and zero-point are not consistent with input tensor: {} channels, "
        "size {} along axis {}",
        scale.numel(), input.size(axis), axis);
  check_fake_quantize(input, quant_min, quant_max,
                      "fake_quantize_channel_cachemask_cpu_type_handling");
  CHECK(kind != DType::int32 || zero_point.numel() == 0 || input.device().is_meta() ||
            (item(amin(zero_point, std::nullopt, false)).to_int() >= quant_min &&
             item(amax(zero_point, std::nullopt, false)).to_int() <= quant_max),
        RuntimeError, "`zero_point` must be between `quant_min` and `quant_max`.");
  Dims shape(static_cast<size_t>(input.dim()), 1);
  shape[static_cast<size_t>(axis)] = scale.numel();
  const Tensor step = to(reshape(scale, shape), DType::float32);
  return onto({step, reshape(zero_point, shape), quant_min, quant_max},
              "fake_quantize_per_channel_affine_cachemask", input);
}
OP_FUNCTION(
    per_channel,
    "fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max)",
    "fake_quantize_per_tensor_affine with a scale and a zero_point for each place along "
    "axis.",
    no_out)

}  // namespace
}  // namespace flambeau
