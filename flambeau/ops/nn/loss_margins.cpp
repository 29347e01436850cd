// Losses that are compositions: of margins between classes, of distributions, and with weights.
#include <cmath>
#include <numbers>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/compose.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/nn/loss.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// A loss that graphs show as one step.
Tensor shown(const char* step, const Tensor& loss, const Tensor& input) {
  const Tensor* inputs[] = {&input};
  show_as_step(step, loss, inputs, 1);
  return loss;
}

Tensor weighted_loss(const Tensor& loss, const Tensor& weight, int64_t reduction, bool average) {
  CHECK(weight.sizes() == loss.sizes(), ValueError, "Weights and input must have the same size.");
  const Tensor weighted = loss * weight;
  if (!average || check_reduction(reduction) != Reduction::mean)
    return reduced(weighted, reduction);
  const Tensor total = sum(weighted);
  return total / sum(weight);
}
OP_FUNCTION(weighted_loss, "_weighted_loss(loss, weight, reduction=1, average=True)",
            "Weighs an elementwise loss and reduces it; average: the mean is that of the weights.",
            composed | no_out)

// Of the variance: positive, and broadcast to the input, where it may lack the last dimension.
Tensor variance(const Tensor& input, const Operand& given) {
  constexpr const char* negative = "var has negative entry/entries";
  if (!given.is_tensor()) {
    CHECK(given.scalar().to_double() >= 0, ValueError, negative);
    return mul(ones_like(input), given);
  }
  const Tensor& var = given.tensor();
  CHECK(!is_nonzero(tensor_op("any", {var < 0})), ValueError, negative);
  if (var.sizes() == input.sizes()) return var;
  const IntSpan own = var.sizes(), wanted = input.sizes();
  if (!wanted.empty() && wanted.first(wanted.size() - 1) == own) return unsqueeze(var, -1);
  for (size_t i = 1; i <= std::min(own.size(), wanted.size()); ++i) {
    const int64_t size = own[own.size() - i];
    CHECK(size == 1 || size == wanted[wanted.size() - i], ValueError, "var is of incorrect size");
  }
  return var;
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Operand& var, bool full,
                         double eps, int64_t reduction) {
  const Tensor clamped = clone(variance(input, var));
  {
    const NoGrad off;
    tensor_op("clamp_", {clamped, eps});
  }
  const Tensor spread = log(clamped);
  const Tensor squares = pow(input - target, 2);
  Tensor loss = 0.5 * (spread + squares / clamped);
  if (full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(loss, reduction);
}
OP_FUNCTION(gaussian_nll_loss,
            "_gaussian_nll_loss(input, target, var, full=False, eps=1e-06, reduction=1)",
            "Negative log likelihood of a Gaussian with mean input and variance var.",
            composed | no_out)

// In the dtype of the input.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  CHECK(input.is_floating(), RuntimeError,
        "soft_margin_loss: result type Float can't be cast to the desired output type {}",
        input.dtype());
  const Tensor losses = log1p(exp(-input * target));
  CHECK(losses.sizes() == input.sizes(), RuntimeError,
        "soft_margin_loss: output with shape {} doesn't match the broadcast shape {}",
        input.sizes(), losses.sizes());
  return shown("soft_margin_loss", to(reduced(losses, reduction), input.dtype()), input);
}
OP_FUNCTION(soft_margin_loss, "_soft_margin_loss(input, target, reduction=1)",
            "log(1 + exp(-target * input)).", autocast_exact | composed | no_out)

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                                   int64_t reduction) {
  const Tensor is = target * log_sigmoid(input);
  const Tensor other = rsub(target, 1);
  Tensor loss = -(is + other * log_sigmoid(-input));
  if (weight.defined()) loss = loss * weight;
  const int64_t classes = input.dim() - 1;  // what it is broadcast to may have more dimensions
  return reduced(sum(loss, IntSpan(classes), false) / input.size(classes), reduction);
}
OP_FUNCTION(multilabel_soft_margin_loss,
            "_multilabel_soft_margin_loss(input, target, weight=None, reduction=1)",
            "The mean over classes of one-against-all logistic losses.", composed | no_out)

