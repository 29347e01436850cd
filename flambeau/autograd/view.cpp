// Views and writes: how a write through a view enters the history of its base, and how other
// views of that base learn of it.
//
// Note [Writes through views]
// A view shares memory with its base, so a recorded write to the view changes the base as well.
// The write gives the base a new node: its gradient flows unchanged outside the window, and
// through the write's own rule inside. Every view of the base notices by the version counter that
// its grad_fn is out of date, and takes itself from the base anew when somebody asks.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/saved.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/batched.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau {
namespace {

constexpr const char* leaf_is_written =
    "{}: a leaf Variable that requires grad is being used in an in-place operation.";

std::string source_of(const Tensor& view) {
  const AutogradMeta* meta = maybe_meta(view);
  if (!meta || !meta->grad_fn) return "This view";
  return format("Output {} of {}", meta->output, meta->grad_fn->op_name());
}

// How messages call a view that was made in a mode: one made outside of it, of one made inside,
// has a node.
std::string made_in_mode(const Tensor& view) {
  const AutogradMeta* meta = maybe_meta(view);
  if (!meta || !meta->grad_fn) return "A view was";
  return source_of(view) + " is a view of a view which was";
}

// Why a view of this origin cannot take part in a recorded write.
void check_origin(const Tensor& view, const char* what) {
  switch (view->view_origin) {
    case ViewOrigin::normal: return;
    case ViewOrigin::no_grad:
      fail<RuntimeError>(
          "{} created in no_grad mode and {} modified inplace with grad mode enabled. "
          "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
          "your code by moving both the view and the inplace either both inside the no_grad block "
          "(if you don't want the inplace to be tracked) or both outside (if you want the inplace "
          "to be tracked).",
          made_in_mode(view), what);
    case ViewOrigin::inference:
      fail<RuntimeError>(
          "{} created in inference mode and {} modified inplace in normal mode. Given that "
          "this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
          "by moving both the view and the inplace either both inside the inference_mode block (if "
          "you don't want the inplace to be tracked) or both outside (if you want the inplace to "
          "be tracked).",
          made_in_mode(view), what);
    case ViewOrigin::multiple_outputs:
      fail<RuntimeError>(
          "{} is a view and {} modified inplace. This view is the output of a function that "
          "returns "
          "multiple views. Such functions do not allow the output views to be modified inplace. "
          "You should replace the inplace operation by an out-of-place one.",
          source_of(view), what);
    case ViewOrigin::custom_function:
      fail<RuntimeError>(
          "{} is a view and {} modified inplace. This view was created inside a custom Function "
          "(or because an input was returned as-is); recording the write would override its custom "
          "backward and lead to incorrect gradients. This behavior is forbidden. You can fix this "
          "by cloning the output of the custom Function.",
          source_of(view), what);
  }
}

// Runs the node of a write into a view within that of its base, which is running. What the write
// has kept of its result belongs to the view's history, which comes from the base since.
template <class Window>
void apply_in_view(Node& node, const Window& window_on, const Tensor& like_base, Grads& in,
                   Grads& out) {
  // A custom function gets back what it saved as the output that it was.
  const bool custom = node.maybe_extras() && node.maybe_extras()->python_owner;
  const bool differentiable = grad_enabled() && !custom;
  WrittenView written{&node, {}};
  if (differentiable) {
    const Tensor base = detach_alias(like_base);
    set_history(base, NodePtr(running_node), 0);
    written.history = gradient_edge(window_on(base));
  }
  struct Restore {
    const WrittenView* outer;
    ~Restore() { written_view = outer; }
  } restore{std::exchange(written_view, differentiable ? &written : nullptr)};
  node.apply(in, out);
}

// Where the memory of a view's window ends, in bytes of the storage of its base.
size_t view_end(const Tensor& view) {
  if (view.numel() == 0) return 0;
  const int64_t elements = view.offset() + storage_extent(view.sizes(), view.strides());
  return static_cast<size_t>(elements) * view.item_size();
}

}  // namespace

Tensor take_view(const Tensor& view, const Tensor& base) {
  const AutogradMeta* meta = maybe_meta(view);
  if (meta && meta->replay) return meta->replay(base);
  return as_strided(base, view.sizes(), view.strides(),
                    view.offset() - view->view_base->offset + base.offset());
}

void mark_view(const Tensor& view, const Tensor& base, ViewOrigin origin,
               std::function<Tensor(const Tensor& base)> replay) {
  if (base->inference) return;
  const AutogradMeta* parent = maybe_meta(base);
  if (base->view_base && (replay || (parent && parent->replay))) {
    // From the root: first to the parent, then on.
    if (!replay) {
      replay = [sizes = view->sizes, strides = view->strides,
                shift = view.offset() - base.offset()](const Tensor& from) {
        return as_strided(from, sizes, strides, from.offset() + shift);
      };
    }
    std::function<Tensor(const Tensor&)> to_parent;
    if (parent && parent->replay) {
      to_parent = parent->replay;
    } else {
      to_parent = [sizes = base->sizes, strides = base->strides,
                   shift = base.offset() - base->view_base->offset](const Tensor& from) {
        return as_strided(from, sizes, strides, from.offset() + shift);
      };
    }
    replay = [to_parent = std::move(to_parent), step = std::move(replay)](const Tensor& from) {
      return step(to_parent(from));
    };
  }
  view->view_base = base->view_base ? base->view_base : base.ptr();
  if (!grad_enabled()) {
    origin = inference_mode() ? ViewOrigin::inference : ViewOrigin::no_grad;
  } else if (origin == ViewOrigin::normal && base->view_base) {
    origin = base->view_origin;  // a view of a marked view is marked too
  }
  view->view_origin = origin;
  view->view_version = view.version();
  if (replay) autograd_meta(view).replay = std::move(replay);
}

