// ModuleHolder: a module with the semantics of a reference, as Python's are: `Linear fc(3, 4)`
// makes a shared LinearImpl, and copies of fc are the same layer. TORCH_MODULE(Linear) declares
// one.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "flambeau/nn/module.h"

namespace flambeau::torch::nn {

namespace detail {
template <class M, class... Args>
concept Forwards = requires(M& module, Args&&... args) {
  module.forward(std::forward<Args>(args)...);
};
Tensor& no_result();  // so that a wrong call is one error, and not one more of its result
}  // namespace detail

template <class Contained>
class ModuleHolder {
 public:
  using ContainedType = Contained;

  ModuleHolder() {
    static_assert(
        std::is_default_constructible_v<Contained>,
        "this module has no default constructor: write `= nullptr` to construct it later");
    impl_ = std::make_shared<Contained>();
  }
  ModuleHolder(std::nullptr_t) {}                                                // NOLINT
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}  // NOLINT
  template <class Head, class... Tail>
  requires(!(sizeof...(Tail) == 0 &&
             (std::derived_from<std::remove_cvref_t<Head>, ModuleHolder> ||
              std::convertible_to<
                  Head, std::shared_ptr<Contained>>))) explicit ModuleHolder(Head&& head,
                                                                             Tail&&... tail)
      : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  [[nodiscard]] bool is_empty() const noexcept { return impl_ == nullptr; }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  [[nodiscard]] std::shared_ptr<Contained> ptr() const {
    check();
    return std::static_pointer_cast<Contained>(impl_);
  }
  Contained* get() {
    check();
    return static_cast<Contained*>(impl_.get());
  }
  [[nodiscard]] const Contained* get() const { return const_cast<ModuleHolder*>(this)->get(); }
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    if constexpr (detail::Forwards<Contained, Args...>) {
      return get()->forward(std::forward<Args>(args)...);
    } else {
      static_assert(
          detail::Forwards<Contained, Args...>,
          "the forward() of this module (Contained) does not take these arguments (Args)");
      return detail::no_result();
    }
  }
  template <class Index>
  decltype(auto) operator[](Index&& index) {
    return (*get())[std::forward<Index>(index)];
  }

 private:
  // Not of its class: a shared_ptr<> of each layer would cost its includers most of their compile
  // time.
  std::shared_ptr<void> impl_;
  void check() const { CHECK(!is_empty(), RuntimeError, "Accessing empty ModuleHolder"); }
};

template <class Contained>
std::ostream& operator<<(std::ostream& stream, const ModuleHolder<Contained>& module) {
  return stream << *module;
}

template <class Contained>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const ModuleHolder<Contained>& module) {
  return archive << module.ptr();
}
template <class Contained>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const ModuleHolder<Contained>& module) {
  return archive >> module.ptr();
}

}  // namespace flambeau::torch::nn

#define TORCH_MODULE_IMPL(Name, ImplType)                              \
  class Name : public ::flambeau::torch::nn::ModuleHolder<ImplType> {  \
   public:                                                             \
    using ::flambeau::torch::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl [[maybe_unused]] = ImplType;                            \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)
