// Modules that hold others, or parameters: Sequential, ModuleList, ModuleDict, ParameterList and
// ParameterDict. In each, names are those of the state_dict.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flambeau/nn/any.h"
#include "flambeau/nn/cloneable.h"

namespace flambeau::torch::nn {
namespace detail {

template <class T>
concept AnyOne = std::is_constructible_v<AnyModule, T>;

// As a pointer: a module, one that is held, or a pointer itself.
template <class M>
std::shared_ptr<M> shared_module(std::shared_ptr<M> module) {
  return module;
}
template <class M>
std::shared_ptr<M> shared_module(const ModuleHolder<M>& holder) {
  return holder.ptr();
}
template <IsModule M>
auto shared_module(M&& module) {
  return std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module));
}
template <class T>
concept Shareable = requires(T module) {
  detail::shared_module(std::forward<T>(module));
};

void check_index(size_t index, size_t size);
[[noreturn]] void refuse_cast(const std::string& index, const std::type_info& wanted);
template <class T>
std::shared_ptr<T> cast(const std::shared_ptr<Module>& module, const std::string& index) {
  static_assert(IsModule<T>, "only a module can be asked for");
  auto found = std::dynamic_pointer_cast<T>(module);
  if (!found) refuse_cast(index, typeid(T));
  return found;
}

}  // namespace detail

// What those by number share: the elements, and how to go over them.
namespace detail {

template <class Derived, class Element>
class ListImpl : public Cloneable<Derived> {
 public:
  using Iterator = typename std::vector<Element>::iterator;
  using ConstIterator = typename std::vector<Element>::const_iterator;

  void reset() override {}
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) static_cast<Derived&>(*this).push_back(module);
  }
  Iterator begin() { return modules_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  [[nodiscard]] ConstIterator end() const { return modules_.end(); }
  [[nodiscard]] size_t size() const noexcept { return modules_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return modules_.empty(); }

 protected:
  std::vector<Element> modules_;
};

// What those by name share: all is in the dictionary of the module that a state_dict is made of.
template <class Derived, class Value>
class DictImpl : public Cloneable<Derived> {
 public:
  using Dict = OrderedDict<std::string, Value>;
  using Iterator = typename Dict::Iterator;
  using ConstIterator = typename Dict::ConstIterator;

  void reset() override {}
  [[nodiscard]] auto items() const { return dict().pairs(); }
  [[nodiscard]] std::vector<std::string> keys() const { return dict().keys(); }
  [[nodiscard]] std::vector<Value> values() const { return dict().values(); }
  Iterator begin() { return dict().begin(); }
  [[nodiscard]] ConstIterator begin() const { return dict().begin(); }
  Iterator end() { return dict().end(); }
  [[nodiscard]] ConstIterator end() const { return dict().end(); }
  [[nodiscard]] size_t size() const noexcept { return dict().size(); }
  [[nodiscard]] bool empty() const noexcept { return dict().is_empty(); }
  [[nodiscard]] bool is_empty() const noexcept { return dict().is_empty(); }
  [[nodiscard]] bool contains(const std::string& key) const noexcept {
    return dict().contains(key);
  }
  void clear() { dict().clear(); }
  template <class Container>
  void update(const Container& container) {
    for (const auto& item : container)
      static_cast<Derived&>(*this).insert(item.key(), item.value());
  }
  Value pop(const std::string& key) {
    Value value = dict()[key];
    dict().erase(key);
    return value;
  }

 protected:
  Dict& dict() noexcept {
    if constexpr (std::is_same_v<Value, Tensor>)
      return this->parameters_;
    else
      return this->children_;
  }
  [[nodiscard]] const Dict& dict() const noexcept { return const_cast<DictImpl*>(this)->dict(); }
};

}  // namespace detail

// Calls modules one after the other, each with what the one before returned.
class SequentialImpl : public detail::ListImpl<SequentialImpl, AnyModule> {
 public:
  SequentialImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (detail::AnyOne<Modules> && ...)) explicit SequentialImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& modules);
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules);

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void pretty_print(std::ostream& stream) const override;

  template <class R = Tensor, class... Inputs>
  R forward(Inputs&&... inputs) {
    std::vector<AnyValue> values;
    values.reserve(sizeof...(Inputs));
    (values.emplace_back(std::forward<Inputs>(inputs)), ...);
    AnyValue result = any_forward_values(std::move(values));
    if (R* given = result.template try_get<R>()) return std::move(*given);
    refuse_result(result.type_info(), typeid(R));
  }
  AnyValue any_forward_values(std::vector<AnyValue> values);

  void push_back(std::string name, AnyModule module);
  void push_back(AnyModule module);
  template <detail::AnyOne M>
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), AnyModule(std::forward<M>(module)));
  }
  template <detail::AnyOne M>
  void push_back(M&& module) {
    push_back(AnyModule(std::forward<M>(module)));
  }

  template <class T>
  T& at(size_t index) {
    detail::check_index(index, size());
    return modules_[index].get<T>();
  }
  template <class T>
  [[nodiscard]] const T& at(size_t index) const {
    return const_cast<SequentialImpl*>(this)->at<T>(index);
  }
  [[nodiscard]] std::shared_ptr<Module> ptr(size_t index) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> ptr(size_t index) const {
    detail::check_index(index, size());
    return modules_[index].ptr<T>();
  }
  [[nodiscard]] std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }

 private:
  [[noreturn]] static void refuse_result(const std::type_info& is, const std::type_info& wanted);
};

