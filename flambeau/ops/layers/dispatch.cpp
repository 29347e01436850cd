#include "flambeau/ops/layers/dispatch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <typeinfo>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/saved.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/layers.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

DispatchHooks dispatch_hooks;

namespace {

using Steps = StepsRegistration::Steps;
std::multimap<std::string, Steps, std::less<>>& all_steps() {
  static std::multimap<std::string, Steps, std::less<>> known;
  return known;
}

const Steps* steps_of(const OpCall& call) {
  const auto [begin, end] = all_steps().equal_range(op_name_of(call.op()));
  for (auto at = begin; at != end; ++at) {
    const Steps& steps = at->second;
    if (steps.arity == call.op().arity &&
        std::equal(steps.kinds, steps.kinds + steps.arity, call.op().kinds))
      return &steps;
  }
  return nullptr;
}

// The call by the name of the op whose function it has, where this one is composed of nothing more:
// `absolute` is `abs`.
std::optional<OpCall> alias_of(const OpCall& call) {
  struct Other {
    const Family* family;
    const Overload* overload;
  };
  using Key = std::tuple<void (*)(), bool, bool>;  // the function, method or not, by copy or not
  static const std::map<Key, Other> others = [] {
    std::map<Key, Other> found;
    for (const auto& family : all_families()) {
      for (const Overload& overload : family->overloads) {
        if (overload.op->has(OpDef::composed)) continue;
        found.try_emplace({overload.op->function, family->is_method, family->inplace_by_copy},
                          Other{family.get(), &overload});
      }
    }
    return found;
  }();
  const Family& family = call.family;
  for (const bool method : {family.is_method, !family.is_method}) {
    const auto at = others.find({call.op().function, method, family.inplace_by_copy});
    if (at == others.end()) continue;
    const auto& [other, overload] = at->second;
    return OpCall{*other,      *overload,    call.values,      call.outs,
                  call.n_outs, call.has_out, call.out_is_tuple};
  }
  return {};
}

}  // namespace

std::string operator_name(const OpCall& call) {
  const std::string overload = overload_name(call);
  const bool is_whole = overload.find('.') != std::string::npos;
  return is_whole ? overload : call.name() + "." + overload;
}

