#include "flambeau/autograd/saved.h"

#include <algorithm>
#include <utility>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

thread_local const SavedHooks* saved_hooks = nullptr;
thread_local const WrittenView* written_view = nullptr;
thread_local std::vector<SavedShell>* saved_shells = nullptr;

namespace {

// Gives an output that was kept without its history that of the running node again.
void restore_history(const Tensor& result, uint32_t output) {
  if (written_view && written_view->node == running_node) {
    set_history(result, written_view->history.node, written_view->history.input);
  } else {
    set_history(result, NodePtr(running_node), output);
  }
}

}  // namespace

// A tensor that pack hooks took away, and how to get it back with its history.
struct Saved::Packed {
  std::shared_ptr<void> value;
  std::function<Tensor(const std::shared_ptr<void>&)> unpack;
  Edge history;
  bool requires_grad = false;
  GradMeta shape;  // of what was packed
  Saved meant;     // in place of a shell
};

namespace {

// Where find_saved collects what rules ask for.
thread_local std::vector<Saved*>* asked_for = nullptr;

}  // namespace

// Whether a tensor comes from a step of the graph, told without making a view's history anew.
static bool is_computed(const Tensor& tensor) {
  const AutogradMeta* meta = maybe_meta(tensor);
  if (meta && meta->grad_fn) return true;
  return tensor->view_base && Tensor(tensor->view_base).requires_grad();
}

