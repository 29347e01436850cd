#include "flambeau/autograd/meta.h"

#include <atomic>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/batched.h"

namespace flambeau {

AutogradMeta& autograd_meta(const Tensor& tensor) {
  if (!tensor->autograd) tensor->autograd = std::make_unique<AutogradMeta>();
  return *static_cast<AutogradMeta*>(tensor->autograd.get());
}

namespace {

// A view that was made before its base had a history, and has not been read since, counts as the
// leaf that it was.
bool counts_as_leaf(const Tensor& tensor) {
  const AutogradMeta* meta = maybe_meta(tensor);
  return !tensor.requires_grad() || !meta || !meta->grad_fn;
}

}  // namespace

bool is_leaf(const Tensor& tensor) { return !tensor.requires_grad() || !grad_fn(tensor); }

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  if (NodePtr node = grad_fn(tensor)) return {std::move(node), maybe_meta(tensor)->output};
  return {accumulator(tensor), 0};
}

const Tensor& grad(const Tensor& tensor) {
  static const Tensor none;
  const AutogradMeta* meta = maybe_meta(tensor);
  return meta ? meta->grad : none;
}

void set_grad(const Tensor& tensor, Tensor grad) {
  if (!grad.defined() && !tensor->autograd) return;
  autograd_meta(tensor).grad = std::move(grad);
}

void set_requires_grad(const Tensor& tensor, bool requires_grad) {
  CHECK(!requires_grad || !is_batched(tensor), RuntimeError,
        "You are attempting to call Tensor.requires_grad_() (or perhaps using "
        "torch.autograd.functional.* APIs) inside of a function being transformed by a functorch "
        "transform. This is unsupported, please attempt to use the functorch transforms (e.g. "
        "grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
        "transformed instead.");
  CHECK(!requires_grad || is_differentiable(tensor.dtype()), RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients, got {}",
        tensor.dtype());
  CHECK(!(requires_grad && tensor->inference && !inference_mode()), RuntimeError,
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  if (!counts_as_leaf(tensor)) {
    CHECK(
        requires_grad, RuntimeError,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed "
        "variable in a subgraph that doesn't require differentiation use "
        "var_no_grad = var.detach().");
    return;
  }
  // A leaf has its meta before threads share it.
  if (requires_grad) autograd_meta(tensor);
  tensor->requires_grad = requires_grad;
}

void set_history(const Tensor& result, const NodePtr& node, uint32_t output) {
  AutogradMeta& meta = autograd_meta(result);
  meta.grad_fn = node;
  meta.output = output;
  result->requires_grad = true;
  if (meta.retained_at) [[unlikely]]
    retain_grad(result);  // follows the tensor to its new node
  if (result->view_base) result->view_version = result.version();
}

Tensor detach_alias(const Tensor& tensor) { return make_alias(tensor); }

void retain_grad(const Tensor& tensor) {
  CHECK(tensor.requires_grad(), RuntimeError,
        "can't retain_grad on Tensor that has requires_grad=False");
  if (counts_as_leaf(tensor)) return;  // a leaf keeps its gradient anyway
  const NodePtr node = grad_fn(tensor);
  AutogradMeta& meta = autograd_meta(tensor);
  if (meta.retained_at == node) return;
  if (meta.retained_at) remove_node_hook(*meta.retained_at, meta.retain_key);
  meta.retained_at = node;
  meta.retain_key = next_hook_key();
  node->extras().retain_hooks.push_back(
      {meta.retain_key, meta.output, [&meta](const Tensor& incoming) {
         if (!incoming.defined()) return Tensor();
         const auto layout =
             incoming.is_sparse() ? MemoryFormat::preserve : MemoryFormat::contiguous;
         meta.grad = meta.grad.defined() ? meta.grad + incoming : clone(incoming, layout);
         return Tensor();
       }});
}

AutogradMeta::~AutogradMeta() {
  if (retained_at) remove_node_hook(*retained_at, retain_key);
}

void remove_node_hook(Node& node, uint64_t key) {
  NodeExtras* extras = node.maybe_extras();
  if (!extras) return;
  const auto has_key = [key](const auto& entry) { return entry.first == key; };
  std::erase_if(extras->tensor_hooks, [key](const auto& entry) { return entry.key == key; });
  std::erase_if(extras->retain_hooks, [key](const auto& entry) { return entry.key == key; });
  std::erase_if(extras->pre_hooks, has_key);
  std::erase_if(extras->post_hooks, has_key);
}

uint64_t next_hook_key() {
  static std::atomic<uint64_t> key{1};
  return key.fetch_add(1);
}

uint64_t add_hook(const Tensor& tensor, TensorHook hook) {
  CHECK(tensor.requires_grad(), RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient");
  const uint64_t key = next_hook_key();
  if (const NodePtr node = grad_fn(tensor)) {
    node->extras().tensor_hooks.push_back({key, maybe_meta(tensor)->output, std::move(hook)});
  } else {
    autograd_meta(tensor).hooks.emplace_back(key, std::move(hook));
  }
  return key;
}

void remove_hook(const Tensor& tensor, uint64_t key) {
  AutogradMeta* meta = maybe_meta(tensor);
  if (!meta) return;
  std::erase_if(meta->hooks, [&](const auto& entry) { return entry.first == key; });
  std::erase_if(meta->accumulate_hooks, [&](const auto& entry) { return entry.first == key; });
  if (meta->grad_fn) remove_node_hook(*meta->grad_fn, key);
}

uint64_t add_accumulate_hook(const Tensor& leaf, AccumulateHook hook) {
  CHECK(leaf.requires_grad(), RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient");
  CHECK(is_leaf(leaf), RuntimeError,
        "post accumulate grad hooks cannot be registered on non-leaf tensors");
  const uint64_t key = next_hook_key();
  autograd_meta(leaf).accumulate_hooks.emplace_back(key, std::move(hook));
  return key;
}

}  // namespace flambeau
