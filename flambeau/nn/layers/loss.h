// Losses: each is one op, whose reduction is a word: none, mean or sum.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {
namespace detail {

using reduction_t = std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>;
using kl_div_reduction_t =
    std::variant<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
template <class T, class Words>
concept WordOf = std::convertible_to<T, Words> && requires {
  std::remove_cvref_t<T>::word;
};

}  // namespace detail

#define FLAMBEAU_REDUCTION_OF(words) \
 public:                             \
  using reduction_t = words;         \
  FLAMBEAU_OPTION(reduction_t, reduction) = kMean
#define FLAMBEAU_REDUCTION FLAMBEAU_REDUCTION_OF(detail::reduction_t)
// MSELossOptions(kSum), too.
#define FLAMBEAU_REDUCTION_FIRST(Class, words)                  \
  Class() = default;                                            \
  template <detail::WordOf<words> Word>                         \
  Class(Word reduction) : reduction_(reduction) {} /* NOLINT */ \
  FLAMBEAU_REDUCTION_OF(words)

struct L1LossOptions {
  FLAMBEAU_REDUCTION_FIRST(L1LossOptions, detail::reduction_t);
};
using MSELossOptions = L1LossOptions;
using SoftMarginLossOptions = L1LossOptions;
using MultiLabelMarginLossOptions = L1LossOptions;

struct SmoothL1LossOptions {
  FLAMBEAU_REDUCTION_FIRST(SmoothL1LossOptions, detail::reduction_t);
  FLAMBEAU_OPTION(std::optional<double>, beta) = {};
};
struct HuberLossOptions {
  FLAMBEAU_REDUCTION_FIRST(HuberLossOptions, detail::reduction_t);
  FLAMBEAU_OPTION(double, delta) = 1.0;
};
struct KLDivLossOptions {
  FLAMBEAU_REDUCTION_FIRST(KLDivLossOptions, detail::kl_div_reduction_t);
  FLAMBEAU_OPTION(bool, log_target) = false;
};
struct BCELossOptions {
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_REDUCTION;
};
using MultiLabelSoftMarginLossOptions = BCELossOptions;
struct BCEWithLogitsLossOptions {
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_REDUCTION;
  FLAMBEAU_OPTION(Tensor, pos_weight) = {};
};
struct NLLLossOptions {
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(int64_t, ignore_index) = -100;
  FLAMBEAU_REDUCTION;
};
struct CrossEntropyLossOptions {
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(int64_t, ignore_index) = -100;
  FLAMBEAU_REDUCTION;
  FLAMBEAU_OPTION(double, label_smoothing) = 0.0;
};
struct PoissonNLLLossOptions {
  FLAMBEAU_OPTION(bool, log_input) = true;
  FLAMBEAU_OPTION(bool, full) = false;
  FLAMBEAU_OPTION(double, eps) = 1e-8;
  FLAMBEAU_REDUCTION;
};
struct GaussianNLLLossOptions {
  FLAMBEAU_OPTION(bool, full) = false;
  FLAMBEAU_OPTION(double, eps) = 1e-6;
  FLAMBEAU_REDUCTION;
};
struct HingeEmbeddingLossOptions {
  FLAMBEAU_OPTION(double, margin) = 1.0;
  FLAMBEAU_REDUCTION;
};
struct CosineEmbeddingLossOptions {
  FLAMBEAU_OPTION(double, margin) = 0.0;
  FLAMBEAU_REDUCTION;
};
using MarginRankingLossOptions = CosineEmbeddingLossOptions;
struct MultiMarginLossOptions {
  FLAMBEAU_OPTION(int64_t, p) = 1;
  FLAMBEAU_OPTION(double, margin) = 1.0;
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_REDUCTION;
};
struct TripletMarginLossOptions {
  FLAMBEAU_OPTION(double, margin) = 1.0;
  FLAMBEAU_OPTION(double, p) = 2.0;
  FLAMBEAU_OPTION(double, eps) = 1e-6;
  FLAMBEAU_OPTION(bool, swap) = false;
  FLAMBEAU_REDUCTION;
};
struct TripletMarginWithDistanceLossOptions {
  using distance_function_t = std::function<Tensor(const Tensor&, const Tensor&)>;
  FLAMBEAU_OPTION(std::optional<distance_function_t>, distance_function) = {};
  FLAMBEAU_OPTION(double, margin) = 1.0;
  FLAMBEAU_OPTION(bool, swap) = false;
  FLAMBEAU_REDUCTION;
};
struct CTCLossOptions {
  FLAMBEAU_OPTION(int64_t, blank) = 0;
  FLAMBEAU_REDUCTION;
  FLAMBEAU_OPTION(bool, zero_infinity) = false;
};

