// AnyValue, and AnyModule: a module whose class, and with it the arguments of its forward(), are
// known only at run time. What Sequential holds.
#pragma once

#include <any>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "flambeau/nn/holder.h"
#include "flambeau/nn/module.h"

namespace flambeau::torch::nn {

class AnyValue {
 public:
  AnyValue() = default;
  template <class T>
  requires(!std::is_same_v<std::decay_t<T>, AnyValue>) explicit AnyValue(T&& value)
      : value_(std::forward<T>(value)) {}

  template <class T>
  T& get() {
    if (T* value = try_get<T>()) return *value;
    refuse(typeid(T));
  }
  template <class T>
  [[nodiscard]] const T& get() const {
    return const_cast<AnyValue*>(this)->get<T>();
  }
  template <class T>
  T* try_get() {
    static_assert(!std::is_reference_v<T>, "AnyValue holds values: ask for the type without &");
    return std::any_cast<T>(&value_);
  }
  template <class T>
  [[nodiscard]] const T* try_get() const {
    return const_cast<AnyValue*>(this)->try_get<T>();
  }
  [[nodiscard]] const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  [[noreturn]] void refuse(const std::type_info& wanted) const;
  std::any value_;
};

namespace detail {

template <class T>
concept IsModule = std::derived_from<std::remove_cvref_t<T>, Module>;

// What is known of a module's class: one object a class, made where it is first put into any.
struct AnyClass {
  const std::type_info& type;
  AnyValue (*forward)(Module& module, std::vector<AnyValue>& arguments);  // one for each parameter
  int parameters;  // of forward(); -1: it takes whatever its first module does
};

[[noreturn]] void refuse_argument(size_t index, const std::type_info& wanted,
                                  const std::type_info& got);
std::string class_name(const std::type_info& type);

template <class T>
T& argument(std::vector<AnyValue>& arguments, size_t index) {
  if (T* value = arguments[index].template try_get<T>()) return *value;
  refuse_argument(index, typeid(T), arguments[index].type_info());
}

template <class M, class... Args>
AnyClass any_class() {
  return {typeid(M),
          [](Module& module, [[maybe_unused]] std::vector<AnyValue>& arguments) {
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return AnyValue(
                  static_cast<M&>(module).forward(argument<std::decay_t<Args>>(arguments, I)...));
            }
            (std::index_sequence_for<Args...>());
          },
          sizeof...(Args)};
}
template <class M, class R, class Base, class... Args>
AnyClass any_class(R (Base::*)(Args...)) {
  return any_class<M, Args...>();
}
template <class M, class R, class Base, class... Args>
AnyClass any_class(R (Base::*)(Args...) const) {
  return any_class<M, Args...>();
}

template <class M>
const AnyClass* class_of() {
  if constexpr (requires(M module, std::vector<AnyValue> arguments) {
                  module.any_forward_values(std::move(arguments));
                }) {
    static const AnyClass sequential{
        typeid(M),
        [](Module& module, std::vector<AnyValue>& arguments) {
          return static_cast<M&>(module).any_forward_values(std::move(arguments));
        },
        -1};
    return &sequential;
  } else if constexpr (requires { &M::forward; }) {
    static const AnyClass own = any_class<M>(&M::forward);
    return &own;
  } else {
    static_assert(
        !std::is_same_v<M, M>,
        "this module cannot be held by an AnyModule or a Sequential: it has no forward(), "
        "or one that is overloaded or a template");
    return nullptr;
  }
}

}  // namespace detail

class AnyModule {
 public:
  AnyModule() = default;
  template <detail::IsModule M>
  explicit AnyModule(std::shared_ptr<M> module)
      : class_(detail::class_of<M>()), module_(std::move(module)) {}
  template <detail::IsModule M>
  explicit AnyModule(M&& module)
      : AnyModule(std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <detail::IsModule M>
  AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }
  template <class M>
  AnyModule& operator=(const ModuleHolder<M>& holder) {
    return *this = AnyModule(holder);
  }

  [[nodiscard]] AnyModule clone(const std::optional<Device>& device = {}) const;

  template <class... Args>
  AnyValue any_forward(Args&&... args) {
    std::vector<AnyValue> values;
    values.reserve(sizeof...(Args));
    (values.emplace_back(std::forward<Args>(args)), ...);
    return any_forward_values(std::move(values));
  }
  template <class R = Tensor, class... Args>
  R forward(Args&&... args) {
    return std::move(any_forward(std::forward<Args>(args)...).template get<R>());
  }
  AnyValue any_forward_values(std::vector<AnyValue> arguments);

  // The module as what it is: by the class of the module, or by its holder.
  template <detail::IsModule M>
  M& get() {
    check("get()");
    return static_cast<M&>(checked(typeid(M)));
  }
  template <detail::IsModule M>
  [[nodiscard]] const M& get() const {
    return const_cast<AnyModule*>(this)->get<M>();
  }
  template <detail::Holder H>
  [[nodiscard]] H get() const {
    return H(std::static_pointer_cast<typename H::ContainedType>(ptr<typename H::ContainedType>()));
  }
  [[nodiscard]] std::shared_ptr<Module> ptr() const {
    check("ptr()");
    return module_;
  }
  template <detail::IsModule M>
  [[nodiscard]] std::shared_ptr<M> ptr() const {
    check("ptr()");
    static_cast<void>(checked(typeid(M)));
    return std::static_pointer_cast<M>(module_);
  }
  [[nodiscard]] const std::type_info& type_info() const {
    check("type_info()");
    return class_->type;
  }
  [[nodiscard]] bool is_empty() const noexcept { return module_ == nullptr; }

 private:
  void check(const char* method) const;
  [[nodiscard]] Module& checked(const std::type_info& wanted) const;

  const detail::AnyClass* class_ = nullptr;
  std::shared_ptr<Module> module_;
};

// A module and its name in a Sequential.
class NamedAnyModule {
 public:
  NamedAnyModule(std::string name, AnyModule module)
      : name_(std::move(name)), module_(std::move(module)) {}
  template <class M>
  requires std::is_constructible_v<AnyModule, M> NamedAnyModule(std::string name, M&& module)
      : NamedAnyModule(std::move(name), AnyModule(std::forward<M>(module))) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  [[nodiscard]] const AnyModule& module() const noexcept { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

}  // namespace flambeau::torch::nn

// For a module whose forward() has default arguments, as a Sequential cannot see them:
// FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(2)}, {2, AnyValue(3.0)}) in its class.
#define FORWARD_HAS_DEFAULT_ARGS(...)                                                           \
  std::vector<std::pair<unsigned int, ::flambeau::torch::nn::AnyValue>> _forward_default_args() \
      const override {                                                                          \
    using ::flambeau::torch::nn::AnyValue;                                                      \
    return {__VA_ARGS__};                                                                       \
  }