NodePtr grad_fn(const Tensor& tensor) {
  AutogradMeta* meta = maybe_meta(tensor);
  if (!tensor->view_base) return meta ? meta->grad_fn : nullptr;
  const Tensor base(tensor->view_base);
  const bool has_node = meta && meta->grad_fn;
  if (!has_node && !base.requires_grad()) return nullptr;
  if (tensor->view_version != tensor.version()) {
    check_origin(tensor, "its base or another view of its base has been");
    AutogradMeta& own = autograd_meta(tensor);
    // A view that was given other memory may not fit into its base any more.
    const bool fits = own.replay || view_end(tensor) <= base.storage()->bytes();
    if (base.requires_grad() && fits) {
      const GradGuard grad_on(true);
      const Tensor fresh = take_view(tensor, base);
      const AutogradMeta* taken = maybe_meta(fresh);
      own.grad_fn = taken->grad_fn;
      own.output = taken->output;
    } else {  // it was cut off from its history since: what is there now came from nowhere
      own.grad_fn = make_intrusive<Node>("as_strided");
      own.grad_fn->stream = current_stream_id(tensor.device());
      own.output = own.grad_fn->add_input(tensor);
    }
    tensor->view_version = tensor.version();
    if (own.retained_at) retain_grad(tensor);  // follows the tensor to its new node
    return own.grad_fn;
  }
  return has_node ? meta->grad_fn : nullptr;
}

void check_inplace(const char* op, const Tensor& tensor, bool records) {
  if (!grad_enabled()) return;
  if (tensor->view_base) {
    const Tensor base(tensor->view_base);
    if (tensor.requires_grad() || records) {
      check_origin(tensor, "is being");
      CHECK(!(tensor.requires_grad() && is_leaf(base)), RuntimeError,
            "{}: a view of a leaf Variable that requires grad is being used in an in-place "
            "operation.",
            op);
      // A view that was made before its base had a history, and has not been read since, counts as
      // the leaf that it was.
      const AutogradMeta* meta = maybe_meta(tensor);
      CHECK(!tensor.requires_grad() || (meta && meta->grad_fn), RuntimeError, leaf_is_written, op);
    }
    return;
  }
  const bool forbidden = tensor.requires_grad() && is_leaf(tensor);
  if (forbidden && is_batched(tensor)) refuse_sparse(op, tensor);  // the history is behind it
  CHECK(!forbidden, RuntimeError, leaf_is_written, op);
}

void rebase_history(const Tensor& tensor, const NodePtr& node) {
  if (!tensor->view_base) {
    set_history(tensor, node, 0);
    return;
  }
  check_origin(tensor, "is being");
  const Tensor base(tensor->view_base);
  // Into the base: the gradient passes through `node` inside the window.
  NodePtr through = make_intrusive<Node>("copy_slices");
  through->stream = node->stream;
  through->has_saved();  // the write itself, for one pass
  through->add_input(base);
  through->edges.push_back(gradient_edge(base));
  for (size_t i = 1; i < node->edges.size(); ++i) through->edges.push_back(node->edges[i]);
  // Only the view's geometry is captured, in a tensor without data, so that nothing owns itself.
  Tensor window(make_intrusive<TensorImpl>());
  window->sizes = tensor->sizes;
  window->strides = tensor->strides;
  window->offset = tensor->offset - base->offset;
  std::function<Tensor(const Tensor&)> replay;
  if (const AutogradMeta* meta = maybe_meta(tensor)) replay = meta->replay;
  through->set_whole_rule(
      [window, replay, node, sizes = base->sizes, strides = base->strides](Grads& in, Grads& out) {
        if (!in[0].defined()) return;
        Tensor whole = make_strided(sizes, strides, in[0].dtype(), in[0].device());
        copy_(whole, in[0]);
        const auto window_on = [&](const Tensor& base) {
          return replay ? replay(base)
                        : as_strided(base, window.sizes(), window.strides(), window.offset());
        };
        const Tensor slice = window_on(whole);
        Grads inner_in, inner_out;
        inner_in.push_back(clone(slice));
        apply_in_view(*node, window_on, whole, inner_in, inner_out);
        if (inner_out[0].defined()) {
          copy_(slice, inner_out[0]);
        } else {
          zero_(slice);
        }
        if (out.size() != inner_out.size()) out.resize(inner_out.size());
        out[0] = whole;
        for (size_t i = 1; i < inner_out.size(); ++i) out[i] = std::move(inner_out[i]);
      });
  // The inner node runs within ours, and must produce its gradient for the window always.
  if (!node->edges[0]) node->edges[0].node = make_intrusive<Node>("window");
  set_history(base, through, 0);
  base->requires_grad = true;
  tensor->requires_grad = true;
  tensor->view_version = tensor.version() - 1;  // ask for a fresh grad_fn
  grad_fn(tensor);
}

}  // namespace flambeau
