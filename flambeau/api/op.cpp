#include "flambeau/api/op.h"

#include "flambeau/base/check.h"
#include "flambeau/ops/call.h"

namespace flambeau::torch {

Op::Op(const char* name, int index, const char* signature, bool method)
    : family_(find_family(name, method)), overload_(nullptr) {
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
  for (int i = 0; i < op_call.op().arity; ++i) {
    const Parameter& parameter = overload_->parameters[i];
    const bool missing = parameter.kind == Kind::tensor && parameter.required && !values[i].given;
    const bool empty = parameter.kind == Kind::operand && values[i].given &&
                       values[i].operand->is_tensor() && !values[i].operand->tensor().defined();
    CHECK(!missing && !empty, TypeError, "{}(): argument '{}' is an undefined tensor",
          family_->name, parameter.name);
  }
  for (size_t i = 0; i < n_outs; ++i) {
    CHECK(outs[i].defined(), TypeError, "{}(): argument 'out' is an undefined tensor",
          family_->name);
  }
  Result result;
  flambeau::call(op_call, special_of(op_call), result);
  return result;
}

void Op::operator()(Value* values) const { static_cast<void>(call(values)); }
flambeau::Tensor Op::tensor(Value* values) const { return call(values).tensor; }
std::vector<flambeau::Tensor> Op::tensors(Value* values) const {
  Result result = call(values);
  if (result.form == Result::Form::tensor) return {std::move(result.tensor)};
  return std::move(result.tensors);
}
Scalar Op::scalar(Value* values) const { return call(values).scalar; }
std::string Op::text(Value* values) const { return call(values).text; }
DType Op::dtype(Value* values) const { return static_cast<DType>(call(values).scalar.to_int()); }

void Op::into(Value* values, const flambeau::Tensor& out) const {
  static_cast<void>(call(values, &out, 1));
}
void Op::into(Value* values, const TensorList& outs) const {
  static_cast<void>(call(values, outs.get().data(), outs.get().size(), true));
}

}  // namespace flambeau::torch
