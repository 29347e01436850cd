#include "flambeau/frontend/autograd.h"

#include <ostream>

#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/demangle.h"

namespace flambeau {
std::ostream& operator<<(std::ostream& stream, const NodePtr& node) {
  return stream << static_cast<bool>(node);
}
}  // namespace flambeau

namespace flambeau::torch::autograd {
namespace {

std::vector<flambeau::Tensor> core(const variable_list& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors,
              std::optional<bool> retain_graph, bool create_graph, const variable_list& inputs) {
  const std::vector<flambeau::Tensor> into = core(inputs);
  torch::detail::run_backward(core(tensors), core(grad_tensors), into.empty() ? nullptr : &into,
                              retain_graph, create_graph);
}

variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs, std::optional<bool> retain_graph,
                   bool create_graph, bool allow_unused) {
  const std::vector<flambeau::Tensor> by = core(inputs);
  const auto grads = torch::detail::run_backward(core(outputs), core(grad_outputs), &by,
                                                 retain_graph, create_graph, false, allow_unused);
  return {grads.begin(), grads.end()};
}

// --- Anomaly mode --------------------------------------------------------------------------------

bool AnomalyMode::is_enabled() { return anomaly_mode.enabled; }
bool AnomalyMode::should_check_nan() { return anomaly_mode.check_nan; }
void AnomalyMode::set_enabled(bool enabled, bool check_nan) {
  anomaly_mode.enabled = enabled;
  anomaly_mode.check_nan = check_nan;
}
DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan)
    : enabled_(anomaly_mode.enabled), check_nan_(anomaly_mode.check_nan) {
  AnomalyMode::set_enabled(true, check_nan);
}
DetectAnomalyGuard::~DetectAnomalyGuard() { AnomalyMode::set_enabled(enabled_, check_nan_); }

// --- Functions -----------------------------------------------------------------------------------

variable_list AutogradContext::get_saved_variables() const {
  if (!node_) return to_save_;
  if (node_->released()) refuse_freed();
  variable_list tensors;
  for (const Saved& saved : saved_) tensors.push_back(saved.defined() ? Tensor(saved()) : Tensor());
  return tensors;
}
bool AutogradContext::needs_input_grad(size_t edge) const {
  const Node* node = node_ ? node_ : call_.node.get();
  CHECK(node && edge < node->edges.size(), RuntimeError,
        "needs_input_grad: there is no input number {}", edge);
  return node->wants(edge);
}

Application::Application(const std::type_info& function, Backward backward)
    : context_(std::make_shared<AutogradContext>()),
      name_(demangled(function.name())),
      backward_(backward) {
  context_->call_.node = make_intrusive<Node>("custom_function");
}

void Application::add(const Tensor& input) {
  is_tensor_.push_back(true);
  context_->call_.connect(input);
  context_->call_.records |= input.defined() && input.requires_grad() && grad_enabled();
}

variable_list Application::finish(const variable_list& outputs) {
  CustomCall call = std::move(context_->call_);
  const NodePtr node = call.node;
  call.check_dirty({outputs.begin(), outputs.end()});
  if (call.records) {
    note_forward(*node);
    node->extras().name = "torch::autograd::CppNode<" + name_ + ">";
    node->set_whole_rule([context = context_, is_tensor = is_tensor_, backward = backward_,
                          name = name_](Grads& in, Grads& out) {
      variable_list grads;
      for (size_t i = 0; i < in.size(); ++i) {
        const bool missing = !in[i].defined() && context->materialize_grads_;
        grads.emplace_back(missing ? missing_gradient(context->node_->inputs[i]) : in[i]);
      }
      variable_list result = backward(context.get(), std::move(grads));
      while (result.size() > is_tensor.size() && !result.back().defined()) result.pop_back();
      CHECK(result.size() == is_tensor.size(), RuntimeError,
            "function {} returned an incorrect number of gradients (expected {}, got {})", name,
            is_tensor.size(), result.size());
      for (size_t i = 0, edge = 0; i < result.size(); ++i) {
        CHECK(is_tensor[i] || !result[i].defined(), RuntimeError,
              "function {} returned a gradient different that is defined at position {}, std the "
              "corresponding forward input was not a Variable",
              name, i + 1);
        if (is_tensor[i]) out[edge++] = std::move(result[i]);
      }
    });
  }
  std::vector<flambeau::Tensor> results;
  for (const Tensor& output : outputs)
    results.push_back(output.defined() ? call.finish(output) : flambeau::Tensor());
  if (call.records) {
    context_->node_ = node.get();
    for (const Tensor& tensor : context_->to_save_)
      context_->saved_.push_back(tensor.defined() ? call.save(tensor, results) : Saved());
    context_->to_save_.clear();
  }
  return {results.begin(), results.end()};
}

}  // namespace flambeau::torch::autograd
