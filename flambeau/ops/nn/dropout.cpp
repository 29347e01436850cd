// Dropout in its forms: elementwise, by feature (whole channels), and the alpha form that keeps the
// mean and variance of self-normalizing networks.
#include <cmath>
#include <tuple>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/nn/dropout.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// The negative saturation value of selu: what alpha dropout drops to.
constexpr double selu_floor = 1.7580993408473766;

void check_probability(double p) {
  CHECK(p >= 0 && p <= 1, RuntimeError, "dropout probability has to be between 0 and 1, but got {}",
        p);
}

// Whether anything is left to do: nothing is dropped, or there is nothing to drop from.
bool is_identity(const Tensor& input, double p, bool train) {
  return p == 0 || !train || input.numel() == 0;
}

// One value per channel of a batch, to be broadcast over the rest.
Tensor feature_noise(const Tensor& input) {
  CHECK(input.dim() >= 2, RuntimeError,
        "Feature dropout requires at least 2 dimensions in the input, but it has shape {}",
        input.sizes());
  Dims size(input.dim(), 1);
  size[0] = input.size(0);
  size[1] = input.size(1);
  return make_tensor(size, to_real(input.dtype()), input.device());
}

Tensor element_noise(const Tensor& input) { return empty_like(input, to_real(input.dtype())); }

// What dropout multiplies by: 1 / (1 - p) with probability 1 - p, else 0.
Tensor dropout_factor(const Tensor& input, double p, bool features) {
  Tensor noise = features ? feature_noise(input) : element_noise(input);
  const DType dtype = noise.dtype();
  CHECK(is_floating(dtype), RuntimeError,
        "dropout: result type Float can't be cast to the desired output type {}",
        dtype_legacy_name(dtype));
  const double hit = dtype == DType::float64
                         ? 1.0 / (1.0 - p)
                         : static_cast<double>(1.0f / static_cast<float>(1.0 - p));
  draw_bernoulli(noise, 1.0 - p, nullptr, hit);
  return noise;
}

// Alpha dropout is input * factor + shift.
std::tuple<Tensor, Tensor> alpha_noise(const Tensor& input, double p, bool features) {
  const Tensor noise = features ? feature_noise(input) : element_noise(input);
  draw_bernoulli(noise, 1.0 - p, nullptr);
  const double a = 1.0 / std::sqrt((selu_floor * selu_floor * p + 1.0) * (1.0 - p));
  Tensor shift = noise + -1.0;
  mul_(shift, selu_floor * a);
  add_(shift, selu_floor * a * p);
  mul_(noise, a);
  return {noise, shift};
}

// Whether the device has dropout in one pass.
bool has_fused_dropout(const Tensor& input) {
  return input.is_floating() && kernels::dropout.filled(input.device_type());
}

// In one pass, unless it is to be differentiated again.
Tensor drop_gradient(const Tensor& g, const Tensor& kept, double scale) {
  if (grad_enabled() && g.requires_grad()) return g * kept * scale;
  const DType dtype = g.dtype();
  const Operand inputs[] = {g, kept};
  Tensor out;
  TensorIter iter;
  iter.build({"native_dropout"}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::dropout_backward(g.device_type(), iter, scale);
  return out;
}

// The result and the mask of what was kept; p is neither 0 nor 1.
std::tuple<Tensor, Tensor> drop_fused(const Tensor& input, double p, bool in_sequence = false) {
  Tensor result, mask;
  {
    const NoGrad off;
    const bool is_dense = is_non_overlapping_and_dense(input.sizes(), input.strides());
    const Tensor x = is_dense ? input : contiguous(input);
    result = empty_like(x);
    mask = empty_like(x, DType::bool_);
    const DropOrder order = in_sequence ? DropOrder::sequence
                            : is_dense  ? DropOrder::neighbours
                                        : DropOrder::one_by_one;
    with_generator(result, nullptr, [&](Generator& generator) {
      kernels::dropout(x.device_type(), x, 1.0 - p, result, mask, order, generator);
    });
    if (!is_dense) {  // drawn in the order of indices, but laid out like the input
      result = copy_(empty_like(input), result);
      mask = copy_(empty_like(input, DType::bool_), mask);
    }
  }
  if (Record r{"native_dropout", result, {input}}) {
    r.wrt(0, [kept = r.save(mask), scale = 1.0 / (1.0 - p)](const Tensor& g) {
      return drop_gradient(g, kept(), scale);
    });
  }
  return {result, mask};
}

Tensor drop(const Tensor& input, double p, bool train, bool features) {
  check_probability(p);
  if (is_identity(input, p, train)) return input;
  if (p == 1) return mul(input, zeros({}, options_of(input)));
  if (!features && has_fused_dropout(input)) return std::get<0>(drop_fused(input, p));
  return mul(input, dropout_factor(input, p, features));
}

Tensor drop_(const Tensor& self, double p, bool train, bool features) {
  check_probability(p);
  if (is_identity(self, p, train)) return self;
  if (p == 1) return mul_(self, zeros({}, options_of(self)));
  return mul_(self, dropout_factor(self, p, features));
}

Tensor alpha_drop(const Tensor& input, double p, bool train, bool features) {
  check_probability(p);
  if (is_identity(input, p, train)) return input;
  if (p == 1) return mul(input, zeros({}, options_of(input)));
  const auto [factor, shift] = alpha_noise(input, p, features);
  return add(mul(input, factor), shift);
}

Tensor alpha_drop_(const Tensor& self, double p, bool train, bool features) {
  check_probability(p);
  if (is_identity(self, p, train)) return self;
  if (p == 1) return mul_(self, zeros({}, options_of(self)));
  const auto [factor, shift] = alpha_noise(self, p, features);
  return add_(mul_(self, factor), shift);
}

}  // namespace

