// What autograd hangs on a tensor: its gradient, or the node it came from, and its hooks.
#pragma once

#include <optional>
#include <vector>

#include "flambeau/autograd/node.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

struct AutogradMeta final : AutogradBase {
  Tensor grad;
  std::optional<DType> grad_dtype;  // of the gradient, where it is not the tensor's
  bool any_grad_dtype = false;
  NodePtr grad_fn;
  uint32_t output = 0;  // which result of grad_fn
  // Of a view that sizes and strides do not describe (it changes the dtype): how to take it from
  // its base again.
  std::function<Tensor(const Tensor& base)> replay;
  // retain_grad(): a hook on `retained_at` that writes our gradient. It knows us by a bare pointer
  // and is taken off when we die.
  NodePtr retained_at;
  uint64_t retain_key = 0;
  ~AutogradMeta() override;
  Node* accumulator = nullptr;                         // weak; guarded by a lock in node.cpp
  std::vector<std::pair<uint64_t, TensorHook>> hooks;  // of a leaf, until it has an accumulator
  std::vector<std::pair<uint64_t, AccumulateHook>> accumulate_hooks;
};

AutogradMeta& autograd_meta(const Tensor& tensor);  // makes it
inline AutogradMeta* maybe_meta(const Tensor& tensor) {
  return static_cast<AutogradMeta*>(tensor->autograd.get());
}

// The node a tensor came from, none for a leaf. For a view this first takes in what writes through
// other views have done to the base.
NodePtr grad_fn(const Tensor& tensor);
bool is_leaf(const Tensor& tensor);
// Where gradients of this tensor go; empty if it needs none.
Edge gradient_edge(const Tensor& tensor);
const Tensor& grad(const Tensor& tensor);
void set_grad(const Tensor& tensor, Tensor grad);
// The dtype of a leaf's gradient: the leaf's own unless another one was set; none: whatever comes.
std::optional<DType> grad_dtype(const Tensor& tensor);
void set_grad_dtype(const Tensor& leaf, std::optional<DType> dtype);
void set_requires_grad(const Tensor& tensor, bool requires_grad);
void retain_grad(const Tensor& tensor);

// Declares `result` to be output number `output` of `node`.
void set_history(const Tensor& result, const NodePtr& node, uint32_t output);

// A handle on the same values without history; shares the version counter.
Tensor detach_alias(const Tensor& tensor);
// Marks `view` as a differentiable view of `base` (or of what `base` is a view of).
void mark_view(const Tensor& view, const Tensor& base, ViewOrigin origin = ViewOrigin::normal,
               std::function<Tensor(const Tensor& base)> replay = nullptr);
// The same window on another tensor of the base's shape.
Tensor take_view(const Tensor& view, const Tensor& base);

// Raises unless a recorded write to `tensor` is allowed (leaves, views of leaves, outputs of
// unbind and the like, no_grad views). Before the kernel. `records` says that the write will be
// recorded even if `tensor` itself wants no gradient, because something written into it does.
void check_inplace(const char* op, const Tensor& tensor, bool records = false);
// After the kernel: `tensor` now is output 0 of `node`, whose edge 0 was its old history. If it
// is a view, the write is entered into its base's history.
void rebase_history(const Tensor& tensor, const NodePtr& node);

uint64_t add_hook(const Tensor& tensor, TensorHook hook);
void remove_hook(const Tensor& tensor, uint64_t key);
uint64_t add_accumulate_hook(const Tensor& leaf, AccumulateHook hook);
uint64_t next_hook_key();
void remove_node_hook(Node& node, uint64_t key);  // of any kind

}  // namespace flambeau
