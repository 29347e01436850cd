#include "flambeau/nn/layers/adaptive.h"

#include <algorithm>
#include <cmath>
#include <ostream>

namespace flambeau::torch::nn {
namespace {

Tensor cluster(ModuleList tail, int64_t i, const Tensor& input) {
  return torch::log_softmax(tail->at<SequentialImpl>(static_cast<size_t>(i)).forward(input), 1);
}

}  // namespace

void AdaptiveLogSoftmaxWithLossImpl::reset() {
  cutoffs = options.cutoffs();
  CHECK(!cutoffs.empty(), ValueError, "cutoffs should be a sequence of length larger than 0");
  const bool sorted = std::ranges::adjacent_find(cutoffs, std::greater_equal<>()) == cutoffs.end();
  CHECK(sorted && cutoffs.front() > 0 && cutoffs.back() < options.n_classes(), ValueError,
        "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
        "where each value is between 1 and n_classes-1");
  cutoffs.push_back(options.n_classes());
  shortlist_size = cutoffs[0];
  n_clusters = static_cast<int64_t>(cutoffs.size()) - 1;
  head_size = shortlist_size + n_clusters;
  head = register_module(
      "head", Linear(LinearOptions(options.in_features(), head_size).bias(options.head_bias())));
  tail = register_module("tail", ModuleList());
  for (size_t i = 0; i + 1 < cutoffs.size(); ++i) {
    const double share = std::pow(options.div_value(), static_cast<double>(i + 1));
    const auto width =
        static_cast<int64_t>(std::floor(static_cast<double>(options.in_features()) / share));
    Sequential network;  // one after the other, as they draw
    network->push_back(Linear(LinearOptions(options.in_features(), width).bias(false)));
    network->push_back(Linear(LinearOptions(width, cutoffs[i + 1] - cutoffs[i]).bias(false)));
    tail->push_back(network);
  }
}

void AdaptiveLogSoftmaxWithLossImpl::reset_parameters() {
  head->reset_parameters();
  for (const auto& network : *tail)
    for (const auto& layer : network->children()) layer->as<Linear>()->reset_parameters();
}

ASMoutput AdaptiveLogSoftmaxWithLossImpl::forward(const Tensor& given, const Tensor& given_target) {
  const bool is_batch = given_target.dim() > 0;
  const Tensor input = is_batch ? given : given.unsqueeze(0);
  const Tensor target = is_batch ? given_target : given_target.unsqueeze(0);
  CHECK(target.dim() == 1, RuntimeError,
        "0D or 1D target tensor expected, multi-target not supported");
  CHECK(input.dim() == 2, RuntimeError,
        "{}D target tensor expects {}D input tensors, but found inputs with sizes {}.",
        given_target.dim(), given_target.dim() + 1, to_text(given.sizes()));
  CHECK(input.size(0) == target.size(0), RuntimeError,
        "Input and target should have the same size in the batch dimension.");
  if (target.numel() > 0) {
    const auto low = target.min().item<int64_t>(), high = target.max().item<int64_t>();
    CHECK(
        low >= 0 && high < options.n_classes(), RuntimeError,
        "Target values should be in [0, n_classes - 1], but values in range [{}, {}] were found. ",
        low, high);
  }
  const Tensor first = torch::log_softmax(head->forward(input), 1);
  // What the head must choose: a frequent class, or the cluster of a rare one.
  Tensor chosen = target, rare = torch::zeros_like(first.select(1, 0));
  for (int64_t i = 0; i < n_clusters; ++i) {
    const int64_t low = cutoffs[static_cast<size_t>(i)];
    const Tensor inside = (target >= low) & (target < cutoffs[static_cast<size_t>(i) + 1]);
    const Tensor rows = torch::argwhere(inside).select(1, 0);
    if (rows.numel() == 0) continue;
    chosen = chosen.masked_fill(inside, shortlist_size + i);
    const Tensor own = cluster(tail, i, input.index_select(0, rows));
    const Tensor column = (target.index_select(0, rows) - low).unsqueeze(1);
    rare = rare.index_copy(0, rows, own.gather(1, column).squeeze(1));
  }
  const Tensor output = rare + first.gather(1, chosen.unsqueeze(1)).squeeze(1);
  const auto loss = (-output).mean().item<double>();
  return {is_batch ? output : output.squeeze(0), loss};
}

Tensor AdaptiveLogSoftmaxWithLossImpl::log_prob(const Tensor& input) {
  const Tensor first = torch::log_softmax(head->forward(input), 1);
  std::vector<Tensor> parts{first.narrow(1, 0, shortlist_size)};
  for (int64_t i = 0; i < n_clusters; ++i)
    parts.push_back(cluster(tail, i, input) + first.narrow(1, shortlist_size + i, 1));
  return torch::cat(parts, 1);
}
Tensor AdaptiveLogSoftmaxWithLossImpl::predict(const Tensor& input) {
  return log_prob(input).argmax(1);
}

void AdaptiveLogSoftmaxWithLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveLogSoftmaxWithLoss";
}

}  // namespace flambeau::torch::nn
