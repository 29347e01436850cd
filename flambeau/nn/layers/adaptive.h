// AdaptiveLogSoftmaxWithLoss: a softmax over many classes of which few are frequent. The head
// decides among frequent classes and clusters of rare ones; a cluster has a narrower network.
#pragma once

#include <vector>

#include "flambeau/nn/containers.h"
#include "flambeau/nn/layers/linear.h"

namespace flambeau::torch::nn {

struct ASMoutput {
  ASMoutput(Tensor output, double loss) : output(std::move(output)), loss(loss) {}
  Tensor output;  // the log-probability of each target
  double loss;
};

struct AdaptiveLogSoftmaxWithLossOptions {
  AdaptiveLogSoftmaxWithLossOptions(int64_t in_features, int64_t n_classes,
                                    std::vector<int64_t> cutoffs)
      : in_features_(in_features), n_classes_(n_classes), cutoffs_(std::move(cutoffs)) {}
  FLAMBEAU_OPTION(int64_t, in_features);
  FLAMBEAU_OPTION(int64_t, n_classes);
  FLAMBEAU_OPTION(std::vector<int64_t>, cutoffs);
  FLAMBEAU_OPTION(double, div_value) = 4.;
  FLAMBEAU_OPTION(bool, head_bias) = false;
};

class AdaptiveLogSoftmaxWithLossImpl : public Cloneable<AdaptiveLogSoftmaxWithLossImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(AdaptiveLogSoftmaxWithLossImpl, AdaptiveLogSoftmaxWithLossOptions);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  ASMoutput forward(const Tensor& input, const Tensor& target);
  // The log-probabilities of all classes, and the most probable class of each row.
  Tensor log_prob(const Tensor& input);
  Tensor predict(const Tensor& input);

  std::vector<int64_t> cutoffs;  // and the number of classes behind them
  int64_t shortlist_size = 0, n_clusters = 0, head_size = 0;
  Linear head = nullptr;
  ModuleList tail;
};
TORCH_MODULE(AdaptiveLogSoftmaxWithLoss);

}  // namespace flambeau::torch::nn
