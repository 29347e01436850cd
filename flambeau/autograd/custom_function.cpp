#include "flambeau/autograd/custom_function.h"

#include <algorithm>

#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau {
namespace {

bool holds(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& other) { return other.defined() && other.is_same(tensor); });
}

}  // namespace

void refuse_freed() {
  fail<RuntimeError>(
      "Trying to backward through the graph a second time (or directly access saved tensors "
      "after they have already been freed). Saved intermediate values of the graph are freed "
      "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
      "backward through the graph a second time or if you need to access saved tensors after "
      "calling backward.");
}

void CustomCall::connect(const Tensor& input) {
  if (input.defined() && input.device().is_cuda()) node->stream = current_stream_id(input.device());
  node->edges.emplace_back(grad_enabled() && input.defined() ? gradient_edge(input) : Edge{});
  inputs.push_back(input);
}

bool CustomCall::is_input(const Tensor& tensor) const { return holds(inputs, tensor); }

void CustomCall::check_dirty(const std::vector<Tensor>& outputs) const {
  for (const Tensor& tensor : dirty) {
    CHECK(holds(outputs, tensor), RuntimeError,
          "Some elements marked as dirty during the forward method were not returned as output. "
          "The inputs that are modified inplace must all be outputs of the Function.");
  }
  for (const Tensor& tensor : dirty) {
    if (!is_input(tensor)) {
      warn(
          "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have "
          "been mutated should be passed to mark_dirty().");
    } else if (records) {
      check_inplace("a custom Function", tensor);
    }
  }
}

Tensor CustomCall::finish(const Tensor& output) const {
  const bool given = is_input(output);
  if (given && holds(dirty, output)) return finish_dirty(output);
  if (holds(non_differentiable, output)) {
    if (output.requires_grad()) return detach_alias(output);
    if (records) node->add_input(output);
    return output;
  }
  Tensor result = output;
  if (given && !records) return detach_alias(output);
  if (given) {
    // Returned as it came: the caller gets a view of it with this function's history.
    result = make_alias(output);
    mark_view(result, output, ViewOrigin::custom_function);
  } else if (output->view_base && grad_enabled()) {
    result->view_origin = ViewOrigin::custom_function;
  }
  if (records) {
    const uint32_t at = node->add_input(result);
    if (is_differentiable(result.dtype())) set_history(result, node, at);
  }
  return result;
}

Tensor CustomCall::finish_dirty(const Tensor& output) const {
  output.bump_version("a custom Function");
  if (!records) return output;
  set_grad(output, Tensor());  // it was that of other values
  node->add_input(output);
  if (output->view_base) {
    rebase_history(output, node);
  } else {
    set_history(output, node, static_cast<uint32_t>(node->inputs.size() - 1));
  }
  return output;
}

Saved CustomCall::save(const Tensor& tensor, const std::vector<Tensor>& results) const {
  Saved saved(tensor, records && holds(results, tensor), node.get());
  saved.allow_detached();
  return saved;
}

Tensor missing_gradient(const GradMeta& meta) {
  Options options;
  options.dtype = meta.dtype;
  options.device = meta.device;
  return zeros(meta.sizes, options);
}

void note_forward(Node& node) {
  if (!anomaly_mode.enabled) return;
  if (anomaly_mode.forward_trace) node.extras().forward_trace = anomaly_mode.forward_trace();
  node.extras().parent = NodePtr(running_node);
}

}  // namespace flambeau
