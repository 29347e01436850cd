// One direction of one recurrent layer, differentiable: what rnn.cpp computes and rnn_stack.cpp
// stacks; and stacks that are one op, of rnn_fused.cpp.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "flambeau/kernels/rnn.h"

namespace flambeau {

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

struct StackResults {
  Tensor output, h, c;
};

// The whole stack, by a device that can; otherwise nothing. x: (total, I); params: as the ops get
// them, in order. `again` runs the same stack in operations that can be differentiated twice.
using RunAgain = std::function<StackResults(const Tensor& x, const Tensor& h, const Tensor& c,
                                            const std::vector<Tensor>& params)>;
std::optional<StackResults> run_fused_stack(RnnStack stack, const Tensor& x, const Tensor& h,
                                            const Tensor& c, const std::vector<Tensor>& params,
                                            const RunAgain& again);

}  // namespace flambeau
