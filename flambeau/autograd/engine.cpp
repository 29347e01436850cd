#include "flambeau/autograd/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <queue>
#include <unordered_map>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/stream_follower.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

AnomalyMode anomaly_mode;

namespace {

thread_local std::vector<std::function<void()>>* callbacks = nullptr;

std::atomic<int64_t> next_id{0};

// Two backward passes may reach the same leaf at once.
std::array<std::mutex, 16> leaf_locks;

// What one pass knows about a node.
struct State {
  int waiting = 0;     // edges that have not delivered yet
  bool needed = true;  // lies on a path to something that is asked for
  Grads grads;         // delivered so far
};

struct Later {  // the last recorded runs first
  bool operator()(const Node* a, const Node* b) const { return a->sequence() < b->sequence(); }
};

bool sole_owner(const Tensor& tensor) {
  return tensor.impl()->use_count() == 1 && tensor.storage()->use_count() == 1;
}

void accumulate_into(Tensor& total, Tensor grad) {
  if (!total.defined()) {
    total = std::move(grad);
  } else if (total.is_sparse() || grad.is_sparse()) {
    total = total.is_sparse() ? grad + total : total + grad;
  } else if (!grad_enabled() && sole_owner(total) && total.dtype() == grad.dtype() &&
             total.sizes() == grad.sizes() && !total->view_base) {
    add_(total, grad);
  } else {
    total = total + grad;
  }
}

class Pass {
 public:
  static thread_local Pass* current;
  [[nodiscard]] int64_t id() const { return id_; }
  [[nodiscard]] bool fills_all_leaves() const { return options_.accumulate && inputs_.empty(); }
  bool will_run(const Node& node) {
    const auto at = states_.find(&node);
    if (at == states_.end()) return false;
    return inputs_.empty() || (node.variable ? targets_.contains(&node) : at->second.needed);
  }

  bool needs(const Edge& edge) {
    if (inputs_.empty() || runs_target_) return true;
    const auto at = states_.find(edge.node.get());
    return at == states_.end() || at->second.needed;
  }

  Pass(const BackwardOptions& options, const std::vector<Edge>& inputs)
      : options_(options), inputs_(inputs), captured_(inputs.size()) {}