namespace {

bool same(const Edge& a, const Edge& b) { return a.node == b.node && a.input == b.input; }

// --- The body of an op on shells -----------------------------------------------------------------

struct Shell {
  Tensor original, shell;
};

bool is_window(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

// While a body runs on shells, what it saves is collected and no layer sees its inner calls.
class OnShells {
 public:
  explicit OnShells(std::vector<SavedShell>* saved)
      : saved_before_(std::exchange(saved_shells, saved)),
        layers_before_(std::exchange(active_layers, 0)) {}
  ~OnShells() {
    saved_shells = saved_before_;
    active_layers = layers_before_;
  }
  OnShells(const OnShells&) = delete;
  OnShells& operator=(const OnShells&) = delete;

 private:
  std::vector<SavedShell>* saved_before_;
  uint8_t layers_before_;
};

class ShellRun {
 public:
  explicit ShellRun(const OpCall& call) : call_(call), rewrite_(call) {
    rewrite_.tensors([&](const Tensor& tensor, int) { return shell_of(tensor); });
  }

  // Runs the body. False if it reads values.
  bool run() {
    OpCall again = call_;
    again.values = rewrite_.values();
    bool ran = true;
    try {
      const OnShells here(&saved_);
      call_function(again, answer_);
    } catch (const Error&) {
      ran = false;
    }
    outputs_ = tensors_of(answer_);
    return ran;
  }

  static std::vector<Tensor> tensors_of(const Result& result) {
    return result.form == Result::Form::tensor ? std::vector{result.tensor} : result.tensors;
  }
  [[nodiscard]] bool recorded() const {
    return std::ranges::any_of(outputs_, [](const Tensor& x) { return x.requires_grad(); });
  }
  [[nodiscard]] bool saved_nothing() const { return saved_.empty(); }
  [[nodiscard]] const std::vector<Tensor>& outputs() const { return outputs_; }

  // The node, if the op recorded just one, between its arguments and its results.
  [[nodiscard]] NodePtr single_node(const std::vector<Edge>& origins) const {
    NodePtr node;
    for (const Tensor& output : outputs_) {
      if (!output.requires_grad()) continue;
      const NodePtr here = grad_fn(output);
      if (!here || (node && node != here)) return {};
      node = here;
    }
    for (const Edge& edge : node->edges) {
      const auto is_edge = [&](const Edge& origin) { return same(edge, origin); };
      if (edge && std::ranges::none_of(origins, is_edge)) return {};
    }
    return node;
  }

  // Whether all that was saved is an argument, as it still is, or a result.
  [[nodiscard]] bool resolves() const {
    return std::ranges::all_of(saved_, [&](const SavedShell& saved) {
      return output_of(saved) >= 0 || original_of(saved).defined();
    });
  }
  // Puts arguments and results, which have their history by now, in place of what was saved.
  void resolve(const std::vector<Tensor>& results, Node* node) const {
    for (const SavedShell& saved : saved_) {
      const int output = output_of(saved);
      saved.resolve(output >= 0 ? Saved(results[output], true, node)
                                : Saved(original_of(saved), false, node));
    }
  }

 private:
  Tensor shell_of(const Tensor& tensor) {
    for (const Shell& known : shells_) {
      if (known.original.is_same(tensor)) return known.shell;
    }
    Tensor shell = make_strided(tensor.sizes(), tensor.strides(), tensor.dtype(), meta());
    if (tensor.requires_grad()) {
      const Edge edge = gradient_edge(tensor);
      set_history(shell, edge.node, edge.input);
    }
    shells_.push_back({tensor, shell});
    return shell;
  }
  static Device meta() { return {DeviceType::meta}; }
  [[nodiscard]] Tensor original_of(const SavedShell& saved) const {
    for (const Shell& known : shells_) {
      const bool overwritten = call_.in_place() && known.shell.is_same(shells_[0].shell);
      if (!overwritten && is_window(known.shell, saved.shell)) return known.original;
    }
    return {};
  }
  [[nodiscard]] int output_of(const SavedShell& saved) const {
    if (!saved.is_output && original_of(saved).defined()) return -1;
    if (!saved.is_output && call_.in_place()) return -1;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (is_window(outputs_[i], saved.shell)) return static_cast<int>(i);
    }
    return -1;
  }

  const OpCall& call_;
  Rewrite rewrite_;
  std::vector<Shell> shells_;
  std::vector<SavedShell> saved_;
  std::vector<Tensor> outputs_;
  Result answer_;
};

// --- The node of an answer -----------------------------------------------------------------------

std::vector<Edge> origins_of(const OpCall& call) {
  std::vector<Edge> edges;
  each_tensor(call, [&](const Tensor& tensor, bool) {
    edges.push_back(tensor.requires_grad() ? gradient_edge(tensor) : Edge());
  });
  return edges;
}

// What the class says the gradients of the arguments are, as a sum for each edge.
void ask_gradients(const std::shared_ptr<void>& asked, const std::vector<Edge>& origins,
                   const Grads& in, Grads& out) {
  const std::vector<Tensor> grads = dispatch_hooks.ask_gradients(asked, in);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !origins.at(i)) continue;
    for (size_t k = 0; k < running_node->edges.size(); ++k) {
      if (!same(running_node->edges[k], origins[i])) continue;
      out[k] = out[k].defined() ? add(out[k], grads[i]) : grads[i];
      break;
    }
  }
}

// Shells are on another device than what they stand for.
void bring_home(Grads& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const Edge& edge = running_node->edges[i];
    if (!out[i].defined() || !edge || edge.input >= edge.node->inputs.size()) continue;
    const Device home = edge.node->inputs[edge.input].device;
    if (!(out[i].device() == home)) out[i] = to(out[i], home);
  }
}

// Whether an error of the core itself, and not of a class that was asked, says that a closure wants
// values that are not there.
bool is_own(const Error& error) {
  return typeid(error) == typeid(Error) || typeid(error) == typeid(NotImplementedError);
}

