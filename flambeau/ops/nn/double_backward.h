// Second derivatives of ops whose backward pass is a kernel: the gradients of the same function
// written in differentiable operations.
#pragma once

#include <vector>

#include "flambeau/autograd/engine.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

// Writes to `out` the gradients of function(inputs) by each input, given those of its results in
// `grads`; undefined inputs, results and gradients are left out. The gradients have history.
template <class Function>
void double_backward_gradients(std::vector<Tensor> inputs, const Grads& grads, Grads& out,
                               const Function& function) {
  std::vector<Edge> edges, roots;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    // An alias, so that a gradient stops at an input even where one input is made of another.
    inputs[i] = alias(inputs[i]);
    if (!inputs[i].requires_grad()) continue;
    edges.push_back(gradient_edge(inputs[i]));
    positions.push_back(i);
  }
  const std::vector<Tensor> results = function(inputs);
  std::vector<Tensor> root_grads;
  for (size_t i = 0; i < grads.size() && i < results.size(); ++i) {
    if (!grads[i].defined() || !results[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(gradient_edge(results[i]));
    root_grads.push_back(grads[i]);
  }
  BackwardOptions options;
  options.keep_graph = options.create_graph = options.allow_unused = true;
  options.accumulate = false;
  const auto found = run_backward(roots, std::move(root_grads), edges, options);
  for (size_t i = 0; i < positions.size(); ++i) out[positions[i]] = found[i];
}

}  // namespace flambeau
