#include "flambeau/api/operators.h"

#include <algorithm>
#include <mutex>

#include "flambeau/autograd/grad_mode.h"

namespace flambeau::torch {

const char* toString(DispatchKey key) {
  static constexpr const char* names[] = {
#define FLAMBEAU_KEY(name) #name,
      FLAMBEAU_DISPATCH_KEYS(FLAMBEAU_KEY)
#undef FLAMBEAU_KEY
  };
  return key == DispatchKey::CatchAll ? "" : names[static_cast<size_t>(key)];
}

namespace {

struct Table {
  std::mutex mutex;
  std::vector<Registration> all;
  std::map<std::string, std::map<std::string, size_t>, std::less<>> kernels;  // by name and key
  std::map<std::string, size_t, std::less<>> schemas;
  std::string errors;
};
// Lives as long as libraries that registered something.
Table& table() {
  static auto* all = new Table;
  return *all;
}

// Kernels that see history and record it themselves. The others compute, and what they are made of
// is not recorded.
bool records(std::string_view key) {
  return key.empty() || key.starts_with("Autograd") || key == "CompositeImplicitAutograd";
}

std::string device_key(const Stack& stack) {
  DeviceType found = kCPU;
  const auto look = [&](const flambeau::Tensor& tensor) {
    if (tensor.defined() && found != kMeta && !tensor.device().is_cpu())
      found = tensor.device().type;
  };
  for (const IValue& value : stack) {
    if (value.isTensor()) look(value.tensor());
    if (!value.isList()) continue;
    for (const IValue& item : value.items()) {
      if (item.isTensor()) look(item.tensor());
    }
  }
  return found == kMeta ? "Meta" : found == kCUDA ? "CUDA" : "CPU";
}

}  // namespace

namespace detail {

void add_registration(Registration registration) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  if (!registration.schema.empty()) {
    const bool fresh = all.schemas.emplace(registration.name, all.all.size()).second;
    CHECK(fresh, RuntimeError,
          "Tried to register an operator ({}{}) with the same name and the "
          "same overload name multiple times.",
          registration.name, registration.schema);
  }
  if (registration.kernel)
    all.kernels[registration.name].insert_or_assign(registration.key, all.all.size());
  all.all.push_back(std::move(registration));
}

std::vector<Registration> registrations(size_t from) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const std::string errors = std::exchange(all.errors, "");
  CHECK(errors.empty(), RuntimeError, "{}", errors);
  return {all.all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.all.size())),
          all.all.end()};
}

void keep_error(const char* where, const std::string& what) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.errors += format("{}TORCH_LIBRARY {}: {}", all.errors.empty() ? "" : "\n", where, what);
}

void refuse_count(size_t expected, size_t given) {
  fail<RuntimeError>("the kernel of an operator takes {} arguments, and {} were given", expected,
                     given);
}

void call_kernel(const Registration& kernel, Stack& stack) {
  if (records(kernel.key)) return (*kernel.kernel)(stack);
  const NoGrad off;
  (*kernel.kernel)(stack);
}

LibraryInit::LibraryInit(Library::Kind kind, void (*body)(Library&), const char* ns,
                         const char* key) {
  try {
    Library library(kind, ns, key);
    body(library);
  } catch (const std::exception& error) {
    keep_error(ns, error.what());
  }
}

}  // namespace detail

// --- Library -------------------------------------------------------------------------------------

std::string Library::full(std::string_view name) const {
  std::string text(name);
  return text.find("::") == std::string::npos ? ns_ + "::" + text : text;
}

Library& Library::def(std::string_view schema, const std::vector<Tag>&) {
  const size_t bracket = schema.find('(');
  CHECK(bracket != std::string_view::npos, RuntimeError,
        "def(\"{}\"): expected a schema such as \"{}(Tensor x) -> Tensor\"", schema, schema);
  std::string_view name = schema.substr(0, bracket);
  while (name.ends_with(' ')) name.remove_suffix(1);
  detail::add_registration({full(name), std::string(schema.substr(bracket)), "", nullptr});
  return *this;
}
Library& Library::def(std::string_view name_or_schema, const CppFunction& function,
                      const std::vector<Tag>& tags) {
  std::string schema(name_or_schema);
  if (schema.find('(') == std::string::npos) schema += function.schema();
  def(schema, tags);
  return impl(schema.substr(0, schema.find('(')), function);
}
Library& Library::impl(std::string_view name, const CppFunction& function) {
  if (!function.kernel()) return *this;  // falls through, as without it
  while (name.ends_with(' ')) name.remove_suffix(1);
  const std::string key = function.key().empty() ? key_ : function.key();
  detail::add_registration({full(name), "", key, function.kernel()});
  return *this;
}
Library& Library::fallback(const CppFunction& function) {
  CHECK(!function.kernel(), NotImplementedError,
        "fallback: Flambeau has no kernels for all operators of a dispatch key");
  return *this;
}
void Library::refuse_class(const std::string& name) const {
  fail<NotImplementedError>("class_(\"{}\"): Flambeau has no classes of TorchScript", name);
}

RegisterOperators&& RegisterOperators::add(
    std::string_view schema, const std::vector<std::pair<std::string, CppFunction>>& kernels) {
  try {
    Library library(Library::FRAGMENT, "", "");
    std::string text(schema);
    if (text.find('(') == std::string::npos && !kernels.empty()) text += kernels[0].second.schema();
    library.def(text);
    for (const auto& [key, function] : kernels)
      detail::add_registration({text.substr(0, text.find('(')), "", key, function.kernel()});
  } catch (const std::exception& error) {
    detail::keep_error(std::string(schema).c_str(), error.what());
  }
  return std::move(*this);  // NOLINT(performance-move-const-arg): to chain
}

// --- Calls ---------------------------------------------------------------------------------------

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) const {
  const std::string full = *overload ? std::string(name) + "." + overload : name;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  CHECK(all.schemas.contains(full), RuntimeError, "Could not find schema for {}.{}", name,
        overload);
  return OperatorHandle(full);
}

void OperatorHandle::callBoxed(Stack& stack) const {
  const std::string device = device_key(stack);
  Registration kernel;
  {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    const auto& known = all.kernels[name_];
    std::vector<std::string> keys = {device, "CompositeExplicitAutograd",
                                     "CompositeImplicitAutograd", ""};
    if (grad_enabled()) keys.insert(keys.begin(), {"Autograd" + device, "Autograd"});
    const auto found =
        std::ranges::find_if(keys, [&](const auto& key) { return known.contains(key); });
    CHECK(found != keys.end(), NotImplementedError,
          "Could not run '{}' with arguments from the '{}' backend: no kernel in C++ is registered "
          "for it",
          name_, device);
    kernel = all.all[known.at(*found)];
  }
  detail::call_kernel(kernel, stack);
}

}  // namespace flambeau::torch