class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  // Sequential({{"first", Linear(3, 4)}, {"second", ReLU()}})
  Sequential(std::initializer_list<NamedAnyModule> modules)
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
};

// Modules by number: only holds them.
class ModuleListImpl : public detail::ListImpl<ModuleListImpl, std::shared_ptr<Module>> {
 public:
  ModuleListImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (detail::Shareable<Modules> && ...)) explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void pretty_print(std::ostream& stream) const override;

  void push_back(std::shared_ptr<Module> module);
  template <detail::Shareable M>
  void push_back(M&& module) {
    push_back(std::shared_ptr<Module>(detail::shared_module(std::forward<M>(module))));
  }
  void insert(size_t index, std::shared_ptr<Module> module);
  template <detail::Shareable M>
  void insert(size_t index, M&& module) {
    insert(index, std::shared_ptr<Module>(detail::shared_module(std::forward<M>(module))));
  }

  [[nodiscard]] std::shared_ptr<Module> ptr(size_t index) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> ptr(size_t index) const {
    return detail::cast<T>(ptr(index), std::to_string(index));
  }
  template <class T>
  T& at(size_t index) {
    return *ptr<T>(index);
  }
  template <class T>
  [[nodiscard]] const T& at(size_t index) const {
    return *ptr<T>(index);
  }
  [[nodiscard]] std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
};
TORCH_MODULE(ModuleList);

// Modules by name: only holds them.
class ModuleDictImpl : public detail::DictImpl<ModuleDictImpl, std::shared_ptr<Module>> {
 public:
  using Items = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;

  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const Items& modules);
  explicit ModuleDictImpl(const Dict& modules);

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void pretty_print(std::ostream& stream) const override;

  [[nodiscard]] std::shared_ptr<Module> operator[](const std::string& key) const;
  template <class T>
  T& at(const std::string& key) {
    return *detail::cast<T>((*this)[key], key);
  }
  template <class T>
  [[nodiscard]] const T& at(const std::string& key) const {
    return *detail::cast<T>((*this)[key], key);
  }
  void insert(const std::string& key, std::shared_ptr<Module> module);
  using DictImpl::update;
  void update(const Items& modules);
};
TORCH_MODULE(ModuleDict);

// Parameters by number.
class ParameterListImpl : public detail::DictImpl<ParameterListImpl, Tensor> {
 public:
  ParameterListImpl() = default;
  template <class... Tensors>
  requires(sizeof...(Tensors) > 0 && (std::convertible_to<Tensors, Tensor> &&
                                      ...)) explicit ParameterListImpl(Tensors&&... parameters) {
    (append(Tensor(std::forward<Tensors>(parameters))), ...);
  }
  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void pretty_print(std::ostream& stream) const override;

  void append(const Tensor& parameter);
  void append(const Dict::Item& item);
  template <class Container>
  void extend(const Container& container) {
    for (const auto& parameter : container) append(parameter);
  }
  template <class Container>
  ParameterListImpl& operator+=(const Container& other) {
    extend(other);
    return *this;
  }
  Tensor& at(size_t index);
  [[nodiscard]] const Tensor& at(size_t index) const {
    return const_cast<ParameterListImpl*>(this)->at(index);
  }
  Tensor& operator[](size_t index) { return at(index); }
  const Tensor& operator[](size_t index) const { return at(index); }
};
TORCH_MODULE(ParameterList);

// Parameters by name.
class ParameterDictImpl : public detail::DictImpl<ParameterDictImpl, Tensor> {
 public:
  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const Dict& parameters);
  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void pretty_print(std::ostream& stream) const override;

  Tensor& insert(const std::string& key, const Tensor& parameter);
  Tensor& get(const std::string& key);
  [[nodiscard]] const Tensor& get(const std::string& key) const {
    return const_cast<ParameterDictImpl*>(this)->get(key);
  }
  Tensor& operator[](const std::string& key) { return get(key); }
  const Tensor& operator[](const std::string& key) const { return get(key); }
};
TORCH_MODULE(ParameterDict);

}  // namespace flambeau::torch::nn
