#include "flambeau/nn/any.h"

namespace flambeau::torch::nn {

void AnyValue::refuse(const std::type_info& wanted) const {
  fail<RuntimeError>("Attempted to cast AnyValue to {}, but its actual type is {}",
                     detail::class_name(wanted), detail::class_name(type_info()));
}

void detail::refuse_argument(size_t index, const std::type_info& wanted,
                             const std::type_info& got) {
  fail<RuntimeError>("Expected argument #{} to be of type {}, but received value of type {}", index,
                     class_name(wanted), class_name(got));
}

AnyModule AnyModule::clone(const std::optional<Device>& device) const {
  AnyModule copy;
  copy.class_ = class_;
  if (module_) copy.module_ = module_->clone(device);
  return copy;
}

AnyValue AnyModule::any_forward_values(std::vector<AnyValue> arguments) {
  check("forward()");
  if (class_->parameters >= 0) {
    const auto wanted = static_cast<size_t>(class_->parameters);
    const size_t given = arguments.size();
    const auto defaults = module_->_forward_default_args();
    if (given != wanted && !defaults.empty()) {
      for (const auto& [index, value] : defaults)
        if (index >= given) arguments.push_back(value);
      const size_t required = defaults.front().first;
      CHECK(given >= required && given < wanted, RuntimeError,
            "{}'s forward() method expects at least {} argument(s) and at most {} argument(s), but "
            "received {}.",
            module_->name(), required, wanted, given);
    }
    CHECK(arguments.size() >= wanted, RuntimeError,
          "{}'s forward() method expects {} argument(s), but received {}. If {}'s forward() method "
          "has default arguments, please make sure the forward() method is declared with a "
          "corresponding `FORWARD_HAS_DEFAULT_ARGS` macro.",
          module_->name(), wanted, given, module_->name());
    CHECK(arguments.size() == wanted, RuntimeError,
          "{}'s forward() method expects {} argument(s), but received {}.", module_->name(), wanted,
          given);
  }
  return class_->forward(*module_, arguments);
}

void AnyModule::check(const char* method) const {
  CHECK(module_, RuntimeError, "Cannot call {} on an empty AnyModule", method);
}

Module& AnyModule::checked(const std::type_info& wanted) const {
  CHECK(class_->type == wanted, RuntimeError, "Attempted to cast module of type {} to type {}",
        detail::class_name(class_->type), detail::class_name(wanted));
  return *module_;
}

}  // namespace flambeau::torch::nn
