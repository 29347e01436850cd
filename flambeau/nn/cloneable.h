// Cloneable: gives a module that can be made anew by reset() a deep copy.
#pragma once

#include "flambeau/nn/module.h"

namespace flambeau::torch::nn {

class Resettable : public Module {
 public:
  using Module::Module;

  // Makes parameters, buffers and modules anew; constructors call it, and so does clone().
  virtual void reset() = 0;

 protected:
  // Gives a shallow copy tensors of its own.
  [[nodiscard]] std::shared_ptr<Module> separate(std::shared_ptr<Resettable> copy,
                                                 const std::optional<Device>& device) const;
  [[noreturn]] static void refuse_class();
};

template <class Derived>
class Cloneable : public Resettable {
 public:
  using Resettable::Resettable;

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override {
    return separate(std::make_shared<Derived>(static_cast<const Derived&>(*this)), device);
  }

 private:
  void clone_(Module& other, const std::optional<Device>& device) final {
    const auto copy = other.clone(device);
    const auto* same = dynamic_cast<const Derived*>(copy.get());
    if (same == nullptr) refuse_class();
    static_cast<Derived&>(*this) = *same;
  }
};

}  // namespace flambeau::torch::nn
