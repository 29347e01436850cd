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

class Module {
 public:
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
  void to(const auto&...) { refuse("torch::jit::Module::to"); }
  void train(bool = true) { refuse("torch::jit::Module::train"); }
  void eval() { refuse("torch::jit::Module::eval"); }
  [[nodiscard]] bool is_training() const { refuse("torch::jit::Module::is_training"); }
  void save(const auto&...) const { refuse("torch::jit::Module::save"); }
  void dump(bool, bool, bool) const { refuse("torch::jit::Module::dump"); }
};
namespace script {
using jit::Module;
}

inline Module load(const std::string&, std::optional<Device> = {}) { refuse("torch::jit::load"); }
inline Module load(std::istream&, std::optional<Device> = {}) { refuse("torch::jit::load"); }
inline Module freeze(const Module&) { refuse("torch::jit::freeze"); }
inline Module optimize_for_inference(const Module&) {
  refuse("torch::jit::optimize_for_inference");
}
inline void ExportModule(const Module&, const auto&...) { refuse("torch::jit::ExportModule"); }

}  // namespace flambeau::torch::jit
