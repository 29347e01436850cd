// Functions whose backward a user writes, in Python or C++: how their tensors enter the graph.
#pragma once

#include <vector>

#include "flambeau/autograd/node.h"
#include "flambeau/autograd/saved.h"

namespace flambeau {

// Says that saved tensors of a graph that ran already are gone.
[[noreturn]] void refuse_freed();

// What forward was given and what it said of it. Turns what it gave back into outputs of the node.
struct CustomCall {
  std::vector<Tensor> inputs, dirty, non_differentiable;
  NodePtr node;
  bool records = false;

  // Gives the node an edge for one more input.
  void connect(const Tensor& input);
  // Before the outputs are finished, one by one.
  void check_dirty(const std::vector<Tensor>& outputs) const;
  [[nodiscard]] Tensor finish(const Tensor& output) const;
  [[nodiscard]] bool is_input(const Tensor& tensor) const;
  [[nodiscard]] Saved save(const Tensor& tensor, const std::vector<Tensor>& results) const;

 private:
  [[nodiscard]] Tensor finish_dirty(const Tensor& output) const;
};

// Zeros for a gradient that did not come.
Tensor missing_gradient(const GradMeta& meta);
// Notes where forward was, in anomaly mode.
void note_forward(Node& node);

}  // namespace flambeau
