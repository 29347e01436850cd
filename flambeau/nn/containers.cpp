#include "flambeau/nn/containers.h"

#include <ostream>

namespace flambeau::torch::nn {

void detail::check_index(size_t index, size_t size) {
  CHECK(index < size, RuntimeError, "Index out of range");
}
void detail::refuse_cast(const std::string& index, const std::type_info& wanted) {
  fail<RuntimeError>("Unable to cast module[{}] to {}", index, class_name(wanted));
}

// --- Sequential ----------------------------------------------------------------------------------

SequentialImpl::SequentialImpl(OrderedDict<std::string, AnyModule>&& modules) {
  for (auto& item : modules) push_back(item.key(), std::move(item.value()));
}
SequentialImpl::SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
  for (const NamedAnyModule& module : modules) push_back(module.name(), module.module());
}

std::shared_ptr<Module> SequentialImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  for (size_t i = 0; i < size(); ++i)
    copy->push_back(children_[i].key(), modules_[i].clone(device));
  copy->train(is_training());
  return copy;
}

void SequentialImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::Sequential"; }

AnyValue SequentialImpl::any_forward_values(std::vector<AnyValue> values) {
  CHECK(!is_empty(), RuntimeError, "Cannot call forward() on an empty Sequential");
  AnyValue result = modules_.front().any_forward_values(std::move(values));
  for (auto module = modules_.begin() + 1; module != modules_.end(); ++module)
    result = module->any_forward(std::move(result));
  return result;
}

void SequentialImpl::push_back(std::string name, AnyModule module) {
  register_module(std::move(name), module.ptr());
  modules_.push_back(std::move(module));
}

void SequentialImpl::push_back(AnyModule module) {
  push_back(std::to_string(size()), std::move(module));
}

std::shared_ptr<Module> SequentialImpl::ptr(size_t index) const {
  detail::check_index(index, size());
  return modules_[index].ptr();
}

void SequentialImpl::refuse_result(const std::type_info& is, const std::type_info& wanted) {
  fail<RuntimeError>("The type of the return value is {}, but you asked for type {}",
                     detail::class_name(is), detail::class_name(wanted));
}

// --- ModuleList, ModuleDict ----------------------------------------------------------------------

std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  copy->train(is_training());
  return copy;
}

void ModuleListImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::ModuleList"; }

void ModuleListImpl::push_back(std::shared_ptr<Module> module) {
  insert(size(), std::move(module));
}

void ModuleListImpl::insert(size_t index, std::shared_ptr<Module> module) {
  CHECK(index <= size(), RuntimeError, "Index out of range");
  modules_.insert(modules_.begin() + static_cast<ptrdiff_t>(index), std::move(module));
  if (index + 1 == size()) {
    register_module(std::to_string(index), modules_.back());
  } else {
    children_.clear();  // those behind it are renamed
    for (size_t i = 0; i < size(); ++i) register_module(std::to_string(i), modules_[i]);
  }
}

std::shared_ptr<Module> ModuleListImpl::ptr(size_t index) const {
  detail::check_index(index, size());
  return modules_[index];
}

ModuleDictImpl::ModuleDictImpl(const Items& modules) { update(modules); }
ModuleDictImpl::ModuleDictImpl(const Dict& modules) { update(modules); }

std::shared_ptr<Module> ModuleDictImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& item : children_) copy->insert(item.key(), item.value()->clone(device));
  copy->train(is_training());
  return copy;
}

void ModuleDictImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::ModuleDict"; }

std::shared_ptr<Module> ModuleDictImpl::operator[](const std::string& key) const {
  return children_[key];
}

void ModuleDictImpl::insert(const std::string& key, std::shared_ptr<Module> module) {
  if (contains(key))
    replace_module(key, std::move(module));
  else
    register_module(key, std::move(module));
}

void ModuleDictImpl::update(const Items& modules) {
  for (const auto& [key, module] : modules) insert(key, module);
}

// --- ParameterList, ParameterDict ----------------------------------------------------------------

namespace {

void print_all(std::ostream& stream, const char* name,
               const OrderedDict<std::string, Tensor>& all) {
  stream << "torch::nn::" << name << "(\n";
  for (const auto& item : all) {
    stream << '(' << item.key() << "): Parameter containing: ["
           << dtype_legacy_name(item.value()->dtype) << " of size " << to_text(item->sizes())
           << "]\n";
  }
  stream << ')';
}

template <class Impl>
std::shared_ptr<Module> copy_parameters(const Impl& from, const std::optional<Device>& device) {
  auto copy = std::make_shared<Impl>();
  for (const auto& item : from.named_parameters(false)) {
    const NoGradGuard unrecorded;
    const Tensor values = device ? item->to(*device) : *item;
    copy->register_parameter(item.key(), values.clone(), item->requires_grad());
  }
  copy->train(from.is_training());
  return copy;
}

}  // namespace

std::shared_ptr<Module> ParameterListImpl::clone(const std::optional<Device>& device) const {
  return copy_parameters(*this, device);
}
void ParameterListImpl::pretty_print(std::ostream& stream) const {
  print_all(stream, "ParameterList", parameters_);
}
void ParameterListImpl::append(const Tensor& parameter) {
  register_parameter(std::to_string(size()), parameter, parameter.requires_grad());
}
void ParameterListImpl::append(const Dict::Item& item) {
  register_parameter(item.key(), item.value(), item->requires_grad());
}
Tensor& ParameterListImpl::at(size_t index) {
  detail::check_index(index, size());
  return parameters_[std::to_string(index)];
}

ParameterDictImpl::ParameterDictImpl(const Dict& parameters) { update(parameters); }
std::shared_ptr<Module> ParameterDictImpl::clone(const std::optional<Device>& device) const {
  return copy_parameters(*this, device);
}
void ParameterDictImpl::pretty_print(std::ostream& stream) const {
  print_all(stream, "ParameterDict", parameters_);
}
Tensor& ParameterDictImpl::insert(const std::string& key, const Tensor& parameter) {
  return register_parameter(key, parameter, parameter.requires_grad());
}
Tensor& ParameterDictImpl::get(const std::string& key) { return parameters_[key]; }

}  // namespace flambeau::torch::nn
