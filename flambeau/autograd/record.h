// Record: how an op enters the graph.
//
//   Tensor out = ...;
//   if (Record r{"softmax", out, {x}})
//     r.wrt(0, [y = r.save_output(out), dim](const Tensor& g) { ... return gradient of x; });
//
// False, and free of cost, when nothing needs a gradient. A rule for an input that needs none is
// dropped with all that it captured. Rules need not fit gradients to broadcast inputs: the engine
// does.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/node.h"
#include "flambeau/autograd/saved.h"

namespace flambeau {

class Record {
 public:
  using Ref = std::reference_wrapper<const Tensor>;

  Record(const char* op, const Tensor& out, std::initializer_list<Ref> inputs)
      : Record(op, &out, 1, inputs.begin(), inputs.size(), false) {}
  Record(const char* op, const Tensor& out, const std::vector<Tensor>& inputs);
  Record(const char* op, std::initializer_list<Ref> outs, std::initializer_list<Ref> inputs);
  Record(const char* op, const std::vector<Tensor>& outs, std::initializer_list<Ref> inputs);
  // For a write to `self`, which is both the output and input 0. Call check_inplace first.
  static Record in_place(const char* op, const Tensor& self, std::initializer_list<Ref> others);
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  Record(Record&&) = default;
  ~Record() {
    if (node_) finish();
  }

  explicit operator bool() const { return static_cast<bool>(node_); }
  [[nodiscard]] bool wants(size_t input) const { return node_->wants(input); }

  // The gradient of input i, from the gradient of the only output.
  template <class F>
  Record& wrt(uint32_t i, F&& rule) {
    if (node_->wants(i)) node_->set_rule(i, Rule(std::forward<F>(rule)));
    return *this;
  }
  // All gradients at once: rule(Grads& in, Grads& out). Incoming ones may be undefined (zero).
  template <class F>
  void all(F&& rule) {
    node_->set_whole_rule(WholeRule(std::forward<F>(rule)));
  }

  // An input as it was before the op: one that lies in memory which an in-place op has written to
  // is stale at once, and its use in backward raises. An op that can needs a copy made before.
  [[nodiscard]] Saved save(const Tensor& input) const;
  // The same for the rule of one input; nothing is kept where that input wants no gradient.
  [[nodiscard]] Saved save_for(size_t input, const Tensor& tensor) const {
    return wants(input) ? save(tensor) : Saved();
  }
  [[nodiscard]] Saved save_output(const Tensor& output) const;
  [[nodiscard]] const NodePtr& node() const { return node_; }

 private:
  Record(const char* op, const Tensor* outs, size_t n_outs, const Ref* inputs, size_t n_inputs,
         bool in_place) {
    if (!grad_enabled()) return;
    for (size_t i = 0; i < n_inputs; ++i) {
      const Tensor& input = inputs[i];
      if (input.defined() && input.requires_grad()) {
        start(op, outs, n_outs, inputs, n_inputs, in_place);
        return;
      }
    }
  }
  void start(const char* op, const Tensor* outs, size_t n_outs, const Ref* inputs, size_t n_inputs,
             bool in_place);
  void finish();

  NodePtr node_;
  InlineVector<Tensor, 1> outs_;
  bool in_place_ = false;
};

// Shows the steps from the inputs to `result` as one, called `op`, to those who look at the graph.
void show_as_step(const char* op, const Tensor& result, const Tensor* const* inputs, size_t count);

}  // namespace flambeau
