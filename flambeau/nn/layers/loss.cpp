#include "flambeau/nn/layers/loss.h"

#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace functional {

#define REDUCTION enumtype::reduction_get_enum(options.reduction())
#define PAIR_LOSS(function, Options, ...)                                              \
  Tensor function(const Tensor& input, const Tensor& target, const Options& options) { \
    return torch::__VA_ARGS__;                                                         \
  }

PAIR_LOSS(l1_loss, L1LossFuncOptions, l1_loss(input, target, REDUCTION))
PAIR_LOSS(mse_loss, MSELossFuncOptions, mse_loss(input, target, REDUCTION))
PAIR_LOSS(smooth_l1_loss, SmoothL1LossFuncOptions,
          smooth_l1_loss(input, target, REDUCTION, options.beta().value_or(1.0)))
PAIR_LOSS(huber_loss, HuberLossFuncOptions, huber_loss(input, target, REDUCTION, options.delta()))
PAIR_LOSS(binary_cross_entropy, BinaryCrossEntropyFuncOptions,
          binary_cross_entropy(input, target, options.weight(), REDUCTION))
PAIR_LOSS(binary_cross_entropy_with_logits, BinaryCrossEntropyWithLogitsFuncOptions,
          binary_cross_entropy_with_logits(input, target, options.weight(), options.pos_weight(),
                                           REDUCTION))
PAIR_LOSS(nll_loss, NLLLossFuncOptions,
          nll_loss_nd(input, target, options.weight(), REDUCTION, options.ignore_index()))
PAIR_LOSS(cross_entropy, CrossEntropyFuncOptions,
          cross_entropy_loss(input, target, options.weight(), REDUCTION, options.ignore_index(),
                             options.label_smoothing()))
PAIR_LOSS(poisson_nll_loss, PoissonNLLLossFuncOptions,
          poisson_nll_loss(input, target, options.log_input(), options.full(), options.eps(),
                           REDUCTION))
PAIR_LOSS(hinge_embedding_loss, HingeEmbeddingLossFuncOptions,
          hinge_embedding_loss(input, target, options.margin(), REDUCTION))
PAIR_LOSS(multi_margin_loss, MultiMarginLossFuncOptions,
          _multi_margin_loss(input, target, options.p(), options.margin(), options.weight(),
                             REDUCTION))
PAIR_LOSS(multilabel_margin_loss, MultilabelMarginLossFuncOptions,
          _multilabel_margin_loss(input, target, REDUCTION))
PAIR_LOSS(multilabel_soft_margin_loss, MultilabelSoftMarginLossFuncOptions,
          _multilabel_soft_margin_loss(input, target, options.weight(), REDUCTION))
PAIR_LOSS(soft_margin_loss, SoftMarginLossFuncOptions, _soft_margin_loss(input, target, REDUCTION))

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options) {
  constexpr int64_t batch_mean = 3;  // the op's code for it
  const bool by_batch = std::holds_alternative<enumtype::kBatchMean>(options.reduction());
  return torch::kl_div(input, target, by_batch ? batch_mean : REDUCTION, options.log_target());
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossFuncOptions& options, double beta) {
  CHECK(!options.beta(), RuntimeError, "expected beta not to be provided in 'options', but got {}",
        *options.beta());
  return torch::smooth_l1_loss(input, target, REDUCTION, beta);
}
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLLossOptions& options) {
  return torch::_gaussian_nll_loss(input, target, var, options.full(), options.eps(), REDUCTION);
}
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossFuncOptions& options) {
  return torch::cosine_embedding_loss(input1, input2, target, options.margin(), REDUCTION);
}
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossFuncOptions& options) {
  CHECK(input1.dim() == input2.dim() && input1.dim() == target.dim(), RuntimeError,
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
        "{}, input2: {}, target: {} ",
        to_text(input1.sizes()), to_text(input2.sizes()), to_text(target.sizes()));
  return torch::margin_ranking_loss(input1, input2, target, options.margin(), REDUCTION);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options) {
  return torch::triplet_margin_loss(anchor, positive, negative, options.margin(), options.p(),
                                    options.eps(), options.swap(), REDUCTION);
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceLossFuncOptions& options) {
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return options.distance_function() ? (*options.distance_function())(a, b)
                                       : torch::pairwise_distance(a, b);
  };
  const Tensor to_positive = distance(anchor, positive), to_negative = distance(anchor, negative);
  return torch::_triplet_margin(to_positive, to_negative,
                                options.swap() ? distance(positive, negative) : Tensor(),
                                options.margin(), REDUCTION);
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options) {
  return torch::ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(),
                         REDUCTION, options.zero_infinity());
}