Tensor dropout(const Tensor& input, double p, bool train) {
  REDIRECT(dropout, input, p, train)
  return drop(input, p, train, false);
}

Tensor dropout_of_weights(const Tensor& weights, double p) {
  return std::get<0>(drop_fused(weights, p, true));
}

namespace {

OP_FUNCTION(dropout, "dropout(input, p, train)",
            "Zeroes elements with probability p and scales the others by 1 / (1 - p).",
            draws | takes_nested | takes_jagged | no_out | composed)
Tensor dropout_(const Tensor& self, double p, bool train) { return drop_(self, p, train, false); }
OP_FUNCTION(dropout_, "dropout_(input, p, train)", "dropout in place.",
            draws | takes_nested | takes_jagged)

Tensor feature_dropout(const Tensor& input, double p, bool train) {
  return drop(input, p, train, true);
}
OP_FUNCTION(feature_dropout, "feature_dropout(input, p, train)",
            "Zeroes whole channels with probability p and scales the others by 1 / (1 - p).",
            draws | no_out)
Tensor feature_dropout_(const Tensor& self, double p, bool train) {
  return drop_(self, p, train, true);
}
OP_FUNCTION(feature_dropout_, "feature_dropout_(input, p, train)", "feature_dropout in place.",
            draws)

Tensor alpha_dropout(const Tensor& input, double p, bool train) {
  return alpha_drop(input, p, train, false);
}
OP_FUNCTION(alpha_dropout, "alpha_dropout(input, p, train)",
            "Dropout to selu's negative limit, keeping zero mean and unit variance.",
            draws | takes_nested | takes_jagged | no_out)
Tensor alpha_dropout_(const Tensor& self, double p, bool train) {
  return alpha_drop_(self, p, train, false);
}
OP_FUNCTION(alpha_dropout_, "alpha_dropout_(input, p, train)", "alpha_dropout in place.",
            draws | takes_jagged)

Tensor feature_alpha_dropout(const Tensor& input, double p, bool train) {
  return alpha_drop(input, p, train, true);
}
OP_FUNCTION(feature_alpha_dropout, "feature_alpha_dropout(input, p, train)",
            "alpha_dropout of whole channels.", draws | takes_nested | takes_jagged | no_out)
Tensor feature_alpha_dropout_(const Tensor& self, double p, bool train) {
  return alpha_drop_(self, p, train, true);
}
OP_FUNCTION(feature_alpha_dropout_, "feature_alpha_dropout_(input, p, train)",
            "feature_alpha_dropout in place.", draws | takes_jagged)

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  check_probability(p);
  if (input.numel() == 0) return {input, empty_like(input, DType::bool_)};
  const bool drops = train.value_or(true);
  if (drops && p > 0 && p < 1 && has_fused_dropout(input)) return drop_fused(input, p);
  const double scale = !drops ? 1.0 : p == 1 ? 0.0 : 1.0 / (1.0 - p);
  Tensor mask, result;
  {
    const NoGrad off;
    if (drops) {
      mask = empty_like(input, DType::bool_);
      draw_bernoulli(mask, 1.0 - p, nullptr);
      result = mul(input, mask);
      mul_(result, scale);
    } else {
      mask = ones_like(input, DType::bool_);
      result = clone(input);
    }
  }
  if (Record r{"native_dropout", {result, mask}, {input}}) {
    r.all([kept = r.save(mask), scale](Grads& in, Grads& out) {
      if (in[0].defined()) out[0] = in[0] * kept() * scale;
    });
  }
  return {result, mask};
}
OP_FUNCTION(native_dropout, "native_dropout(input, p, train)",
            "dropout, and the mask of the elements that were kept.", draws | takes_jagged | no_out)

// What PyTorch makes of it.
Tensor dropout_steps(const Tensor& input, double p, bool train) {
  if (is_identity(input, p, train)) return input;
  return call_op("native_dropout", {input, p, train}).tensors.at(0);
}
STEPS(dropout, dropout_steps)

}  // namespace
}  // namespace flambeau
