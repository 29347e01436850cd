// The slots of pooling, normalization, losses and embedding.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// --- Pooling -------------------------------------------------------------------------------------

// One pooled dimension: which inputs each output looks at. Plain and adaptive pooling differ only
// in these tables.
struct PoolDim {
  int64_t in = 1, out = 1, step = 1;
  std::vector<int64_t> start{0}, end{1};  // of the window, clipped to the input
  std::vector<int64_t> extent{1};         // what the window counts for in an average
  // Where windows lie at equal distances: the first input of output i is i * stride - padding.
  bool regular = true;
  int64_t kernel = 1, stride = 1, padding = 0;
};
struct PoolGeometry {
  PoolDim dims[3];     // depth, height, width; unused ones have size 1
  double divisor = 0;  // instead of the product of the extents, unless 0
};

// --- Losses --------------------------------------------------------------------------------------

enum class Reduction : int64_t { none = 0, mean = 1, sum = 2 };

namespace kernels {

// x: (N, C, spatial...), contiguous or channels last, and results likewise. Indices count within
// the plane of a channel; an undefined one is not wanted.
SLOT(max_pool,
     void(const Tensor& x, const Tensor& out, const Tensor& indices, const PoolGeometry& geometry))
SLOT(max_pool_backward, void(const Tensor& grad, const Tensor& indices, const Tensor& grad_x,
                             const PoolGeometry& geometry))
// The elements that max_pool chose: the adjoint of max_pool_backward.
SLOT(max_pool_take, void(const Tensor& x, const Tensor& indices, const Tensor& out))
SLOT(avg_pool, void(const Tensor& x, const Tensor& out, const PoolGeometry& geometry))
SLOT(avg_pool_backward,
     void(const Tensor& grad, const Tensor& grad_x, const PoolGeometry& geometry))

// x: (N, C, spatial...), contiguous or channels last. Vectors of C are float32, or float64 for
// double.
SLOT(channel_stats, void(const Tensor& x, const Tensor& mean, const Tensor& var))  // biased
SLOT(channel_affine,
     void(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& out))
// Sums over all but the channels of g and of g * (x - mean).
SLOT(channel_sums, void(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& sum_g,
                        const Tensor& sum_gx))
// out = g * a + (x - mean) * b + c
SLOT(channel_backward, void(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& a,
                            const Tensor& b, const Tensor& c, const Tensor& out))

// What batch normalization computes of a channel's numbers, in one step on devices where each costs
// a launch. All are vectors of C; weight, bias and running statistics may be undefined, the latter
// move towards mean and var * unbiased by `momentum`.
//   invstd = 1 / sqrt(var + eps), scale = weight * invstd, shift = bias - mean * scale
SLOT(channel_numbers,
     void(const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias,
          const Tensor& running_mean, const Tensor& running_var, double momentum, double unbiased,
          double eps, const Tensor& invstd, const Tensor& scale, const Tensor& shift))
//   grad_weight = sum_gx * invstd, scale = weight * invstd,
//   slope = -scale * invstd * grad_weight / count, offset = -scale * sum_g / count
SLOT(channel_gradient_numbers, void(const Tensor& sum_g, const Tensor& sum_gx, const Tensor& invstd,
                                    const Tensor& weight, double count, const Tensor& grad_weight,
                                    const Tensor& scale, const Tensor& slope, const Tensor& offset))

// Rows of x normalized; weight and bias may be undefined. mean and rstd have one value a row; where
// mean is undefined, rows are divided by their root mean square as they are.
SLOT(layer_norm, void(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      const Tensor& out, const Tensor& mean, const Tensor& rstd))
// Undefined results are not wanted.
SLOT(layer_norm_backward, void(const Tensor& g, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd, const Tensor& grad_x,
                               const Tensor& grad_weight, const Tensor& grad_bias))

// log_probabilities: (N, C, D) contiguous; target: (N, D). For no reduction `out` is (N, D);
// otherwise a scalar, and total_weight receives the sum of the weights.
// Half the squared difference of two operands up to a limit, and from there on linear in it; on
// the CPU only.
SLOT(huber, void(const TensorIter& iter, double limit))
SLOT(nll_loss,
     void(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
          Reduction reduction, int64_t ignore_index, const Tensor& out, const Tensor& total_weight))
SLOT(nll_loss_backward,
     void(const Tensor& grad, const Tensor& target, const Tensor& weight, Reduction reduction,
          int64_t ignore_index, const Tensor& total_weight, const Tensor& grad_input))

// Cross-entropy of logits x: (N, C) against classes: (N). losses (N) are 0 in ignored rows;
// log_sums (N, 2) gets each row's greatest logit and log(sum(exp(x - it))). Of the chance that the
// class is wanted with, the part `smoothing` is spread over all classes.
SLOT(cross_entropy, void(const Tensor& x, const Tensor& target, int64_t ignore_index,
                         double smoothing, const Tensor& losses, const Tensor& log_sums))
// The sums of (a - b)**2 over chunks of so many neighbouring elements, the last one of those that
// are left, in the type that statistics of a have.
SLOT(squared_distances, void(const Tensor& a, const Tensor& b, int64_t chunk, const Tensor& totals))
// The mean of the losses of rows that are not ignored, and how many those are: one number each.
SLOT(mean_of_losses, void(const Tensor& losses, const Tensor& target, int64_t ignore_index,
                          const Tensor& out, const Tensor& count))
// grad_x = (softmax(x) - wanted) * scale / count, where wanted is one_hot(target), smoothed, and
// scale is (N) or one value for all rows; without a count nothing is divided.
SLOT(cross_entropy_backward,
     void(const Tensor& scale, const Tensor& count, const Tensor& x, const Tensor& log_sums,
          const Tensor& target, int64_t ignore_index, double smoothing, const Tensor& grad_x))

// Rows of weight by index; indices out of range raise IndexError.
SLOT(embedding, void(const Tensor& weight, const Tensor& indices, const Tensor& out))
// Adds rows of grad to a zeroed grad_weight, but for the padding row; divided by how often an index
// occurs if asked for.
SLOT(embedding_backward, void(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                              bool scale_by_frequency, const Tensor& grad_weight))

}  // namespace kernels
}  // namespace flambeau
