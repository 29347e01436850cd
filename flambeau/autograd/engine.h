// The engine: runs the graph backwards from some roots. Iterative, on the calling thread, without
// Python; several threads may run it at once, and rules may call it again.
#pragma once

#include <vector>

#include "flambeau/autograd/meta.h"

namespace flambeau {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;  // record the backward pass itself
  bool accumulate = true;     // into leaves' .grad; otherwise only `inputs` are returned
  bool allow_unused = false;
};

// Gradients of sum(roots * root_grads). With `inputs` empty, accumulates into every leaf. With
// inputs and accumulate, accumulates into these only. Otherwise returns one gradient per input,
// undefined where it was not reached.
std::vector<Tensor> run_backward(const std::vector<Edge>& roots, std::vector<Tensor> root_grads,
                                 const std::vector<Edge>& inputs, const BackwardOptions& options);

// Checks and fits a gradient to what its receiver expects: sums over broadcast dimensions, casts.
// `from` is the node that computed it, as its result number `index`; null for a root.
Tensor fit_gradient(const GradMeta& meta, Tensor grad, const Node* from, size_t index = 0);

// The number of the pass that runs on this thread, -1 outside of one; whether it will reach a node.
int64_t current_pass();
bool pass_will_run(const Node& node);
// Whether the pass that runs, if it was asked for some inputs only, needs the gradient there.
bool pass_needs(const Edge& edge);
// The same of an input of the node whose rule, one for all its inputs, runs.
inline bool rule_needs(size_t input) {
  return !running_node || pass_needs(running_node->edges[input]);
}
// Whether a pass runs that accumulates into every leaf it reaches.
bool pass_fills_all_leaves();

// Where the engine should look for a queue of callbacks to run when the current backward ends.
void queue_callback(std::function<void()> callback);

// Anomaly mode: nodes remember where forward made them; NaNs raise.
struct AnomalyMode {
  bool enabled = false;
  bool check_nan = true;
  std::string (*forward_trace)() = nullptr;      // set by the front end
  void (*report)(const Node& failed) = nullptr;  // tells the user where forward was
};
extern AnomalyMode anomaly_mode;

}  // namespace flambeau