  std::vector<Tensor> run(const std::vector<Edge>& roots, std::vector<Tensor>& root_grads) {
    Pass* const outer = std::exchange(current, this);
    struct Restore {
      Pass* outer;
      ~Restore() { current = outer; }
    } restore{outer};
    if (roots.size() == 1) sole_root_ = roots[0].node.get();
    discover(roots);
    if (!inputs_.empty()) find_needed(roots);
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i]) continue;
      deliver(roots[i], std::move(root_grads[i]), nullptr, 0);
    }
    for (const Edge& root : roots) {
      if (root && states_[root.node.get()].waiting == 0) push_once(root.node.get());
    }
    while (!ready_.empty()) {
      Node* node = ready_.top();
      ready_.pop();
      run_node(*node);
    }
    streams_.go_back();
    return std::move(captured_);
  }

 private:
  // Counts, for every node that can be reached, the edges that lead to it.
  void discover(const std::vector<Edge>& roots) {
    std::vector<Node*> stack;
    for (const Edge& root : roots) {
      if (root && states_.try_emplace(root.node.get()).second) stack.push_back(root.node.get());
    }
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      order_.push_back(node);
      for (const Edge& edge : node->edges) {
        if (!edge) continue;
        const auto [at, fresh] = states_.try_emplace(edge.node.get());
        ++at->second.waiting;
        if (fresh) stack.push_back(edge.node.get());
      }
    }
  }

  // Marks the nodes from which one of the inputs can be reached; the others are not run.
  void find_needed(const std::vector<Edge>&) {
    std::unordered_map<const Node*, std::vector<Node*>> comes_from;
    for (Node* node : order_) {
      states_[node].needed = false;
      for (const Edge& edge : node->edges) {
        if (edge) comes_from[edge.node.get()].push_back(node);
      }
    }
    std::vector<Node*> stack;
    for (const Edge& input : inputs_) {
      if (input && states_.contains(input.node.get())) {
        targets_[input.node.get()] = true;
        stack.push_back(input.node.get());
      }
    }
    for (size_t i = 0; i < stack.size(); ++i) states_[stack[i]].needed = true;
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (Node* parent : comes_from[node]) {
        State& state = states_[parent];
        if (std::exchange(state.needed, true)) continue;
        stack.push_back(parent);
      }
    }
  }

  void deliver(const Edge& edge, Tensor grad, const Node* from, size_t index) {
    State& state = states_[edge.node.get()];
    if (!grad.defined() || !(state.needed || edge.node.get() == sole_root_)) return;
    if (state.grads.size() < edge.node->inputs.size()) {
      state.grads.resize(edge.node->inputs.size());
    }
    accumulate_into(state.grads[edge.input],
                    fit_gradient(edge.node->inputs[edge.input], std::move(grad), from, index));
  }

  void push_once(Node* node) {
    State& state = states_[node];
    if (state.waiting < 0) return;
    state.waiting = -1;
    ready_.push(node);
  }

  static void run_tensor_hooks(Node& node, Grads& grads) {
    if (node.variable) {
      const auto* meta = static_cast<AutogradMeta*>(node.variable->autograd.get());
      const auto hooks = meta->hooks;  // a hook may take itself off
      for (const auto& [key, hook] : hooks) apply_hook(hook, grads[0]);
    }
    if (const NodeExtras* extras = node.maybe_extras()) {
      const auto hooks = extras->tensor_hooks;
      for (const auto& entry : hooks) {
        if (entry.input < grads.size()) apply_hook(entry.hook, grads[entry.input]);
      }
      for (const auto& entry : extras->retain_hooks) apply_hook(entry.hook, grads[entry.input]);
    }
  }

  static void run_pre_hooks(Node& node, Grads& grads) {
    const NodeExtras* extras = node.maybe_extras();
    if (!extras || extras->pre_hooks.empty()) return;
    const auto hooks = extras->pre_hooks;
    for (const auto& [key, hook] : hooks) hook(grads);
  }

  // A hook is told, too, that there is no gradient.
  static void apply_hook(const TensorHook& hook, Tensor& grad) {
    Tensor changed = hook(grad);
    if (changed.defined()) grad = resolve(changed);
  }

  void run_node(Node& node) {
    streams_.follow(node);
    State& state = states_[&node];
    Grads grads = std::move(state.grads);
    const bool needed = state.needed;
    grads.resize(node.inputs.size());
    Grads out;
    if (needed) {
      const bool is_target = !inputs_.empty() && targets_.contains(&node);
      // A target that keeps its gradient is run like others, for its checks and hooks.
      runs_target_ = is_target && options_.accumulate && !node.variable;
      const bool goes_on = !node.variable && (runs_target_ || continues(node));
      const bool accumulates =
          node.variable && options_.accumulate && (inputs_.empty() || is_target);
      // As PyTorch has it: hooks change what is asked for, unless the pass goes on from there.
      if (is_target && goes_on) capture(node, grads);
      run_tensor_hooks(node, grads);
      if (is_target && !goes_on) capture(node, grads);
      if (goes_on || options_.accumulate) run_pre_hooks(node, grads);
      if (accumulates) accumulate(node, grads[0]);
      if (goes_on) apply(node, grads, out);
      runs_target_ = false;
    } else if (&node == sole_root_) {  // where a pass begins, hooks are told in any case
      run_tensor_hooks(node, grads);
    }
    for (size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!edge) continue;
      if (i < out.size()) deliver(edge, std::move(out[i]), &node, i);
      State& next = states_[edge.node.get()];
      if (--next.waiting == 0) push_once(edge.node.get());
    }
  }

  // With inputs given, a target whose own inputs nobody asked for is captured but not run.
  bool continues(const Node& node) {
    if (inputs_.empty()) return true;
    for (const Edge& edge : node.edges) {
      if (edge && states_[edge.node.get()].needed) return true;
    }
    return false;
  }

  void apply(Node& node, Grads& grads, Grads& out) {
    const NodeExtras* extras = node.maybe_extras();
    const bool keep_in = extras && !extras->post_hooks.empty();
    const Grads in = keep_in ? grads : Grads();
    try {
      node.apply(grads, out);
    } catch (const Error&) {
      report_anomaly(node);
      throw;
    }
    // The rule may have run code that adds hooks to its own node, for which nothing was kept.
    extras = node.maybe_extras();
    if (extras && !extras->post_hooks.empty()) {
      Grads unknown;
      unknown.resize(grads.size());
      const auto hooks = extras->post_hooks;
      for (const auto& [key, hook] : hooks) hook(out, keep_in ? in : unknown);
    }
    if (!options_.keep_graph) node.release();
    if (anomaly_mode.enabled && anomaly_mode.check_nan) check_nan(node, out);
  }

  void report_anomaly(const Node& node) {
    if (anomaly_mode.enabled && anomaly_mode.report) anomaly_mode.report(node);
  }

  void check_nan(const Node& node, const Grads& out) {
    const NoGrad off;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].defined()) continue;
      if (!has_nan(out[i].is_sparse() ? parts_of(out[i]).values : out[i])) continue;
      report_anomaly(node);
      fail<RuntimeError>("Function '{}' returned nan values in its {}th output.", node.name(), i);
    }
  }

  void capture(const Node& node, const Grads& grads) {
    if (options_.accumulate && node.variable) return;  // goes into the leaf itself
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].node.get() == &node) captured_[i] = grads[inputs_[i].input];
    }
  }

  // Parts that nobody else holds are taken over; those of a gradient that is spread over memory,
  // as that of a sum, are not.
  static Tensor own_sparse_gradient(Tensor& grad) {
    const SparseParts& parts = parts_of(grad);
    const bool ours = !grad_enabled() && grad.impl()->use_count() == 1 &&
                      parts.values.impl()->use_count() == 1 && parts.values.is_contiguous() &&
                      parts.values.storage()->use_count() == 1;
    return ours ? std::move(grad) : clone(grad);
  }

  // Whether a gradient has the strides of its leaf, as far as both have dimensions: a leaf may have
  // been given another shape since.
  static bool lies_alike(const Tensor& grad, const Tensor& variable) {
    for (int64_t d = 0; d < std::min(grad.dim(), variable.dim()); ++d) {
      if (grad->sizes[d] != 1 && grad->strides[d] != variable->strides[d]) return false;
    }
    return true;
  }

  // The first gradient of a leaf, in the leaf's own layout if that is dense; taken over where
  // nobody else holds it.
  static Tensor own_gradient(const Tensor& variable, Tensor& grad) {
    if (grad.is_sparse()) [[unlikely]] {
      if (is_wrapped(grad)) return grad_enabled() ? clone(grad) : detach(grad);
      return own_sparse_gradient(grad);
    }
    if (variable.is_sparse()) return clone(grad, MemoryFormat::contiguous);  // it has no strides
    const bool dense = is_non_overlapping_and_dense(variable.sizes(), variable.strides());
    const bool fits = dense ? lies_alike(grad, variable) : grad.is_contiguous();
    if (!grad_enabled() && fits && grad.impl()->use_count() == 1) {
      if (sole_owner(grad) && !grad->view_base) return std::move(grad);
      // What is left of others' memory is copied as it is, whatever the leaf's shape is by now.
      if (std::ranges::count(grad->strides, 0) == 0) return clone(grad);
    }
    if (!dense) return clone(grad, MemoryFormat::contiguous);
    // A leaf that was given another shape since spreads the gradient of the shape that was used.
    Tensor own = make_strided(variable.sizes(), variable.strides(), grad.dtype(), grad.device());
    copy_(own, grad);
    return own;
  }

  void accumulate(Node& node, Tensor& grad) {
    const Tensor variable(node.variable);
    AutogradMeta& meta = autograd_meta(variable);
    const NodeExtras* extras = node.maybe_extras();
    const bool tells_later = extras && !extras->post_hooks.empty();
    const bool first = !meta.grad.defined();
    Grads in;
    if (tells_later && !first) in.push_back(grad);
    // It may not want one any more.
    if (variable->requires_grad && grad.defined()) add_to_leaf(variable, meta, grad);
    const auto hooks = meta.accumulate_hooks;
    for (const auto& [key, hook] : hooks) hook(variable);
    if (!tells_later) return;
    // A first gradient has become the leaf's own, with what hooks have made of it since.
    if (first) in.push_back(meta.grad);
    Grads out;
    const auto post_hooks = extras->post_hooks;
    for (const auto& [key, hook] : post_hooks) hook(out, in);
  }

  static void add_to_leaf(const Tensor& variable, AutogradMeta& meta, Tensor& grad) {
    CHECK(!grad_fn(variable), RuntimeError, "leaf variable has been moved into the graph interior");
    {
      const std::lock_guard lock(
          leaf_locks[(reinterpret_cast<uintptr_t>(&meta) >> 6) % leaf_locks.size()]);
      if (!meta.grad.defined()) {
        meta.grad = own_gradient(variable, grad);
      } else if (grad_enabled() || is_wrapped(meta.grad)) {
        accumulate_into(meta.grad, grad);
      } else if (meta.grad.is_sparse() && !grad.is_sparse()) {
        meta.grad = grad + meta.grad;
      } else {
        add_(meta.grad, grad);
      }
    }
  }

  const BackwardOptions& options_;
  const std::vector<Edge>& inputs_;
  const int64_t id_ = next_id.fetch_add(1);
  std::unordered_map<const Node*, State> states_;
  std::unordered_map<const Node*, bool> targets_;
  std::vector<Node*> order_;
  bool runs_target_ = false;
  const Node* sole_root_ = nullptr;  // of a pass that begins at one tensor
  std::priority_queue<Node*, std::vector<Node*>, Later> ready_;
  std::vector<Tensor> captured_;
  StreamFollower streams_;
};

