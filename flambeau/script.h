// TorchScript, as far as programs name it. There is no interpreter: what would need one raises.
#pragma once

#include <istream>
#include <string>

#include "flambeau/serialize.h"

namespace flambeau::torch::jit {

using flambeau::IValue;

[[noreturn]] inline void refuse(const char* what) {
  fail<NotImplementedError>(
      "{}: there is no interpreter of TorchScript here. Save the weights in Python, "
      "torch.save(model.state_dict(), path), build the module in C++ and torch::load them.",
      what);
}

struct Method {
  template <class... A>
  IValue operator()(const A&...) const {
    refuse("torch::jit::Method");
  }
};

// What is in a module, by name.
template <class T>
struct Named {
  std::string name;
  T value;
};

class Module {
 public:
  template <class T>
  using NamedList = std::vector<Named<T>>;
  IValue forward(const std::vector<IValue>&) { refuse("torch::jit::Module::forward"); }
  template <class... A>
  IValue operator()(const A&...) {
    refuse("torch::jit::Module");
  }
  IValue run_method(const std::string&, const auto&...) {
    refuse("torch::jit::Module::run_method");
  }
  [[nodiscard]] Method get_method(const std::string&) const {
    refuse("torch::jit::Module::get_method");
  }
  [[nodiscard]] IValue attr(const std::string&) const { refuse("torch::jit::Module::attr"); }
  [[nodiscard]] bool hasattr(const std::string&) const { refuse("torch::jit::Module::hasattr"); }
  [[nodiscard]] std::vector<Tensor> parameters() const { refuse("torch::jit::Module::parameters"); }
  [[nodiscard]] std::vector<Tensor> buffers() const { refuse("torch::jit::Module::buffers"); }
  [[nodiscard]] NamedList<Tensor> named_parameters(bool = true) const {
    refuse("torch::jit::Module::named_parameters");
  }
  [[nodiscard]] NamedList<Tensor> named_buffers(bool = true) const {
    refuse("torch::jit::Module::named_buffers");
  }
  [[nodiscard]] NamedList<IValue> named_attributes(bool = true) const {
    refuse("torch::jit::Module::named_attributes");
  }
  [[nodiscard]] NamedList<Module> named_modules() const {
    refuse("torch::jit::Module::named_modules");
  }
  [[nodiscard]] NamedList<Module> named_children() const {
    refuse("torch::jit::Module::named_children");
  }
  [[nodiscard]] std::vector<Module> modules() const { refuse("torch::jit::Module::modules"); }
  [[nodiscard]] std::vector<Module> children() const { refuse("torch::jit::Module::children"); }
  [[nodiscard]] Module clone() const { refuse("torch::jit::Module::clone"); }
  void define(const std::string&) { refuse("torch::jit::Module::define"); }
  void setattr(const std::string&, const auto&) { refuse("torch::jit::Module::setattr"); }
  void register_parameter(const std::string&, const Tensor&, bool) {
    refuse("torch::jit::Module::register_parameter");
  }
  void to(const auto&...) { refuse("torch::jit::Module::to"); }
  void train(bool = true) { refuse("torch::jit::Module::train"); }
  void eval() { refuse("torch::jit::Module::eval"); }
  [[nodiscard]] bool is_training() const { refuse("torch::jit::Module::is_training"); }
  void save(const auto&...) const { refuse("torch::jit::Module::save"); }
  void dump(bool, bool, bool) const { refuse("torch::jit::Module::dump"); }
};
inline Module load(const std::string&, std::optional<Device> = {}) { refuse("torch::jit::load"); }
inline Module load(std::istream&, std::optional<Device> = {}) { refuse("torch::jit::load"); }
inline Module freeze(const Module&) { refuse("torch::jit::freeze"); }
inline Module optimize_for_inference(const Module&) {
  refuse("torch::jit::optimize_for_inference");
}
inline Module compile(const std::string&) { refuse("torch::jit::compile"); }
inline void ExportModule(const Module&, const auto&...) { refuse("torch::jit::ExportModule"); }

namespace script {
using jit::load;
using jit::Module;
}  // namespace script

}  // namespace flambeau::torch::jit

namespace flambeau {
inline torch::jit::Module IValue::toModule() const { torch::jit::refuse("IValue::toModule"); }
}  // namespace flambeau