// Of one row of scores or a batch of them, as a batch.
Tensor scores_of(const char* op, const Tensor& input) {
  const bool known = input.dtype() == DType::float32 || input.dtype() == DType::float64;
  CHECK(known || !input.device().is_cpu(), NotImplementedError, "\"{}\" not implemented for {}", op,
        input.dtype());
  CHECK(input.dim() == 0 || (input.dim() <= 2 && input.size(-1) != 0), RuntimeError,
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
        input.sizes());
  return reshape(input, {-1, input.dim() ? input.size(-1) : 1});
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const Scalar& p,
                         const Scalar& margin, const Tensor& weight, int64_t reduction) {
  CHECK(p.to_double() == 1 || p.to_double() == 2, ValueError, "only p == 1 and p == 2 supported");
  CHECK(!weight.defined() || weight.dim() == 1, ValueError, "weight must be one-dimensional");
  const Tensor scores = scores_of("multi_margin_loss", input);
  const Tensor index = reshape(target, {-1, 1});
  CHECK(target.dim() <= 1 && index.size(0) == scores.size(0), RuntimeError,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
        "samples (batch size). Expected target size [{}], but got {}. Input has shape {}.",
        scores.size(0), target.sizes(), input.sizes());
  const Tensor gap = rsub(gather(scores, 1, index), margin);
  Tensor loss = at_least_zero(gap + scores);
  if (p.to_double() == 2) loss = loss * loss;
  if (weight.defined()) loss = loss * flambeau::index(weight, {index});
  loss = sum(scatter(loss, 1, index, 0.0), IntSpan{1}, false) / scores.size(1);
  return shown("multi_margin_loss", reduced(reshape(loss, target.sizes()), reduction), input);
}
OP_FUNCTION(multi_margin_loss,
            "_multi_margin_loss(input, target, p=1, margin=1, weight=None, reduction=1)",
            "The hinge loss between the score of the target class and every other.",
            autocast_exact | composed | no_out)

// Targets are class indices, of which those before the first -1 count.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  Tensor scores = scores_of("multilabel_margin_loss", input);
  CHECK(target.sizes() == input.sizes(), RuntimeError,
        "inconsistent target size: {} for input of size: {}", target.sizes(), input.sizes());
  CHECK(target.dtype() == DType::int64, RuntimeError, "expected scalar type Long but found {}",
        target.dtype());
  const Tensor labels = reshape(target, scores.sizes());
  const int64_t classes = scores.size(1);
  // Other devices find labels out of range where they gather by them, without being waited for.
  if (labels.device().is_cpu() && labels.numel() != 0) {
    const bool inside = item(tensor_op("min", {labels})).to_int() >= -1 &&
                        item(tensor_op("max", {labels})).to_int() < classes;
    CHECK(inside, RuntimeError, "argument #2 'target' is out of range");
  }
  const Tensor counts = to(cumprod(labels >= 0, 1), DType::bool_);
  const Tensor index = masked_fill(labels, bitwise_not(counts), 0);
  const Tensor named = zeros_like(labels);
  const Tensor is_target = scatter_add_(named, 1, index, to(counts, DType::int64)) > 0;
  const Tensor gap = rsub(unsqueeze(gather(scores, 1, index), 2), 1);
  const Tensor margins = at_least_zero(gap + unsqueeze(scores, 1));
  const Tensor counted = unsqueeze(counts, 2);
  const Tensor compared = counted & unsqueeze(bitwise_not(is_target), 1);
  const Tensor kept = masked_fill(margins, bitwise_not(compared), 0);
  const Tensor loss = sum(kept, IntSpan{1, 2}, false) / classes;
  const Tensor each = input.dim() == 2 ? loss : squeeze(loss, IntSpan{0});
  return shown("multilabel_margin_loss", reduced(each, reduction), input);
}
OP_FUNCTION(multilabel_margin_loss, "_multilabel_margin_loss(input, target, reduction=1)",
            "The hinge loss between every class that is a target and every one that is not.",
            autocast_exact | composed | no_out)

Tensor triplet_margin(const Tensor& to_positive, const Tensor& to_negative, const Tensor& between,
                      double margin, int64_t reduction) {
  const Tensor nearest = between.defined() ? minimum(to_negative, between) : to_negative;
  return reduced(at_least_zero(margin + to_positive - nearest), reduction);
}
OP_FUNCTION(triplet_margin,
            "_triplet_margin(to_positive, to_negative, between=None, margin=1.0, reduction=1)",
            "triplet_margin_loss of distances; between: from the positive to the negative.",
            composed | no_out)

}  // namespace
BATCH(soft_margin_loss, batch_loss)

}  // namespace flambeau