thread_local Pass* Pass::current = nullptr;

}  // namespace

int64_t current_pass() { return Pass::current ? Pass::current->id() : -1; }
bool pass_needs(const Edge& edge) { return !Pass::current || Pass::current->needs(edge); }
bool pass_will_run(const Node& node) { return Pass::current && Pass::current->will_run(node); }

bool pass_fills_all_leaves() { return Pass::current && Pass::current->fills_all_leaves(); }

Tensor fit_gradient(const GradMeta& meta, Tensor grad, const Node* from, size_t index) {
  if (grad.is_complex() && !is_complex(meta.dtype) && !meta.any_dtype) grad = real(grad);
  if (!(grad.sizes() == meta.sizes)) {
    CHECK(can_broadcast_to(meta.sizes, grad.sizes()), RuntimeError,
          "Function {} returned an invalid gradient at index {} - got {} but expected shape "
          "compatible with {}",
          from ? from->name() : std::string("backward"), index, grad.sizes(), meta.sizes);
    grad = sum_to_size(grad, meta.sizes);
  }
  if (grad->pending) [[unlikely]]
    grad = resolve(grad);
  if (grad.dtype() != meta.dtype && !meta.any_dtype) grad = to(grad, meta.dtype);
  if (!(grad.device() == meta.device)) {
    CHECK(grad.dim() == 0, RuntimeError,
          "Function {} returned an invalid gradient at index {} - expected device {} but got {}",
          from ? from->name() : std::string("backward"), index, meta.device, grad.device());
    grad = to(grad, meta.device);
  }
  return grad;
}

std::vector<Tensor> run_backward(const std::vector<Edge>& roots, std::vector<Tensor> root_grads,
                                 const std::vector<Edge>& inputs, const BackwardOptions& options) {
  const GradGuard mode(options.create_graph);
  std::vector<std::function<void()>> queued;
  auto* const outer = std::exchange(callbacks, &queued);
  struct Restore {
    std::vector<std::function<void()>>* outer;
    ~Restore() { callbacks = outer; }
  } restore{outer};
  std::vector<Tensor> grads = Pass(options, inputs).run(roots, root_grads);
  for (size_t i = 0; i < queued.size(); ++i) queued[i]();  // a callback may queue more
  if (!options.allow_unused && !options.accumulate) {
    for (const Tensor& grad : grads) {
      CHECK(grad.defined(), RuntimeError,
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior.");
    }
  }
  return grads;
}

void queue_callback(std::function<void()> callback) {
  CHECK(callbacks, RuntimeError, "Final callbacks can only be installed during backward pass.");
  callbacks->push_back(std::move(callback));
}

}  // namespace flambeau