// While closures of an op run. A write of a tensor of the class into a plain one of their making,
// such as a part of the gradient into zeros, is not what the class can answer.
thread_local int rules_running = 0;
struct InRule {
  InRule() { ++rules_running; }
  InRule(const InRule&) = delete;
  InRule& operator=(const InRule&) = delete;
  ~InRule() { --rules_running; }
};

class Graft {
 public:
  Graft(const OpCall& call, const ShellRun& run, bool ran)
      : call_(call), run_(run), origins_(origins_of(call)) {
    if (ran) node_ = run_.single_node(origins_);
    whole_ = node_ && run_.resolves();
    if (!whole_) node_ = nullptr;
  }
  // Whether the op's own derivative does.
  [[nodiscard]] bool is_whole() const { return whole_; }

  // The node, with its place for the gradient of each result.
  NodePtr make(const std::vector<Tensor>& results, std::shared_ptr<void> asked) {
    if (!whole_) return ask_later(results, std::move(asked));
    places_.assign(results.size(), -1);
    for (size_t i = 0; i < std::min(results.size(), run_.outputs().size()); ++i) {
      const Tensor& shell = run_.outputs()[i];
      if (!shell.requires_grad()) continue;
      places_[i] = static_cast<int>(maybe_meta(shell)->output);
      node_->inputs[places_[i]].device = results[i].device();
    }
    if (run_.saved_nothing() && is_plain()) asked = nullptr;
    node_->set_whole_rule([own = node_->take_rules(), asked = std::move(asked), origins = origins_](
                              Grads& in, Grads& out) mutable {
      try {
        const InRule here;
        own(in, out);
      } catch (const Error& error) {
        if (!asked || !is_own(error)) throw;
        for (Tensor& grad : out) grad.reset();
        ask_gradients(asked, origins, in, out);
      }
      bring_home(out);
    });
    return node_;
  }
  [[nodiscard]] int place(size_t result) const { return places_[result]; }

 private:
  // Whether the closures of such ops, where they keep no values, are made of ops that are asked.
  [[nodiscard]] bool is_plain() const {
    const OpDef::Flags kind = call_.op().kind();
    return kind == OpDef::elementwise || kind == OpDef::reduces;
  }
  NodePtr ask_later(const std::vector<Tensor>& results, std::shared_ptr<void> asked) {
    CHECK(call_.op().kind() != OpDef::draws, NotImplementedError,
          "{}: the gradient through random numbers that a class has drawn is not known",
          call_.name());
    node_ = make_intrusive<Node>(call_.op().signature);
    node_->extras().name = std::string(op_name_of(call_.op()));
    for (const Edge& edge : origins_) {
      const auto is_edge = [&](const Edge& other) { return same(edge, other); };
      if (edge && std::ranges::none_of(node_->edges, is_edge)) node_->edges.push_back(edge);
    }
    for (const Tensor& result : results) {
      const bool wants = result.defined() && is_differentiable(result.dtype());
      places_.push_back(wants ? static_cast<int>(node_->add_input(result)) : -1);
    }
    node_->has_saved();
    node_->set_whole_rule([asked = std::move(asked), origins = origins_](Grads& in, Grads& out) {
      ask_gradients(asked, origins, in, out);
    });
    return node_;
  }

  const OpCall& call_;
  const ShellRun& run_;
  bool whole_ = false;
  std::vector<Edge> origins_;
  std::vector<int> places_;
  NodePtr node_;

 public:
  void resolve(const std::vector<Tensor>& results) const {
    if (whole_) run_.resolve(results, node_.get());
  }
};

std::shared_ptr<void> ask_without_grad(const OpCall& call, Result& result) {
  const NoGrad off;
  std::shared_ptr<void> asked = dispatch_hooks.ask(call, result);
  if (call.in_place()) call.values[0].tensor->bump_version(call.name().c_str());
  return asked;
}

// An answer that is an argument becomes a tensor of its own, as it gets another history.
void set_apart(const OpCall& call, Tensor& result) {
  bool is_argument = false;
  each_tensor(call, [&](const Tensor& tensor, bool) { is_argument |= tensor.is_same(result); });
  if (is_argument) result = detach(result);
}

