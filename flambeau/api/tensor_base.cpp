#include "flambeau/api/tensor_base.h"

#include "flambeau/autograd/engine.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"

namespace flambeau::torch {

bool TensorBase::is_leaf() const { return flambeau::is_leaf(*this); }

void TensorBase::backward(const OptionalTensor& gradient, std::optional<bool> retain_graph,
                          bool create_graph) const {
  CHECK(requires_grad(), RuntimeError,
        "element 0 of tensors does not require grad and does not have a grad_fn");
  CHECK(gradient.get().defined() || numel() == 1, RuntimeError,
        "grad can be implicitly created only for scalar outputs");
  CHECK(!gradient.get().defined() || gradient.get().sizes() == sizes(), RuntimeError,
        "Mismatch in shape: grad_output[0] has a shape of {} and output[0] has a shape of {}.",
        gradient.get().sizes(), sizes());
  BackwardOptions options;
  options.keep_graph = retain_graph.value_or(create_graph);
  options.create_graph = create_graph;
  flambeau::Tensor root = gradient.get().defined() ? gradient.get() : ones_like(*this);
  run_backward({gradient_edge(*this)}, {std::move(root)}, {}, options);
}

namespace detail {

flambeau::Tensor gradient_of(const flambeau::Tensor& tensor) { return flambeau::grad(tensor); }
void want_gradient(const flambeau::Tensor& tensor, bool wants) { set_requires_grad(tensor, wants); }

}  // namespace detail
}  // namespace flambeau::torch
