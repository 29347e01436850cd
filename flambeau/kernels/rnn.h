// The slots of recurrent cells: what a step does beside its matrix products. Tensors are contiguous
// matrices with one row a sequence.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

// gates: (b, 4 H) before activation in the order input, forget, cell, output; activated afterwards.
SLOT(lstm_step, void(const Tensor& gates, const Tensor& c_before, const Tensor& c, const Tensor& h))
// grad_c comes in as the gradient of c and leaves as that of c_before.
SLOT(lstm_step_backward, void(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                              const Tensor& grad_h, const Tensor& grad_c, const Tensor& grad_gates))

// gates: (b, 3 H), what the input gives reset, update and new; activated afterwards. hidden: what
// the state gives to the same.
SLOT(gru_step,
     void(const Tensor& gates, const Tensor& hidden, const Tensor& h_before, const Tensor& h))
// grad_h comes in as the gradient of h and leaves as that part of h_before's that passes by the
// gates.
SLOT(gru_step_backward,
     void(const Tensor& gates, const Tensor& hidden, const Tensor& h_before, const Tensor& grad_h,
          const Tensor& grad_gates, const Tensor& grad_hidden))

// h = tanh(gates) or relu(gates), and from its gradient that of the gates.
SLOT(rnn_step, void(const Tensor& gates, const Tensor& h, bool relu))
SLOT(rnn_step_backward,
     void(const Tensor& h, const Tensor& grad_h, const Tensor& grad_gates, bool relu))

}  // namespace flambeau::kernels
