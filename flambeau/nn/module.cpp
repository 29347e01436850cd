#include "flambeau/nn/module.h"

#include <ostream>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "flambeau/base/demangle.h"
#include "flambeau/io/archive.h"
#include "flambeau/nn/any.h"
#include "flambeau/nn/cloneable.h"

namespace flambeau::torch::nn {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

void check_name(const std::string& name, const char* kind) {
  CHECK(!name.empty(), RuntimeError, "{} name must not be empty", kind);
  CHECK(name.find('.') == std::string::npos, RuntimeError,
        "{} name must not contain a dot (got '{}')", kind, name);
}

template <class M, class Visit>
void walk(M& module, const std::string& name, const Visit& call) {
  call(name, module);
  for (const auto& child : std::as_const(module).named_children())
    walk<M>(*child.value(), join(name, child.key()), call);
}

}  // namespace

// Classes of ours are called as programs write them: torch::nn::LinearImpl.
std::string detail::class_name(const std::type_info& type) {
  std::string name = demangled(type.name());
  constexpr std::string_view ours = "flambeau::torch::";
  for (size_t at = 0; (at = name.find(ours, at)) != std::string::npos;)
    name.erase(at, std::string_view("flambeau::").size());
  return name;
}

Module::Module() : parameters_("Parameter"), buffers_("Buffer"), children_("Submodule") {}
Module::Module(std::string name) : Module() { name_ = std::move(name); }
Module::Module(const Module&) = default;
Module& Module::operator=(const Module&) = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

const std::string& Module::name() const noexcept {
  // Not in the constructor, where this is not yet an object of the class that derives.
  if (!name_) name_ = detail::class_name(typeid(*this));
  return *name_;
}

std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  fail<NotImplementedError>(
      "clone() has not been implemented for {}. Subclass torch::nn::Cloneable<{}> instead of "
      "torch::nn::Module to inherit the ability to clone.",
      name(), name());
}

std::vector<std::pair<unsigned int, AnyValue>> Module::_forward_default_args() const { return {}; }

// --- Walks ---------------------------------------------------------------------------------------

void Module::apply(const ModuleApplyFunction& function) {
  walk(*this, {}, [&](const std::string&, Module& module) { function(module); });
}
void Module::apply(const ConstModuleApplyFunction& function) const {
  walk(*this, {}, [&](const std::string&, const Module& module) { function(module); });
}
void Module::apply(const NamedModuleApplyFunction& function, const std::string& name_prefix) {
  walk(*this, name_prefix, function);
}
void Module::apply(const ConstNamedModuleApplyFunction& function,
                   const std::string& name_prefix) const {
  walk(*this, name_prefix, function);
}
void Module::apply(const ModulePointerApplyFunction& function) const {
  for (const auto& item : named_modules()) function(item.value());
}
void Module::apply(const NamedModulePointerApplyFunction& function,
                   const std::string& name_prefix) const {
  for (const auto& item : named_modules(name_prefix)) function(item.key(), item.value());
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  return named_parameters(recurse).values();
}
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<std::string, Tensor> Module::named_tensors(Tensors Module::*held, bool recurse) const {
  Tensors all;
  const auto take = [&](const std::string& name, const Module& module) {
    for (const auto& item : module.*held)
      if (item->defined()) all.insert(join(name, item.key()), item.value());
  };
  recurse ? walk(*this, {}, take) : take({}, *this);
  return all;
}
OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  return named_tensors(&Module::parameters_, recurse);
}
OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  return named_tensors(&Module::buffers_, recurse);
}

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules({}, include_self).values();
}

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(
    const std::string& name_prefix, bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> all;
  if (include_self) all.insert(name_prefix, shared());
  const std::function<void(const Module&, const std::string&)> below = [&](const Module& module,
                                                                           const auto& prefix) {
    for (const auto& child : module.children_) {
      const std::string name = join(prefix, child.key());
      all.insert(name, child.value());
      below(*child.value(), name);
    }
  };
  below(*this, name_prefix);
  return all;
}

std::vector<std::shared_ptr<Module>> Module::children() const { return children_.values(); }
OrderedDict<std::string, std::shared_ptr<Module>> Module::named_children() const {
  return children_;
}

std::shared_ptr<Module> Module::shared() const {
  auto self = std::const_pointer_cast<Module>(weak_from_this().lock());
  CHECK(self, RuntimeError,
        "It looks like you attempted to retrieve your top-level module as a shared_ptr, but it is "
        "not stored in a shared_ptr. Use std::make_shared<{}> instead of creating your module on "
        "the stack, or alternatively do not try to access your top-level module at all by passing "
        "/*include_self=*/false to modules() or named_modules()",
        name());
  return self;
}

// --- State ---------------------------------------------------------------------------------------

void Module::train(bool on) {
  for (auto& child : children_) child.value()->train(on);
  is_training_ = on;
}
void Module::eval() { train(false); }
bool Module::is_training() const noexcept { return is_training_; }

template <class Convert>
void Module::convert(const Convert& convert) {
  for (auto& child : children_) child.value()->convert(convert);
  for (auto* tensors : {&parameters_, &buffers_})
    for (auto& item : *tensors)
      if (item->defined()) item->set_data(convert(item.value()));
}