#undef PAIR_LOSS
#undef REDUCTION

}  // namespace functional

namespace {
std::string shown(const Tensor& weight) {
  return weight.defined() ? "Tensor of size " + to_text(weight.sizes()) : "[ Tensor (undefined) ]";
}
}  // namespace

// --- Layers --------------------------------------------------------------------------------------

#define TRIPLE_LAYER(Name, function, ...)                                         \
  Tensor Name##Impl::forward(const Tensor& a, const Tensor& b, const Tensor& c) { \
    return functional::function(a, b, c, options);                                \
  }                                                                               \
  SHOW(Name, __VA_ARGS__)
// With buffers, as options hold what was given at first, and no more where it is now.
#define WEIGHTED_LAYER(Name, function, ...)                                            \
  void Name##Impl::reset() { weight = register_buffer("weight", options.weight()); }   \
  Tensor Name##Impl::forward(const Tensor& input, const Tensor& target) {              \
    return functional::function(input, target, Name##Options(options).weight(weight)); \
  }                                                                                    \
  SHOW(Name, __VA_ARGS__)

PAIR_LAYER(L1Loss, l1_loss)
PAIR_LAYER(MSELoss, mse_loss)
PAIR_LAYER(KLDivLoss, kl_div)
PAIR_LAYER(PoissonNLLLoss, poisson_nll_loss)
PAIR_LAYER(HingeEmbeddingLoss, hinge_embedding_loss, OPTION(margin))
PAIR_LAYER(MultiLabelMarginLoss, multilabel_margin_loss)
PAIR_LAYER(SoftMarginLoss, soft_margin_loss)
TRIPLE_LAYER(GaussianNLLLoss, gaussian_nll_loss)
TRIPLE_LAYER(CosineEmbeddingLoss, cosine_embedding_loss, OPTION(margin))
TRIPLE_LAYER(MarginRankingLoss, margin_ranking_loss)
TRIPLE_LAYER(TripletMarginLoss, triplet_margin_loss,
             OPTION(margin) OPTION(p) OPTION(eps) OPTION(swap))
TRIPLE_LAYER(TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss,
             OPTION(margin) OPTION(swap))
WEIGHTED_LAYER(BCELoss, binary_cross_entropy)
WEIGHTED_LAYER(NLLLoss, nll_loss)
WEIGHTED_LAYER(CrossEntropyLoss, cross_entropy)
WEIGHTED_LAYER(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss)
WEIGHTED_LAYER(MultiMarginLoss, multi_margin_loss,
               OPTION(p) OPTION(margin)("weight", shown(options.weight()))(
                   "reduction", enumtype::get_enum_name(options.reduction())))

// These two are without parentheses in libtorch.
Tensor SmoothL1LossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::smooth_l1_loss(input, target, options);
}
void SmoothL1LossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::SmoothL1Loss";
}
Tensor HuberLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::huber_loss(input, target, options);
}
void HuberLossImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::HuberLoss"; }

void BCEWithLogitsLossImpl::reset() {
  weight = register_buffer("weight", options.weight());
  pos_weight = register_buffer("pos_weight", options.pos_weight());
}
Tensor BCEWithLogitsLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::binary_cross_entropy_with_logits(
      input, target, BCEWithLogitsLossOptions(options).weight(weight).pos_weight(pos_weight));
}
SHOW(BCEWithLogitsLoss)

Tensor CTCLossImpl::forward(const Tensor& log_probs, const Tensor& targets,
                            const Tensor& input_lengths, const Tensor& target_lengths) {
  return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}
SHOW(CTCLoss)

}  // namespace flambeau::torch::nn