Saved::Saved(const Tensor& tensor, bool is_output, Node* node) : is_output_(is_output) {
  if (!tensor.defined()) return;
  if (saved_shells && tensor.device().is_meta()) [[unlikely]] {
    if (node) node->has_saved();
    packed_ = std::make_shared<Packed>();
    packed_->shape = {tensor->sizes, tensor.dtype(), tensor.device()};
    saved_shells->push_back(
        {tensor, is_output, [at = packed_](Saved meant) { at->meant = std::move(meant); }});
    return;
  }
  CHECK(!(tensor->inference && grad_enabled() && !inference_mode()), RuntimeError,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`.");
  if (node) node->has_saved();
  version_ = tensor.version();
  if (is_output) {
    for (uint32_t i = 0; i < node->inputs.size(); ++i) {
      const AutogradMeta* meta = maybe_meta(tensor);
      if (meta && meta->grad_fn.get() == node) output_ = meta->output;
    }
  }
  // Hooks are not for the numbers among operands, which Python has never seen as tensors.
  const bool is_number = tensor.dim() == 0 && !tensor.requires_grad() && !tensor->python;
  // An output is kept without its history (which leads back here), but with its version counter.
  tensor_ = is_output ? detach_alias(tensor) : tensor;
  if (saved_hooks && (is_output || !is_number)) [[unlikely]] {
    pack(*saved_hooks);
    return;
  }
  had_node_ = !is_output && tensor.requires_grad() && is_computed(tensor);
}

void Saved::pack(const SavedHooks& hooks) {
  if (packed_ && packed_->meant.defined()) return packed_->meant.pack(hooks);
  const Tensor tensor = std::exchange(tensor_, Tensor());
  packed_ = std::make_shared<Packed>();
  packed_->unpack = hooks.unpack;
  packed_->shape = {tensor->sizes, tensor.dtype(), tensor.device()};
  packed_->requires_grad = !is_output_ && tensor.requires_grad();
  if (packed_->requires_grad) packed_->history = gradient_edge(tensor);
  const uint32_t before = tensor.version();
  // What the hook itself saves is not packed again. Inputs go to it as they are: it may treat
  // parameters differently.
  struct Restore {
    const SavedHooks* hooks = std::exchange(saved_hooks, nullptr);
    ~Restore() { saved_hooks = hooks; }
  } restore;
  packed_->value = hooks.pack(tensor);
  CHECK(tensor.version() == before, RuntimeError,
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
        "pack hook cannot be modified by in-place operations as this can lead to unexpected "
        "side-effects.");
}

// What rules are shown while they are only asked what they have saved: the tensor, but zeros where
// hooks hold it or somebody has written to it since. Nothing else would do: rules hold other
// tensors besides, which kernels read together with these.
Tensor Saved::stand_in() const {
  if (packed_ && packed_->meant.defined()) return packed_->meant.stand_in();
  if (!packed_ && (!tensor_.defined() || tensor_.version() == version_)) return tensor_;
  const GradMeta shape =
      packed_ ? packed_->shape : GradMeta{tensor_->sizes, tensor_.dtype(), tensor_.device()};
  return zero_(make_tensor(shape.sizes, shape.dtype, shape.device));
}

Tensor Saved::operator()() const {
  if (asked_for) [[unlikely]] {
    asked_for->push_back(const_cast<Saved*>(this));  // part of a closure, which is not const
    return stand_in();
  }
  if (packed_ && !packed_->unpack) [[unlikely]] {
    CHECK(packed_->meant.defined(), NotImplementedError,
          "backward needs a value between the steps of an op that a class has answered for");
    return packed_->meant();
  }
  if (packed_) {
    Tensor value = packed_->unpack(packed_->value);
    if (!is_output_ && !packed_->requires_grad) return value;
    Tensor result = detach_alias(value);
    if (is_output_) {
      restore_history(result, output_);
    } else {  // for a leaf this leads to the node that accumulates into it
      set_history(result, packed_->history.node, packed_->history.input);
    }
    return result;
  }
  if (!tensor_.defined()) return tensor_;
  const uint32_t now = tensor_.version();
  if (now != version_) [[unlikely]] {
    const char* writer = tensor_->version ? tensor_->version->writer.load() : nullptr;
    const AutogradMeta* meta = maybe_meta(tensor_);
    const NodePtr source = is_output_ ? NodePtr(running_node) : meta ? meta->grad_fn : nullptr;
    fail<RuntimeError>(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.{}{}Tensor {}]{} is at version {}; expected version {} instead. It was "
        "saved by {} and overwritten by {}. Hint: enable anomaly detection to find the operation "
        "that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
        tensor_.device().is_cuda() ? "cuda." : "", dtype_legacy_name(tensor_.dtype()),
        tensor_.sizes(),
        source ? format(", which is output {} of {},", is_output_ ? output_ : meta->output,
                        source->op_name())
               : std::string(","),
        now, version_, running_node ? running_node->name() : std::string("an op"),
        writer ? writer : "an in-place operation");
  }
  CHECK(!had_node_ || is_computed(tensor_), RuntimeError,
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This "
        "is not supported, please use out-of-place `.detach()` instead");
  if (!is_output_) return tensor_;
  Tensor result = detach_alias(tensor_);
  if (running_node && !running_node->released()) restore_history(result, output_);
  return result;
}

std::vector<Saved*> find_saved(Node& node) {
  std::vector<Saved*> found;
  const NoGrad off;
  struct Restore {
    std::vector<Saved*>* before;
    ~Restore() { asked_for = before; }
  } restore{std::exchange(asked_for, &found)};
  Grads in, out;
  for (const GradMeta& meta : node.inputs) {
    in.push_back(zero_(make_tensor(meta.sizes, meta.dtype, meta.device)));
  }
  try {
    node.apply(in, out);
  } catch (const Error&) {
    // A rule that does not like zeros stops here; what it asked for before has been found.
  }
  std::vector<Saved*> distinct;
  for (Saved* saved : found) {
    if (std::find(distinct.begin(), distinct.end(), saved) == distinct.end()) {
      distinct.push_back(saved);
    }
  }
  return distinct;
}

Tensor read_saved(Node& node, const Saved& saved) {
  struct Restore {
    Node* before;
    ~Restore() { running_node = before; }
  } restore{std::exchange(running_node, &node)};
  return saved();
}

}  // namespace flambeau
