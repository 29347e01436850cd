// One direction of one recurrent layer, differentiable: what rnn.cpp computes and rnn_stack.cpp
// stacks.
#pragma once

#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

struct CellWeights {
  Tensor w_ih, w_hh, b_ih, b_hh;  // biases may be undefined
  Tensor w_hr;                    // of an LSTM that projects its state, otherwise undefined
};
struct CellState {
  Tensor h, c;  // c of an LSTM only
};

// Sequences of a batch side by side: step t has the rows [starts[t], starts[t] + counts[t]) of the
// data, of sequences 0 .. counts[t] - 1. Counts never grow, so longer sequences come first.
struct Steps {
  std::vector<int64_t> counts, starts;
  static Steps equal(int64_t steps, int64_t batch);
  static Steps packed(const Tensor& batch_sizes);
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(counts.size()); }
  [[nodiscard]] int64_t total() const;
};

// x: (total, I). The outputs of all steps, and the state after each sequence's last step.
std::tuple<Tensor, CellState> run_recurrence(Cell cell, const Tensor& x, const CellState& start,
                                             const CellWeights& weights, const Steps& steps,
                                             bool reverse);

}  // namespace flambeau
