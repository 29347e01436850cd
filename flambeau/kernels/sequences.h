// The slots of bags of embeddings and of the connectionist temporal loss.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

enum class BagMode : int64_t { sum = 0, mean = 1, max = 2 };

// The labels of all samples, where each sample's begin, and how long everything is.
struct CtcTargets {
  std::vector<int64_t> labels, starts, lengths, input_lengths;
  int64_t blank = 0;
};

namespace kernels {

// Rows of weight named by indices, sums, means or maxima of those in a bag. bounds: (bags + 1),
// int64. bag_of: (indices); bag_size: (bags), without padding. sample_weights may be undefined;
// chosen: (bags, width), of maxima only, -1 for empty bags.
SLOT(embedding_bag,
     void(const Tensor& weight, const Tensor& indices, const Tensor& bounds,
          const Tensor& sample_weights, BagMode mode, int64_t padding_idx, const Tensor& out,
          const Tensor& bag_of, const Tensor& bag_size, const Tensor& chosen))

// x: log-probabilities (T, N, C) contiguous. losses: (N); log_alpha: (N, T, 2 S + 1), the
// logarithms of the probabilities of all beginnings.
SLOT(ctc_loss, void(const Tensor& x, const CtcTargets& targets, const Tensor& losses,
                    const Tensor& log_alpha))
// Fills grad_x, from zeros, with the gradient by the inputs of the softmax that x comes from.
SLOT(ctc_loss_backward,
     void(const Tensor& grad, const Tensor& x, const CtcTargets& targets, const Tensor& losses,
          const Tensor& log_alpha, const Tensor& grad_x, bool zero_infinity))

}  // namespace kernels
}  // namespace flambeau
