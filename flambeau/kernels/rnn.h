// The slots of recurrent networks: what a step of a cell does beside its matrix products, and,
// where a device has them, whole stacks of layers. Tensors are contiguous; those of steps are
// matrices with one row a sequence.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

// A stack of layers over sequences side by side: step t has counts[t] rows, which never grow.
struct RnnStack {
  Cell cell = Cell::lstm;
  int64_t layers = 1, directions = 1;
  int64_t input = 0, hidden = 0, projected = 0;  // projected: 0, or the width of the output
  bool has_biases = true;
  double dropout = 0;              // between layers
  Generator* generator = nullptr;  // where there is dropout; its mutex is held
  bool keep = false;               // what the backward pass needs
  std::vector<int64_t> counts;

  [[nodiscard]] int64_t width() const { return projected ? projected : hidden; }
};

// What a stack's forward pass leaves to its backward pass.
struct RnnKept {
  Tensor reserve, random_state;
  bool spent = false;  // the backward pass uses it up
};

namespace kernels {

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

// The weights of a stack in one block of memory: where each begins, in the order of the op's list
// of them, and how long it is. No offsets where the device has no such stacks.
SLOT(rnn_layout,
     void(const RnnStack& stack, const Tensor& x, std::vector<int64_t>& offsets, int64_t& length))
// x: (rows, input), y: (rows, directions * width); h: (layers * directions, sequences, width) and c
// the same of width `hidden`, of an LSTM only.
SLOT(rnn_stack, void(const RnnStack& stack, const Tensor& x, const Tensor& h, const Tensor& c,
                     const Tensor& weights, const Tensor& y, const Tensor& h_end,
                     const Tensor& c_end, RnnKept& kept))
// Gradients of the ends may be undefined; so may grad_weights, if it is not wanted.
SLOT(rnn_stack_backward,
     void(const RnnStack& stack, const Tensor& x, const Tensor& h, const Tensor& c,
          const Tensor& weights, const Tensor& y, const Tensor& grad_y, const Tensor& grad_h_end,
          const Tensor& grad_c_end, RnnKept& kept, const Tensor& grad_x, const Tensor& grad_h,
          const Tensor& grad_c, const Tensor& grad_weights))

}  // namespace kernels
}  // namespace flambeau
