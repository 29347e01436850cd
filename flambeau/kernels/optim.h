// The slots of fused optimizer steps: all parameters of a group in one call. Tensors of one index
// are dense, of one dtype and lie alike; `factor` undoes a loss scale, and gradients are negated by
// it to maximize.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

struct SgdStep {
  double lr, momentum, dampening, weight_decay, factor;
  bool nesterov;
  bool first;  // the buffers hold nothing yet
};

struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay, factor;
  bool decoupled;  // weight decay as in AdamW
  // Numbers that lie on the device and are read there; undefined otherwise. The scale divides the
  // factor; where an infinity was found nothing happens.
  Tensor lr_tensor{}, grad_scale{}, found_inf{};
};

namespace kernels {
using Tensors = std::vector<Tensor>;
SLOT(sgd_step,
     void(const Tensors& params, const Tensors& grads, const Tensors& buffers, const SgdStep& step))
// max_squares is empty unless AMSGrad is wanted; counts are the numbers of this step. Counts that
// lie on the device, in float32, are counted up there instead.
SLOT(adam_step,
     void(const Tensors& params, const Tensors& grads, const Tensors& averages,
          const Tensors& squares, const Tensors& max_squares, const std::vector<double>& counts,
          const Tensors& device_counts, const AdamStep& step))
// Multiplies dense gradients by one number and writes 1 to another where any of them is not finite;
// both are float32 and lie on the device. Devices without it do that tensor by tensor.
SLOT(unscale, void(const Tensors& grads, const Tensor& found_inf, const Tensor& factor))
}  // namespace kernels

}  // namespace flambeau
