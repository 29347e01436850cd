// Module: parameters, buffers and modules by name; what layers and models derive from.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "flambeau/nn/ordered_dict.h"
#include "flambeau/torch.h"

namespace flambeau::torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace flambeau::torch::serialize

namespace flambeau::torch::nn {

class AnyValue;  // flambeau/nn/any.h
class Module;
template <class Contained>
class ModuleHolder;

namespace detail {
template <class T>
concept Holder = requires {
  typename T::ContainedType;
};
}  // namespace detail

class Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ConstNamedModuleApplyFunction = std::function<void(const std::string&, const Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedModulePointerApplyFunction =
      std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

  Module();
  explicit Module(std::string name);
  Module(const Module&);
  Module& operator=(const Module&);
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  virtual ~Module();

  // The name that was given, or that of the class.
  [[nodiscard]] const std::string& name() const noexcept;

  // A deep copy, where the class has one: see Cloneable.
  [[nodiscard]] virtual std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const;

  // Calls function for this module and all below, parents first.
  void apply(const ModuleApplyFunction& function);
  void apply(const ConstModuleApplyFunction& function) const;
  void apply(const NamedModuleApplyFunction& function, const std::string& name_prefix = {});
  void apply(const ConstNamedModuleApplyFunction& function,
             const std::string& name_prefix = {}) const;
  void apply(const ModulePointerApplyFunction& function) const;
  void apply(const NamedModulePointerApplyFunction& function,
             const std::string& name_prefix = {}) const;

  [[nodiscard]] std::vector<Tensor> parameters(bool recurse = true) const;
  [[nodiscard]] OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  [[nodiscard]] std::vector<Tensor> buffers(bool recurse = true) const;
  [[nodiscard]] OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  // These hand out pointers, so the module itself must be owned by one (unless it is left out).
  [[nodiscard]] std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  [[nodiscard]] OrderedDict<std::string, std::shared_ptr<Module>> named_modules(
      const std::string& name_prefix = {}, bool include_self = true) const;
  [[nodiscard]] std::vector<std::shared_ptr<Module>> children() const;
  [[nodiscard]] OrderedDict<std::string, std::shared_ptr<Module>> named_children() const;

  virtual void train(bool on = true);
  void eval();
  [[nodiscard]] virtual bool is_training() const noexcept;

  virtual void to(Device device, DType dtype, bool non_blocking = false);
  virtual void to(DType dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);

  // What forward() takes where a Sequential has no more to give, by position: see
  // FORWARD_HAS_DEFAULT_ARGS.
  [[nodiscard]] virtual std::vector<std::pair<unsigned int, AnyValue>> _forward_default_args()
      const;

  // This module as one of another class: null if it is none.
  template <class T>
  [[nodiscard]] auto as() noexcept {
    if constexpr (detail::Holder<T>) {
      return dynamic_cast<typename T::ContainedType*>(this);
    } else {
      return dynamic_cast<T*>(this);
    }
  }
  template <class T>
  [[nodiscard]] auto as() const noexcept {
    using Class = std::remove_pointer_t<decltype(const_cast<Module*>(this)->as<T>())>;
    return dynamic_cast<const Class*>(this);
  }

  virtual void pretty_print(std::ostream& stream) const;

  // Parameters and buffers by name, those of modules below in archives of their own: what Python's
  // state_dict has. A module that is_serializable() says no to is left out.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  [[nodiscard]] virtual bool is_serializable() const { return true; }
  // Of the format of what is saved, which Python's modules look at.
  [[nodiscard]] virtual int64_t state_version() const { return 1; }

  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);

  template <class T>
  std::shared_ptr<T> register_module(std::string name, std::shared_ptr<T> module) {
    add_module(std::move(name), module);
    return module;
  }
  template <class T>
  std::shared_ptr<T> register_module(std::string name, ModuleHolder<T> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class T>
  std::shared_ptr<T> replace_module(const std::string& name, std::shared_ptr<T> module) {
    children_[name] = module;
    return module;
  }
  template <class T>
  std::shared_ptr<T> replace_module(const std::string& name, ModuleHolder<T> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name);

 protected:
  // A parameter that reset_parameters() gives its values; none where the layer goes without.
  Tensor& register_empty(std::string name, IntArrayRef sizes, bool present = true);

  OrderedDict<std::string, Tensor> parameters_;
  OrderedDict<std::string, Tensor> buffers_;
  OrderedDict<std::string, std::shared_ptr<Module>> children_;

 private:
  friend class Resettable;
  friend std::ostream& operator<<(std::ostream& stream, const Module& module);

  virtual void clone_(Module& other, const std::optional<Device>& device) {
    static_cast<void>(other), static_cast<void>(device);
  }
  void add_module(std::string name, std::shared_ptr<Module> module);
  void print(std::ostream& stream, const std::string& indentation) const;
  using Tensors = OrderedDict<std::string, Tensor>;
  [[nodiscard]] Tensors named_tensors(Tensors Module::*held, bool recurse) const;
  [[nodiscard]] bool holds_no_tensors() const;
  template <class Convert>
  void convert(const Convert& convert);
  [[nodiscard]] std::shared_ptr<Module> shared() const;

  mutable std::optional<std::string> name_;
  bool is_training_ = true;
};

std::ostream& operator<<(std::ostream& stream, const Module& module);

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Module& module);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Module& module);
template <std::derived_from<Module> M>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::shared_ptr<M>& module) {
  return archive << static_cast<const Module&>(*module);
}
template <std::derived_from<Module> M>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const std::shared_ptr<M>& module) {
  return archive >> static_cast<Module&>(*module);
}

}  // namespace flambeau::torch::nn
