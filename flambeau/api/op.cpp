#include "flambeau/api/op.h"

#include <algorithm>
#include <list>

#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/node.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/call.h"

namespace flambeau::torch {
namespace {

bool is_undefined(const Parameter& parameter, const Value& value) {
  switch (parameter.kind) {
    case Kind::tensor: return parameter.required && !value.given;
    case Kind::operand:
      return value.given && value.operand->is_tensor() && !value.operand->tensor().defined();
    default: return false;
  }
}

// In a list an undefined tensor stands for an empty one, as programs start with that grow a tensor
// by cat; among indices, for a whole dimension.
bool has_undefined(const Parameter& parameter, const Value& value) {
  return parameter.kind == Kind::tensors && value.given && parameter.name != "indices" &&
         !std::ranges::all_of(*value.tensors, &flambeau::Tensor::defined);
}
std::vector<flambeau::Tensor> filled(const std::vector<flambeau::Tensor>& tensors) {
  const auto first = std::ranges::find_if(tensors, &flambeau::Tensor::defined);
  CHECK(first != tensors.end(), RuntimeError, "tensor does not have a device");
  std::vector<flambeau::Tensor> all = tensors;
  for (flambeau::Tensor& tensor : all) {
    if (!tensor.defined()) tensor = make_tensor({0}, first->dtype(), first->device());
  }
  return all;
}

[[noreturn]] void refuse(int index, const std::string& name) {
  fail<RuntimeError>(
      "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #{} '{}'",
      index, index == 0 && name == "input" ? "self" : name);
}

// In C++ the overloads of these that take a number have derivatives of their own; Python makes a
// tensor of the number.
const char* name_with_number(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  for (const char* numbered : {"add.1", "sub.1", "mul.1", "div.1"}) {
    if (name == std::string_view(numbered, 3)) return numbered;
  }
  return nullptr;
}

}  // namespace

Op::Op(const char* name, int index, const char* signature, bool method)
    : family_(find_family(name, method)), overload_(nullptr), with_number_(name_with_number(name)) {
  if (family_) {
    const auto plain = static_cast<int>(family_->overloads.size());
    const std::vector<Overload>& from = index < plain ? family_->overloads : family_->out_forms;
    const auto at = static_cast<size_t>(index < plain ? index : index - plain);
    if (at < from.size() && std::string_view(from[at].op->signature) == signature)
      overload_ = &from[at];
  }
  CHECK(overload_, NotImplementedError,
        "{}: this library has no '{}'; flambeau/torch.h was printed by another one", name,
        signature);
}

Result Op::call(Value* values, const flambeau::Tensor* outs, size_t n_outs,
                bool out_is_tuple) const {
  const OpCall op_call{*family_, *overload_, values, outs, n_outs, outs != nullptr, out_is_tuple};
  const int arity = op_call.op().arity;
  std::list<std::vector<flambeau::Tensor>> lists;
  for (int i = 0; i < arity; ++i) {
    const Parameter& parameter = overload_->parameters[static_cast<size_t>(i)];
    if (is_undefined(parameter, values[i])) refuse(i, parameter.name);
    if (has_undefined(parameter, values[i])) [[unlikely]]
      values[i].tensors = &lists.emplace_back(filled(*values[i].tensors));
  }
  for (size_t i = 0; i < n_outs; ++i) {
    if (!outs[i].defined()) refuse(arity + static_cast<int>(i), "out");
  }
  Result result;
  flambeau::call(op_call, special_of(op_call), result);
  if (with_number_) count_number(values, result.tensor);
  return result;
}

void Op::count_number(const Value* values, const flambeau::Tensor& result) const {
  const auto is_number = [&](size_t i) {
    return overload_->parameters[i].kind == Kind::operand && !values[i].operand->is_tensor();
  };
  const bool commutes = *with_number_ == 'a' || *with_number_ == 'm';  // 2 * x is x * 2
  if (!is_number(1) && !(commutes && is_number(0))) return;
  if (!result.requires_grad()) return;
  const NodePtr node = grad_fn(result);
  if (node && std::string_view(with_number_, 3) == node->op()) node->rename(with_number_);
}

Value Op::unset(int i) const { return overload_->parameters[static_cast<size_t>(i)].fallback; }

void Op::operator()(Value* values) const { static_cast<void>(call(values)); }
flambeau::Tensor Op::tensor(Value* values) const { return call(values).tensor; }
std::vector<flambeau::Tensor> Op::tensors(Value* values) const {
  Result result = call(values);
  if (result.form == Result::Form::tensor) return {std::move(result.tensor)};
  return std::move(result.tensors);
}
torch::Scalar Op::scalar(Value* values) const { return call(values).scalar; }
std::string Op::text(Value* values) const { return call(values).text; }
ScalarType Op::dtype(Value* values) const {
  return static_cast<DType>(call(values).scalar.to_int());
}

void Op::into(Value* values, const flambeau::Tensor& out) const {
  static_cast<void>(call(values, &out, 1));
}
void Op::into(Value* values, const ITensorListRef& outs) const {
  static_cast<void>(call(values, outs.get().data(), outs.get().size(), true));
}

}  // namespace flambeau::torch