// Integers keep their dtype, as they count.
void Module::to(Device device, DType dtype, bool non_blocking) {
  convert([&](const Tensor& tensor) {
    return tensor.to(device, is_differentiable(tensor->dtype) ? dtype : tensor->dtype,
                     non_blocking);
  });
}
void Module::to(DType dtype, bool non_blocking) {
  convert([&](const Tensor& tensor) {
    return is_differentiable(tensor->dtype) ? tensor.to(dtype, non_blocking) : tensor;
  });
}
void Module::to(Device device, bool non_blocking) {
  convert([&](const Tensor& tensor) { return tensor.to(device, tensor->dtype, non_blocking); });
}

void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) child.value()->zero_grad(set_to_none);
  for (auto& parameter : parameters_)
    if (parameter->defined()) torch::detail::zero_gradient(parameter.value(), set_to_none);
}

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name(name, "Parameter");
  if (tensor.defined() && requires_grad) tensor.requires_grad_();
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor& Module::register_empty(std::string name, IntArrayRef sizes, bool present) {
  return register_parameter(std::move(name), present ? torch::empty(sizes) : Tensor());
}

Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name(name, "Buffer");
  return buffers_.insert(std::move(name), std::move(tensor));
}

void Module::add_module(std::string name, std::shared_ptr<Module> module) {
  check_name(name, "Submodule");
  children_.insert(std::move(name), std::move(module));
}

void Module::unregister_module(const std::string& name) {
  CHECK(children_.contains(name), RuntimeError,
        "No Module with name `{}` is registered in module `{}`.", name, this->name());
  children_.erase(name);
}

// --- Printing ------------------------------------------------------------------------------------

void Module::pretty_print(std::ostream& stream) const { stream << name(); }

void Module::print(std::ostream& stream, const std::string& indentation) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  stream << "(\n";
  const std::string below = indentation + "  ";
  for (const auto& child : children_) {
    stream << below << '(' << child.key() << "): ";
    child.value()->print(stream, below);
    stream << '\n';
  }
  stream << indentation << ')';
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.print(stream, {});
  return stream;
}

// --- Files ---------------------------------------------------------------------------------------

void Module::save(serialize::OutputArchive& archive) const {
  archive.set_version(state_version());
  for (const auto& parameter : parameters_)
    if (parameter->defined()) archive.write(parameter.key(), parameter->detach());
  for (const auto& buffer : buffers_)
    if (buffer->defined()) archive.write(buffer.key(), *buffer, true);
  for (const auto& child : children_) {
    if (!child.value()->is_serializable()) continue;
    serialize::OutputArchive below;
    child.value()->save(below);
    archive.write(child.key(), below);
  }
}

void Module::load(serialize::InputArchive& archive) {
  for (auto& parameter : parameters_)
    if (parameter->defined()) archive.read(parameter.key(), *parameter);
  for (auto& buffer : buffers_)
    if (buffer->defined()) archive.read(buffer.key(), *buffer, true);
  for (auto& child : children_) {
    // A module without tensors has no names in a file.
    if (!child.value()->is_serializable() || child.value()->holds_no_tensors()) continue;
    serialize::InputArchive below;
    archive.read(child.key(), below);
    child.value()->load(below);
  }
}

bool Module::holds_no_tensors() const {
  return named_parameters().is_empty() && named_buffers().is_empty();
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Module& module) {
  module.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Module& module) {
  module.load(archive);
  return archive;
}

// --- Copies --------------------------------------------------------------------------------------

namespace {

// The values of `from` into those of the same names of a module that was just made.
void copy_values(const OrderedDict<std::string, Tensor>& from, OrderedDict<std::string, Tensor>& to,
                 const std::optional<Device>& device, std::string_view kind) {
  CHECK(to.size() == from.size(), RuntimeError,
        "The cloned module does not have the same number of {} as the original module after "
        "calling reset(). Are you sure you called register_parameter() and register_buffer() "
        "inside reset() and not the constructor?",
        kind);
  for (const auto& item : from) {
    if (!item->defined()) continue;
    Tensor& value = to[item.key()];
    value.set_data(device ? item->clone().to(*device, item.value()->dtype) : item->clone());
  }
}

}  // namespace

std::shared_ptr<Module> Resettable::separate(std::shared_ptr<Resettable> copy,
                                             const std::optional<Device>& device) const {
  const NoGradGuard unrecorded;
  copy->parameters_.clear();
  copy->buffers_.clear();
  copy->children_.clear();
  copy->reset();
  copy_values(parameters_, copy->parameters_, device, "parameters");
  copy_values(buffers_, copy->buffers_, device, "buffers");
  CHECK(
      copy->children_.size() == children_.size(), RuntimeError,
      "The cloned module does not have the same number of child modules as the original module "
      "after calling reset() ({} instead of {}). Are you sure you called register_module() inside "
      "reset() and not the constructor?",
      copy->children_.size(), children_.size());
  for (const auto& child : children_) copy->children_[child.key()]->clone_(*child.value(), device);
  return copy;
}

void Resettable::refuse_class() {
  fail<RuntimeError>(
      "Attempted to clone submodule, but it is of a different type than the submodule it was to be "
      "cloned into");
}

}  // namespace flambeau::torch::nn
