#include "flambeau/autograd/node.h"

#include <atomic>
#include <cctype>
#include <mutex>

#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/profiler.h"

namespace flambeau {

thread_local Node* running_node = nullptr;

namespace {

thread_local uint64_t sequence_counter = 0;

// Guards the weak pointers from leaves to their accumulators.
std::mutex accumulators;

// Accumulators run as soon as their gradient is there, which frees it early.
constexpr uint64_t first_of_all = UINT64_MAX;

}  // namespace

uint64_t Node::next_sequence() { return sequence_counter++; }
uint64_t Node::peek_sequence() { return sequence_counter; }

Node::Node(const char* op) : op_(op), sequence_(next_sequence()) {}
Node::~Node() = default;

// Note [Freeing without recursion]
// A node holds the next nodes, through its edges and through the saved tensors that its rules
// captured; deleting a long chain naively would recurse as deep as the chain. Nodes that die
// while another one is being deleted wait in a list that the outermost deletion works off.
void Node::destroy(Node* node) {
  if (node->variable) {
    const std::lock_guard lock(accumulators);
    if (node->use_count() != 0) return;  // found again by its leaf meanwhile
    auto* meta = static_cast<AutogradMeta*>(node->variable->autograd.get());
    if (meta->accumulator == node) meta->accumulator = nullptr;
  }
  static thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list{node};
  waiting = &list;
  while (!list.empty()) {
    Node* next = list.back();
    list.pop_back();
    delete next;
  }
  waiting = nullptr;
}

std::string Node::name() const {
  if (extras_ && !extras_->name.empty()) return extras_->name;
  if (variable) return "torch::autograd::AccumulateGrad";
  // Steps that PyTorch has as those of other ops.
  static constexpr const char* others[][2] = {
      {"square", "pow"},      {"relu6", "hardtanh"},  {"selu", "elu"},
      {"div_floor", "div.2"}, {"div_trunc", "div.2"}, {"heaviside", "not_implemented"}};
  const char* c = op_;
  for (const auto& [own, other] : others) {
    if (std::string_view(op_) == own) c = other;
  }
  std::string text;
  bool upper = true;  // letters after an underscore or a digit are
  for (; *c && *c != '.'; ++c) {
    if (*c != '_') text += upper ? static_cast<char>(std::toupper(*c)) : *c;
    upper = *c == '_' || std::isdigit(*c);
  }
  // Nodes that belong to no op.
  for (const char* own : {"CopySlices", "CopyBackwards", "NotImplemented"}) {
    if (text == own) return "torch::autograd::" + text;
  }
  // "sum.1" is the second overload of sum that has a derivative.
  return text + "Backward" + (*c == '.' ? c + 1 : "0");
}

std::string Node::op_name() const {
  std::string text = name();
  constexpr std::string_view tail = "Backward";
  const size_t at = text.rfind(tail);
  if (at == std::string::npos) return text;
  const std::string number = text.substr(at + tail.size());
  if (number == "s") return text;  // CopyBackwards is one name
  return text.substr(0, at) + (number == "0" ? "" : number);
}

void Node::show_as(const char* op, InlineVector<Edge, 2> next) {
  op_ = op;
  shown_ = std::make_unique<InlineVector<Edge, 2>>(std::move(next));
}

uint32_t Node::add_input(const Tensor& output) {
  inputs.emplace_back(GradMeta{output->sizes, output.dtype(), output.device()});
  return static_cast<uint32_t>(inputs.size() - 1);
}

void Node::set_rule(uint32_t i, Rule rule) { rules_.emplace_back(Indexed{i, std::move(rule)}); }

void Node::apply(Grads& in, Grads& out) {
  CHECK(
      !released_, RuntimeError,
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already been freed). Saved intermediate values of the graph are freed when you "
      "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
      "through the graph a second time or if you need to access saved tensors after calling "
      "backward. ({})",
      name());
  current_op = op_;
  const Span span(SpanKind::backward, profiling() ? name() : std::string());
  Node* const before = std::exchange(running_node, this);
  struct Restore {
    Node* before;
    ~Restore() { running_node = before; }
  } restore{before};
  out.resize(edges.size());
  if (whole_rule_) return whole_rule_(in, out);
  if (!in[0].defined()) return;
  for (Indexed& entry : rules_) {
    const Edge& edge = edges[entry.index];
    if (edge && pass_needs(edge)) out[entry.index] = entry.rule(in[0]);
  }
}

WholeRule Node::take_rules() {
  return
      [rules = std::move(rules_), whole = std::move(whole_rule_)](Grads& in, Grads& out) mutable {
        if (whole) return whole(in, out);
        if (!in[0].defined()) return;
        for (Indexed& entry : rules) {
          const Edge& edge = running_node->edges[entry.index];
          if (edge && pass_needs(edge)) out[entry.index] = entry.rule(in[0]);
        }
      };
}

void Node::release() {
  if (variable || !saves_) return;
  released_ = true;  // before the rules go: a custom function asks why it is dropped
  rules_.clear();
  if (whole_rule_) whole_rule_.reset();
}

NodeExtras& Node::extras() {
  if (!extras_) extras_ = std::make_unique<NodeExtras>();
  return *extras_;
}

NodePtr accumulator(const Tensor& leaf) {
  AutogradMeta& meta = autograd_meta(leaf);
  const std::lock_guard lock(accumulators);
  if (meta.accumulator) {
    NodePtr node(meta.accumulator);
    // The leaf's data may have moved to another device or dtype since: what was recorded before
    // keeps the accumulator that takes gradients as they were then.
    const GradMeta& known = node->inputs[0];
    const bool fits = known.any_dtype || known.dtype == meta.grad_dtype.value_or(leaf.dtype());
    if (fits && known.device == leaf.device()) return node;
  }
  NodePtr node = make_intrusive<Node>("AccumulateGrad");
  node->variable = leaf.ptr();
  node->sequence_ = first_of_all;
  node->add_input(leaf);
  node->inputs[0].dtype = meta.grad_dtype.value_or(leaf.dtype());
  node->inputs[0].any_dtype = meta.any_grad_dtype;
  meta.accumulator = node.get();
  return node;
}

std::optional<DType> grad_dtype(const Tensor& tensor) {
  const AutogradMeta* meta = maybe_meta(tensor);
  if (meta && meta->any_grad_dtype) return std::nullopt;
  return meta ? meta->grad_dtype.value_or(tensor.dtype()) : tensor.dtype();
}

void set_grad_dtype(const Tensor& leaf, std::optional<DType> dtype) {
  CHECK(is_leaf(leaf), RuntimeError, "grad_dtype can only be set on leaf tensors.");
  AutogradMeta& meta = autograd_meta(leaf);
  CHECK(!dtype || !meta.grad.defined() || meta.grad.dtype() == *dtype, RuntimeError,
        "Cannot set grad_dtype to '{}' because there is already a gradient with dtype '{}'. Please "
        "clear the gradient (.grad = None) before changing grad_dtype, or ensure the new "
        "grad_dtype matches the existing gradient's dtype.",
        *dtype, meta.grad.dtype());
  const std::lock_guard lock(accumulators);
  meta.grad_dtype = dtype;
  meta.any_grad_dtype = !dtype;
  if (!meta.accumulator) return;
  // Graphs that were recorded before bring their gradients to it as well.
  GradMeta& known = meta.accumulator->inputs[0];
  known.dtype = dtype.value_or(leaf.dtype());
  known.any_dtype = !dtype;
}

}  // namespace flambeau