void record_answer(const OpCall& call, Result& result) {
  std::shared_ptr<void> asked = ask_without_grad(call, result);
  ShellRun run(call);
  const bool ran = run.run();
  if (ran ? !run.recorded() : call.family.has(OpDef::gives_bool)) return;
  if (result.form == Result::Form::tensor) set_apart(call, result.tensor);
  for (Tensor& tensor : result.tensors) set_apart(call, tensor);
  const std::vector<Tensor> results = ShellRun::tensors_of(result);
  Graft graft(call, run, ran);
  const NodePtr node = graft.make(results, std::move(asked));
  for (size_t i = 0; i < results.size(); ++i) {
    if (graft.place(i) < 0) continue;
    set_history(results[i], node, static_cast<uint32_t>(graft.place(i)));
    if (call.family.has(OpDef::makes_view)) results[i]->view_origin = ViewOrigin::custom_function;
  }
  graft.resolve(results);
}

// The op that gives what an op in place writes, on another first argument.
void call_apart(const OpCall& call, const Tensor& first, Result& result) {
  const std::string_view name = std::string_view(call.name()).substr(0, call.name().size() - 1);
  const Kind* kinds = call.op().kinds;
  const Operand operand(first);
  for (const bool method : {true, false}) {
    const Family* family = find_family(name, method);
    if (!family) continue;
    for (const Overload& overload : family->overloads) {
      const OpDef& op = *overload.op;
      if (op.arity != call.op().arity || !std::equal(kinds + 1, kinds + op.arity, op.kinds + 1)) {
        continue;
      }
      Value values[max_arguments];
      std::copy_n(call.values, op.arity, values);
      if (op.kinds[0] == Kind::operand) {
        values[0].operand = &operand;
      } else {
        values[0].tensor = &first;
      }
      const OpCall apart{*family, overload, values};
      return flambeau::call(apart, special_of(apart), result);
    }
  }
  fail<NotImplementedError>(
      "{}: a write into a tensor whose class has __torch_dispatch__ is not recorded for backward",
      call.name());
}

void record_write(const OpCall& call, Result& result) {
  const Tensor self = *call.values[0].tensor;
  check_inplace(call.name().c_str(), self, true);
  CHECK(self->view_origin == ViewOrigin::normal, NotImplementedError,
        "{}: a write into a view that a class with __torch_dispatch__ has made is not recorded for "
        "backward",
        call.name());
  ShellRun run(call);
  const bool ran = run.run();
  Graft graft(call, run, ran);
  if (ran && (!run.recorded() || graft.is_whole())) {
    ask_without_grad(call, result);
    if (!run.recorded()) return;
    const NodePtr node = graft.make({self}, nullptr);
    rebase_history(self, node);
    graft.resolve({self});
    return;
  }
  // What is overwritten is needed in backward: a copy goes through the op that writes elsewhere.
  const Edge origin = self.requires_grad() ? gradient_edge(self) : Edge();
  Tensor kept;
  {
    const NoGrad off;
    kept = clone(self);
  }
  if (origin) set_history(kept, origin.node, origin.input);
  call_apart(call, kept, result);
  const Tensor written = result.tensor;
  {
    const NoGrad off;
    copy_(self, written);
  }
  set_history(self, grad_fn(written), maybe_meta(written)->output);
  result.tensor = self;
}

thread_local bool functionalizing = false;

void check_functional(const OpCall& call) {
  const bool is_composed = call.op().has(OpDef::composed) || steps_of(call);
  const Family* family = nullptr;
  const bool refused = is_composed && call.in_place() &&
                       !(functional_form(call, family) && family->has(OpDef::makes_view));
  CHECK(!refused, RuntimeError,
        "Found a custom (non-ATen) operator whose output has alias annotations: aten::{}. We only "
        "support functionalizing operators whose outputs do not have alias annotations; call the "
        "operator that it is made of.",
        call.name());
}

