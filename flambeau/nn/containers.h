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

// Calls modules one after the other, each with what the one before returned.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

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
  void reset() override {}
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
  void push_back(AnyModule module) { push_back(std::to_string(size()), std::move(module)); }
  template <detail::AnyOne M>
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), AnyModule(std::forward<M>(module)));
  }
  template <detail::AnyOne M>
  void push_back(M&& module) {
    push_back(AnyModule(std::forward<M>(module)));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  Iterator begin() { return modules_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  [[nodiscard]] ConstIterator end() const { return modules_.end(); }
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
  [[nodiscard]] size_t size() const noexcept { return modules_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return modules_.empty(); }

 private:
  [[noreturn]] static void refuse_result(const std::type_info& is, const std::type_info& wanted);
  std::vector<AnyModule> modules_;
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
class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;

  ModuleListImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (detail::Shareable<Modules> && ...)) explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  void push_back(std::shared_ptr<Module> module) { insert(size(), std::move(module)); }
  template <detail::Shareable M>
  void push_back(M&& module) {
    push_back(std::shared_ptr<Module>(detail::shared_module(std::forward<M>(module))));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  void insert(size_t index, std::shared_ptr<Module> module);
  template <detail::Shareable M>
  void insert(size_t index, M&& module) {
    insert(index, std::shared_ptr<Module>(detail::shared_module(std::forward<M>(module))));
  }

  Iterator begin() { return modules_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  [[nodiscard]] ConstIterator end() const { return modules_.end(); }
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
  [[nodiscard]] size_t size() const noexcept { return modules_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

// Modules by name: only holds them.
class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Items = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;
  using Iterator = OrderedDict<std::string, std::shared_ptr<Module>>::Iterator;
  using ConstIterator = OrderedDict<std::string, std::shared_ptr<Module>>::ConstIterator;

  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const Items& modules) { update(modules); }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) {
    update(modules);
  }

  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  [[nodiscard]] Items items() const { return children_.pairs(); }
  [[nodiscard]] std::vector<std::string> keys() const { return children_.keys(); }
  [[nodiscard]] std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  Iterator begin() { return children_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return children_.begin(); }
  Iterator end() { return children_.end(); }
  [[nodiscard]] ConstIterator end() const { return children_.end(); }
  [[nodiscard]] size_t size() const noexcept { return children_.size(); }
  [[nodiscard]] bool empty() const noexcept { return children_.is_empty(); }
  [[nodiscard]] bool contains(const std::string& key) const noexcept {
    return children_.contains(key);
  }
  void clear() { children_.clear(); }

  [[nodiscard]] std::shared_ptr<Module> operator[](const std::string& key) const {
    return children_[key];
  }
  template <class T>
  T& at(const std::string& key) {
    return *detail::cast<T>(children_[key], key);
  }
  template <class T>
  [[nodiscard]] const T& at(const std::string& key) const {
    return *detail::cast<T>(children_[key], key);
  }
  std::shared_ptr<Module> pop(const std::string& key);
  void insert(const std::string& key, std::shared_ptr<Module> module);
  void update(const Items& modules) {
    for (const auto& [key, module] : modules) insert(key, module);
  }
  template <class Container>
  void update(const Container& container) {
    for (const auto& item : container) insert(item.key(), item.value());
  }
};
TORCH_MODULE(ModuleDict);

// Parameters by number.
class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterListImpl() = default;
  template <class... Tensors>
  requires(sizeof...(Tensors) > 0 && (std::convertible_to<Tensors, Tensor> &&
                                      ...)) explicit ParameterListImpl(Tensors&&... parameters) {
    (append(Tensor(std::forward<Tensors>(parameters))), ...);
  }
  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  void append(const Tensor& parameter);
  void append(const OrderedDict<std::string, Tensor>::Item& item);
  template <class Container>
  void extend(const Container& container) {
    for (const auto& parameter : container) append(parameter);
  }
  template <class Container>
  ParameterListImpl& operator+=(const Container& other) {
    extend(other);
    return *this;
  }

  Iterator begin() { return parameters_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  [[nodiscard]] ConstIterator end() const { return parameters_.end(); }
  Tensor& at(size_t index) {
    detail::check_index(index, size());
    return parameters_[std::to_string(index)];
  }
  [[nodiscard]] const Tensor& at(size_t index) const {
    return const_cast<ParameterListImpl*>(this)->at(index);
  }
  Tensor& operator[](size_t index) { return at(index); }
  const Tensor& operator[](size_t index) const { return at(index); }
  [[nodiscard]] size_t size() const noexcept { return parameters_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterList);

// Parameters by name.
class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) {
    update(parameters);
  }
  [[nodiscard]] std::shared_ptr<Module> clone(
      const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  Tensor& insert(const std::string& key, const Tensor& parameter);
  Tensor pop(const std::string& key);
  template <class Container>
  void update(const Container& container) {
    for (const auto& item : container) insert(item.key(), item.value());
  }
  void clear() { parameters_.clear(); }

  [[nodiscard]] std::vector<std::string> keys() const { return parameters_.keys(); }
  [[nodiscard]] std::vector<Tensor> values() const { return parameters_.values(); }
  Iterator begin() { return parameters_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  [[nodiscard]] ConstIterator end() const { return parameters_.end(); }
  [[nodiscard]] size_t size() const noexcept { return parameters_.size(); }
  [[nodiscard]] bool empty() const noexcept { return parameters_.is_empty(); }
  [[nodiscard]] bool contains(const std::string& key) const noexcept {
    return parameters_.contains(key);
  }
  Tensor& get(const std::string& key) { return parameters_[key]; }
  [[nodiscard]] const Tensor& get(const std::string& key) const { return parameters_[key]; }
  Tensor& operator[](const std::string& key) { return parameters_[key]; }
  const Tensor& operator[](const std::string& key) const { return parameters_[key]; }
};
TORCH_MODULE(ParameterDict);

}  // namespace flambeau::torch::nn
