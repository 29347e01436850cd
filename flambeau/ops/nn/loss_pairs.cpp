// Losses that are a formula and a reduction: of pairs and triples of samples, and divergences.
#include <cmath>
#include <numbers>

#include "flambeau/ops/elementwise/chunked_sum.h"
#include "flambeau/ops/elementwise/compose.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/nn/loss.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
Tensor at_least_zero(const Tensor& x) { return clamp_min(x, 0); }

namespace {

Tensor kl_div(const Tensor& input, const Tensor& target, int64_t reduction, bool log_target) {
  CHECK(input.is_floating() && target.is_floating(), RuntimeError,
        "kl_div: expected floating point input and target, but got {} and {}", input.dtype(),
        target.dtype());
  constexpr int64_t batchmean = 3;
  if (reduction == batchmean) {
    const Tensor total = kl_div(input, target, 2, log_target);
    return input.dim() > 0 ? total / input.size(0) : total;
  }
  const bool adds_up = reduction == 1 || reduction == 2;
  if (adds_up && !log_target && sums_in_chunks(input, target)) {
    return sum_in_chunks(input, target, reduction == 1, [](const Chunk& p) {
      p.run(kernels::xlogy, {p.out, p.b, p.b});
      p.run(kernels::mul, {p.spare, p.b, p.a});
      p.run(kernels::sub, {p.out, p.out, p.spare});
    });
  }
  // Where the target is 0, target * log(target) is 0 and not nan.
  const Tensor loss = log_target ? exp(target) * (target - input)
                                 : target * log(where(target == 0, 1, target)) - target * input;
  return reduced(loss, reduction);
}
OP_FUNCTION(
    kl_div, "kl_div(input, target, reduction=0, *, log_target=False)",
    "The pointwise Kullback-Leibler divergence of target from exp(input); reduction may also be "
    "3, the sum over the size of the batch.",
    autocast_exact | no_out | composed)

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full,
                        double eps, int64_t reduction) {
  Tensor loss = log_input ? exp(input) - target * input : input - target * log(input + eps);
  if (full) {
    // Stirling's approximation of log(target!), used only where target > 1.
    const Tensor stirling =
        target * log(target) - target + log(target * (2 * std::numbers::pi)) * 0.5;
    loss = loss + masked_fill(stirling, target <= 1, 0.0);
  }
  return reduced(loss, reduction);
}
OP_FUNCTION(poisson_nll_loss, "poisson_nll_loss(input, target, log_input, full, eps, reduction)",
            "Negative log likelihood of a Poisson distribution with mean, or log mean, input.",
            autocast_exact | no_out | composed)

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            int64_t reduction) {
  // The margin is a number of the input's dtype, integers included, and so is the loss.
  const Tensor limit = fill_(empty_like(input), margin);
  const Tensor zero = zeros(IntSpan(), options_of(input));
  const Tensor apart = where(target == 1, zero, at_least_zero(limit - input));
  const Tensor together = where(target == -1, zero, input);
  return reduced(apart + together, reduction);
}
OP_FUNCTION(hinge_embedding_loss, "hinge_embedding_loss(input, target, margin=1.0, reduction=0)",
            "input where target is 1, max(0, margin - input) where it is -1.",
            autocast_exact | no_out | composed)

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, int64_t reduction) {
  return reduced(at_least_zero(-target * (input1 - input2) + margin), reduction);
}
OP_FUNCTION(margin_ranking_loss,
            "margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0)",
            "max(0, -target * (input1 - input2) + margin).", autocast_exact | no_out | composed)

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin, int64_t reduction) {
  const int64_t rank = target.dim();
  CHECK(rank == 0 || rank == 1, RuntimeError,
        "0D or 1D target tensor expected, multi-target not "
        "supported");
  CHECK(input1.dim() == rank + 1 && input2.dim() == rank + 1, RuntimeError,
        "{}D target tensor expects {}D input tensors, but found inputs with sizes {} and {}.", rank,
        rank + 1, input1.sizes(), input2.sizes());
  // The small constant keeps the gradient finite at the zero vector.
  constexpr double epsilon = 1e-12;
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b, IntSpan{-1}, false); };
  const Tensor squares = (dot(input1, input1) + epsilon) * (dot(input2, input2) + epsilon);
  const Tensor cosine = dot(input1, input2) / sqrt(squares);
  const Tensor together = where(target == 1, 1 - cosine, 0.0);
  const Tensor apart = where(target == -1, at_least_zero(cosine - margin), 0.0);
  return reduced(together + apart, reduction);
}
OP_FUNCTION(cosine_embedding_loss,
            "cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0)",
            "1 - cos where target is 1, max(0, cos - margin) where it is -1.",
            autocast_exact | no_out | composed)

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, int64_t reduction) {
  CHECK(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), RuntimeError,
        "The anchor, positive, and negative tensors are expected to have the same number of "
        "dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
        anchor.dim(), positive.dim(), negative.dim());
  CHECK(margin > 0, RuntimeError, "triplet_margin_loss: margin must be greater than 0, got {}",
        margin);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return linalg_vector_norm(a - b + eps, p, IntSpan{-1}, false);
  };
  Tensor to_negative = distance(anchor, negative);
  if (swap) to_negative = minimum(to_negative, distance(positive, negative));
  return reduced(at_least_zero(margin + distance(anchor, positive) - to_negative), reduction);
}
OP_FUNCTION(triplet_margin_loss,
            "triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, "
            "swap=False, reduction=0)",
            "max(0, |anchor - positive| - |anchor - negative| + margin), distances in the p-norm.",
            autocast_exact | no_out | composed)

}  // namespace
BATCH(poisson_nll_loss, batch_loss)
BATCH(kl_div, batch_loss)
BATCH(hinge_embedding_loss, batch_loss)
BATCH(margin_ranking_loss, batch_loss)

}  // namespace flambeau
