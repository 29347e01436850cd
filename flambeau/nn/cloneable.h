// Cloneable: gives a module that can be made anew by reset() a deep copy.
#pragma once

#include "flambeau/nn/module.h"

namespace flambeau::torch::nn {
namespace detail {

// Copies the values of `from` into those of the same names of a module that was just made.
void copy_values(const OrderedDict<std::string, Tensor>& from, OrderedDict<std::string, Tensor>& to,
                 const std::optional<Device>& device, std::string_view kind);
[[noreturn]] void refuse_children(size_t have, size_t want);

}  // namespace detail

template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;

  // Makes parameters, buffers and modules anew; constructors call it, and so does clone().
  virtual void reset() = 0;

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override {
    const NoGradGuard unrecorded;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    copy->parameters_.clear();
    copy->buffers_.clear();
    copy->children_.clear();
    copy->reset();
    detail::copy_values(parameters_, copy->parameters_, device, "parameters");
    detail::copy_values(buffers_, copy->buffers_, device, "buffers");
    if (copy->children_.size() != children_.size())
      detail::refuse_children(copy->children_.size(), children_.size());
    for (const auto& child : children_)
      copy->children_[child.key()]->clone_(*child.value(), device);
    return copy;
  }

 private:
  void clone_(Module& other, const std::optional<Device>& device) final {
    auto copy = std::dynamic_pointer_cast<Derived>(other.clone(device));
    CHECK(copy, RuntimeError,
          "Attempted to clone submodule, but it is of a different type than the submodule it was "
          "to be cloned into");
    static_cast<Derived&>(*this) = *copy;
  }
};

}  // namespace flambeau::torch::nn
