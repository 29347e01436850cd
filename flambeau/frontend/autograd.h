// torch::autograd for C++ programs: gradients of chosen tensors, functions with a backward of their
// own, anomaly mode.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flambeau/api/array_ref.h"
#include "flambeau/autograd/custom_function.h"
#include "flambeau/io/value.h"
#include "flambeau/torch.h"

namespace flambeau {
std::ostream& operator<<(std::ostream& stream, const NodePtr& node);  // whether there is one
}

namespace flambeau::torch::autograd {

using Variable = Tensor;
using variable_list = std::vector<Tensor>;
using tensor_list = variable_list;
inline bool any_variable_requires_grad(const variable_list& tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.requires_grad()) return true;
  }
  return false;
}

// Adds the gradients of tensors to their leaves, or to `inputs` alone.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              std::optional<bool> retain_graph = {}, bool create_graph = false,
              const variable_list& inputs = {});
// The gradients of the outputs by the inputs.
variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = {},
                   bool create_graph = false, bool allow_unused = false);

struct AnomalyMode {
  static bool is_enabled();
  static bool should_check_nan();
  static void set_enabled(bool enabled, bool check_nan = true);
};
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool enabled_, check_nan_;
};

// What forward and backward of a Function share.
struct AutogradContext {
  AutogradContext() = default;
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  std::unordered_map<std::string, IValue> saved_data;

  void save_for_backward(variable_list to_save) { to_save_ = std::move(to_save); }
  [[nodiscard]] variable_list get_saved_variables() const;
  // Inputs that forward wrote to, which it must return.
  void mark_dirty(const variable_list& inputs) { call_.dirty.assign(inputs.begin(), inputs.end()); }
  void mark_non_differentiable(const variable_list& outputs) {
    call_.non_differentiable.assign(outputs.begin(), outputs.end());
  }
  // Whether a gradient that did not come is zeros in backward, or undefined.
  void set_materialize_grads(bool value) { materialize_grads_ = value; }
  [[nodiscard]] bool needs_input_grad(size_t edge) const;

 private:
  friend class Application;
  CustomCall call_;
  variable_list to_save_;
  std::vector<Saved> saved_;
  Node* node_ = nullptr;  // which owns this
  bool materialize_grads_ = true;
};

// One call of a Function: what is not of its type.
class Application {
 public:
  using Backward = variable_list (*)(AutogradContext* context, variable_list grad_outputs);
  Application(const std::type_info& function, Backward backward);
  [[nodiscard]] AutogradContext* context() const { return context_.get(); }

  template <class T>
  void take(const T& argument) {
    if constexpr (std::is_convertible_v<const T&, const flambeau::Tensor&>) {
      add(argument);
    } else if constexpr (std::is_same_v<T, std::optional<Tensor>>) {
      argument ? add(*argument) : add_other();
    } else if constexpr (std::is_convertible_v<const T&, ArrayRef<Tensor>>) {
      for (const Tensor& tensor : ArrayRef<Tensor>(argument)) add(tensor);
    } else {
      add_other();
    }
  }
  variable_list finish(const variable_list& outputs);

 private:
  void add(const Tensor& input);
  void add_other() { is_tensor_.push_back(false); }

  std::shared_ptr<AutogradContext> context_;
  std::string name_;
  Backward backward_;
  std::vector<bool> is_tensor_;  // for each argument of forward
};

// Derive as struct MyFunction : Function<MyFunction>, with static functions forward(context, ...)
// and backward(context, gradients of the outputs), and call MyFunction::apply(...).
template <class T>
struct Function {
  template <class X = T, class... Args>
  static auto apply(Args&&... args) {
    using Output = decltype(X::forward(std::declval<AutogradContext*>(), std::declval<Args>()...));
    static_assert(
        std::is_convertible_v<Output, Tensor> || std::is_convertible_v<Output, variable_list>,
        "forward of a Function returns a Tensor or a variable_list");
    Application application(typeid(T), [](AutogradContext* context, variable_list grads) {
      return static_cast<variable_list>(T::backward(context, std::move(grads)));
    });
    (application.take(args), ...);
    const auto run = [&] {
      const AutoGradMode unrecorded(false);
      return X::forward(application.context(), std::forward<Args>(args)...);
    };
    if constexpr (std::is_convertible_v<Output, Tensor>) {
      return application.finish({run()})[0];
    } else {
      return application.finish(run());
    }
  }
};

}  // namespace flambeau::torch::autograd
