#include "flambeau/ops/layers/call_op.h"

#include "flambeau/base/check.h"

namespace flambeau {

bool Given::fill_number(const Parameter& parameter, Value& value) const {
  switch (parameter.kind) {
    case Kind::operand: value.operand = &operand_; return true;
    case Kind::scalar: value.scalar = &scalar_; return true;
    case Kind::integer:
      if (type_ != Type::integer) return false;
      value.integer = scalar_.to_int();
      return true;
    case Kind::real: value.real = scalar_.to_double(); return true;
    case Kind::boolean:
      if (type_ != Type::flag) return false;
      value.flag = scalar_.to<bool>();
      return true;
    default: return false;
  }
}

bool Given::fill(const Parameter& parameter, Value& value) const {
  const bool nothing = type_ == Type::nothing || (type_ == Type::tensor && !tensor_->defined()) ||
                       (type_ == Type::generator && !generator_);
  value.given = !nothing;
  if (nothing) return parameter.nullable || parameter.kind == Kind::tensor;
  value.code = code_;
  switch (type_) {
    case Type::number:
    case Type::flag:
    case Type::integer: return fill_number(parameter, value);
    case Type::tensor:
      if (parameter.kind == Kind::operand) {
        value.operand = &operand_;
        return true;
      }
      value.tensor = tensor_;
      return parameter.kind == Kind::tensor;
    case Type::tensors: value.tensors = tensors_; return parameter.kind == Kind::tensors;
    case Type::ints: value.span = {ints_.data(), ints_.size()}; return parameter.kind == Kind::ints;
    case Type::reals: value.reals = reals_; return parameter.kind == Kind::reals;
    case Type::dtype: return parameter.kind == Kind::dtype;
    case Type::layout: return parameter.kind == Kind::layout;
    case Type::memory_format: return parameter.kind == Kind::memory_format;
    case Type::device: value.device = &device_; return parameter.kind == Kind::device;
    case Type::generator: value.generator = generator_; return parameter.kind == Kind::generator;
    case Type::options: value.options = options_; return parameter.kind == Kind::options;
    case Type::text:
      value.span = {text_.data(), text_.size()};
      return parameter.kind == Kind::string;
    default: return false;
  }
}

namespace {

bool fill_all(const Overload& overload, std::initializer_list<Given> given, Value* values) {
  static const Options no_options;
  if (given.size() > overload.parameters.size()) return false;
  size_t at = 0;
  for (const Parameter& parameter : overload.parameters) {
    values[at] = parameter.fallback;
    if (parameter.kind == Kind::options) values[at].given = true, values[at].options = &no_options;
    if (at < given.size() ? !(given.begin() + at)->fill(parameter, values[at]) : parameter.required)
      return false;
    ++at;
  }
  return true;
}

}  // namespace

Result call_op(std::string_view name, std::initializer_list<Given> given) {
  Value values[max_arguments];
  const std::string unlisted = "_" + std::string(name);
  for (const std::string_view known : {name, std::string_view(unlisted)}) {
    for (const bool method : {false, true}) {
      const Family* family = find_family(known, method);
      if (!family) continue;
      for (const Overload& overload : family->overloads) {
        if (!fill_all(overload, given, values)) continue;
        Result result;
        const OpCall again{*family, overload, values};
        call(again, special_of(again), result);
        return result;
      }
    }
  }
  fail<RuntimeError>("{}: no overload takes these {} arguments", name, given.size());
}

}  // namespace flambeau
