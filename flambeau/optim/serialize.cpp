// Optimizers in files: the state_dict of Python, {"state": {0: {...}}, "param_groups": [{...}]},
// where parameters are numbers in the order of the groups.
#include "flambeau/serialize.h"
#include "flambeau/optim/optimizer.h"

namespace flambeau::torch::optim {
namespace {

template <class Tensors>
IValue list_of(const Tensors& tensors) {
  std::vector<IValue> values;
  for (const Tensor& tensor : tensors)
    values.push_back(tensor.defined() ? IValue(tensor) : IValue());
  return IValue::of(IValue::Tag::GenericList, std::move(values));
}

IValue value_of(const Field& field) {
  return field.visit([](const auto* value) {
    using T = std::remove_cvref_t<decltype(*value)>;
    if constexpr (std::is_same_v<T, std::deque<Tensor>>) {
      return list_of(*value);
    } else if constexpr (std::is_same_v<T, std::optional<std::vector<Tensor>>>) {
      return *value ? list_of(**value) : IValue();
    } else {
      return IValue(*value);
    }
  });
}

// A number may have been kept as one, or in a tensor.
Tensor tensor_of(const IValue& value) {
  if (value.isNone()) return {};
  if (value.isTensor()) return value.toTensor();
  const DType dtype = value.isInt() ? DType::float32 : DType::float64;
  return torch::full({}, value.toScalar(), TensorOptions(dtype));
}
double number_of(const IValue& value) {
  return value.isTensor() ? value.toTensor().item<double>() : value.toScalar().to_double();
}

void set(const Field& field, const IValue& value) {
  field.visit([&](auto* target) {
    using T = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<T, bool>) {
      *target = value.toBool();
    } else if constexpr (std::is_arithmetic_v<T>) {
      *target = static_cast<T>(number_of(value));
    } else if constexpr (std::is_same_v<T, Pair>) {
      const std::vector<IValue>& both =
          value.isList() ? value.toListRef() : value.toTupleRef().elements();
      CHECK(both.size() == 2, RuntimeError, "expected a pair of numbers, got {}", both.size());
      *target = {number_of(both[0]), number_of(both[1])};
    } else if constexpr (std::is_same_v<T, Tensor>) {
      *target = tensor_of(value);
    } else if constexpr (std::is_same_v<T, std::deque<Tensor>>) {
      target->clear();
      for (const IValue& each : value.toListRef()) target->push_back(tensor_of(each));
    } else if constexpr (std::is_same_v<T, std::optional<std::vector<Tensor>>>) {
      target->reset();
      if (value.isNone()) return;
      target->emplace();
      for (const IValue& each : value.toListRef()) (*target)->push_back(tensor_of(each));
    } else {
      *target = value.toOptional<typename T::value_type>();
    }
  });
}

bool is_kept(const Field& field) {  // Python's state has no key for what there is not
  if (const Tensor* tensor = field.as<Tensor>()) return tensor->defined();
  return true;
}

IValue item(const IValue& dict, const char* key) {
  CHECK(dict.isGenericDict(), RuntimeError, "the state of an optimizer must be a dict, got {}",
        dict.tagKind());
  const IValue* value = dict.pairs().find(key);
  CHECK(value, RuntimeError, "the state of an optimizer has no '{}'", key);
  return *value;
}

void load_group(OptimizerParamGroup& group, const IValue& saved) {
  CHECK(item(saved, "params").toListRef().size() == group.params().size(), ValueError,
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group");
  const IValue* maximize = saved.pairs().find("maximize");
  CHECK(!maximize || !maximize->isBool() || !maximize->toBool(), NotImplementedError,
        "the state was saved with maximize=True, which optimizers in C++ do not have");
  for (const auto& [name, field] : group.options().each())
    if (const IValue* value = saved.pairs().find(name)) set(field, *value);
}

}  // namespace

std::unique_ptr<OptimizerParamState> Optimizer::make_state() const {
  fail<NotImplementedError>(
      "load() needs an optimizer that says how the state of a parameter is made: override "
      "make_state() or load() in your subclass of torch::optim::Optimizer");
}

void Optimizer::save(serialize::OutputArchive& archive) const {
  IValue states = IValue::dict(), root = IValue::dict();
  std::vector<IValue> groups;
  int64_t number = 0;
  for (const OptimizerParamGroup& group : param_groups_) {
    IValue saved = IValue::dict();
    for (const auto& [name, field] : const_cast<OptimizerOptions&>(group.options()).each())
      saved.pairs().set(name, value_of(field));
    std::vector<IValue> numbers;
    for (const Tensor& param : group.params()) {
      numbers.emplace_back(number);
      if (const auto found = state_.find(param.impl()); found != state_.end()) {
        IValue state = IValue::dict();
        for (const auto& [name, field] : found->second->each())
          if (is_kept(field)) state.pairs().set(name, value_of(field));
        states.pairs().set(number, state);
      }
      ++number;
    }
    saved.pairs().set("params", IValue::of(IValue::Tag::GenericList, std::move(numbers)));
    groups.push_back(saved);
  }
  root.pairs().set("state", states);
  root.pairs().set("param_groups", IValue::of(IValue::Tag::GenericList, std::move(groups)));
  archive.assign(root);
}

void Optimizer::load(serialize::InputArchive& archive) {
  const IValue groups = item(archive.value(), "param_groups");
  const IValue states = item(archive.value(), "state");
  CHECK(groups.toListRef().size() == param_groups_.size(), ValueError,
        "loaded state dict has a different number of parameter groups");
  const NoGradGuard unrecorded;
  State loaded;
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    OptimizerParamGroup& group = param_groups_[i];
    const IValue& saved = groups.toListRef()[i];
    load_group(group, saved);
    const std::vector<IValue> numbers = item(saved, "params").toListRef();
    for (size_t j = 0; j < numbers.size(); ++j) {
      const IValue* values = states.pairs().find(numbers[j]);
      if (!values) continue;
      const Tensor& param = group.params()[j];
      std::unique_ptr<OptimizerParamState> state = make_state();
      for (const auto& [name, field] : state->each()) {
        const IValue* value = values->pairs().find(name);
        if (!value) continue;
        set(field, *value);
        // What is kept for each element goes where the parameter is, as its dtype.
        Tensor* tensor = field.as<Tensor>();
        if (tensor && tensor->defined() && name != "step")
          *tensor = tensor->to(param.device(), param->dtype);
      }
      loaded[param.impl()] = std::move(state);
    }
  }
  state_ = std::move(loaded);
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}

}  // namespace flambeau::torch::optim