namespace functional {

using KLDivFuncOptions = KLDivLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options = {});
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyFuncOptions& options = {});
Tensor binary_cross_entropy_with_logits(
    const Tensor& input, const Tensor& target,
    const BinaryCrossEntropyWithLogitsFuncOptions& options = {});
Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossFuncOptions& options = {});
Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const CrossEntropyFuncOptions& options = {});
Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossFuncOptions& options = {});
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const MultilabelMarginLossFuncOptions& options = {});
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginLossFuncOptions& options = {});
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options,
                      double beta);

}  // namespace functional

#define FLAMBEAU_PAIR_LOSS(Name, function) \
  FLAMBEAU_FUNCTION_LAYER(Name, function, = {}, const Tensor& input, const Tensor& target)
FLAMBEAU_PAIR_LOSS(L1Loss, l1_loss);
FLAMBEAU_PAIR_LOSS(MSELoss, mse_loss);
FLAMBEAU_PAIR_LOSS(SmoothL1Loss, smooth_l1_loss);
FLAMBEAU_PAIR_LOSS(HuberLoss, huber_loss);
FLAMBEAU_LAYER(KLDivLoss, const Tensor& input, const Tensor& target);
FLAMBEAU_PAIR_LOSS(PoissonNLLLoss, poisson_nll_loss);
FLAMBEAU_FUNCTION_LAYER(GaussianNLLLoss, gaussian_nll_loss, = {}, const Tensor& input,
                        const Tensor& target, const Tensor& var);
FLAMBEAU_PAIR_LOSS(HingeEmbeddingLoss, hinge_embedding_loss);
FLAMBEAU_LAYER(MultiLabelMarginLoss, const Tensor& input, const Tensor& target);
FLAMBEAU_PAIR_LOSS(SoftMarginLoss, soft_margin_loss);
#undef FLAMBEAU_PAIR_LOSS
FLAMBEAU_FUNCTION_LAYER(CosineEmbeddingLoss, cosine_embedding_loss, = {}, const Tensor& input1,
                        const Tensor& input2, const Tensor& target);
FLAMBEAU_FUNCTION_LAYER(MarginRankingLoss, margin_ranking_loss, = {}, const Tensor& input1,
                        const Tensor& input2, const Tensor& target);
FLAMBEAU_FUNCTION_LAYER(TripletMarginLoss, triplet_margin_loss, = {}, const Tensor& anchor,
                        const Tensor& positive, const Tensor& negative);
FLAMBEAU_FUNCTION_LAYER(TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss, = {},
                        const Tensor& anchor, const Tensor& positive, const Tensor& negative);
FLAMBEAU_FUNCTION_LAYER(CTCLoss, ctc_loss, = {}, const Tensor& log_probs, const Tensor& targets,
                        const Tensor& input_lengths, const Tensor& target_lengths);

// Those with weights of classes or samples keep them as buffers.
#define FLAMBEAU_WEIGHTED_LOSS(Name)                                                     \
  FLAMBEAU_RESET_LAYER(Name, Name##Options, (const Tensor& input, const Tensor& target), \
                       Tensor weight;                                                    \
                       Tensor pos_weight;)
FLAMBEAU_WEIGHTED_LOSS(BCELoss);
FLAMBEAU_WEIGHTED_LOSS(BCEWithLogitsLoss);
FLAMBEAU_WEIGHTED_LOSS(NLLLoss);
FLAMBEAU_WEIGHTED_LOSS(CrossEntropyLoss);
FLAMBEAU_WEIGHTED_LOSS(MultiMarginLoss);
FLAMBEAU_WEIGHTED_LOSS(MultiLabelSoftMarginLoss);
#undef FLAMBEAU_WEIGHTED_LOSS

}  // namespace flambeau::torch::nn