// In a closure that ran on shells: whether the class can answer what it computes.
void check_rule(const OpCall& call) {
  CHECK(!call.in_place() || (*call.values[0].tensor)->pending & Dispatched::mark,
        NotImplementedError, "{}: a closure writes into a tensor of its own", call.name());
  each_tensor(call, [&](const Tensor& tensor, bool) {
    CHECK(!tensor.device().is_meta() || tensor->pending & Dispatched::mark, NotImplementedError,
          "{}: a closure computes with a shell", call.name());
  });
}

// Off for the functions that an op calls.
struct Quiet {
  uint8_t layers = active_layers;
  bool functional = std::exchange(functionalizing, false);
  Quiet() { active_layers &= static_cast<uint8_t>(~Active::dispatch); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() {
    active_layers = layers;
    functionalizing = functional;
  }
};

// A call for which nobody is to be asked, on tensors that have values.
void call_unmarked(const OpCall& call, uint8_t special, Result& result) {
  std::vector<std::pair<Tensor, Tensor>> plain;
  const auto unmarked = [&](const Tensor& tensor) -> Tensor {
    if (!(tensor->pending & Dispatched::mark)) return {};
    if (is_wrapped(tensor)) refuse_sparse(call.name(), tensor);
    Tensor alias = detach_alias(tensor);
    if (tensor.requires_grad()) {
      const Edge edge = gradient_edge(tensor);
      set_history(alias, edge.node, edge.input);
    }
    plain.emplace_back(tensor, alias);
    return alias;
  };
  std::vector<Tensor> outs(call.outs, call.outs + call.n_outs);
  for (Tensor& out : outs) {
    if (Tensor alias = unmarked(out); alias.defined()) out = alias;
  }
  Rewrite rewrite(call);
  rewrite.tensors(
      [&](const Tensor& tensor, int i) { return call.is_out(i) ? outs[0] : unmarked(tensor); });
  OpCall again = call;
  again.values = rewrite.values();
  again.outs = outs.data();
  const Quiet quiet;
  call_from(Layer::pending, again, special & ~Dispatched::mark, result);
  for (const auto& [tensor, alias] : plain) {
    if (result.tensor.is_same(alias)) result.tensor = tensor;
    for (Tensor& one : result.tensors) {
      if (one.is_same(alias)) one = tensor;
    }
  }
}

Tensor detach_wrapped_tensor(const Tensor& wrapped) {
  if (dispatch_disabled) refuse_sparse("detach", wrapped);
  return tensor_op("detach", {wrapped});
}
const bool hooked = [] {
  detach_wrapped = detach_wrapped_tensor;
  return true;
}();

}  // namespace

void StepsRegistration::add(std::string_view op, const Steps& steps) {
  all_steps().emplace(op, steps);
}

bool set_functionalizing(bool on) { return std::exchange(functionalizing, on); }
bool is_functionalizing() { return functionalizing; }

bool call_dispatch(const OpCall& call, uint8_t special, Result& result) {
  if (functionalizing) [[unlikely]] {
    check_functional(call);
    if (!(special & Dispatched::mark) && !dispatch_hooks.has_modes()) {
      const Quiet quiet;
      call_from(Layer::pending, call, special, result);
      return true;
    }
  }
  if (call.op().has(OpDef::metadata)) return false;
  if (dispatch_disabled) {
    call_unmarked(call, special, result);
    return true;
  }
  if (!call.family.inplace_by_copy && !call.has_out) {
    if (const Steps* steps = steps_of(call)) {
      steps->invoke(steps->function, call.values, result);
      if (result.tensor.defined() || !result.tensors.empty()) return true;
    }
  }
  if (call.op().has(OpDef::composed)) {
    const std::optional<OpCall> alias = alias_of(call);
    return alias && call_dispatch(*alias, special, result);
  }
  if (!(special & Dispatched::mark)) {
    dispatch_hooks.ask(call, result);  // a mode: what it computes has a history of its own
    return true;
  }
  if (rules_running > 0) check_rule(call);
  bool wants = false;
  each_tensor(call, [&](const Tensor& tensor, bool) { wants |= tensor.requires_grad(); });
  if (!wants || !grad_enabled() || call.has_out) {
    ask_without_grad(call, result);
  } else if (call.in_place()) {
    record_write(call, result);
  } else {
    record_answer(call, result);
  }
  return true;
}

}  // namespace flambeau
