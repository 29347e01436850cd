// The one entry of every op: call(). Whoever calls an op by its registry row (Python, the printed
// C++ header, a layer) comes through here, and so do the forms that every op has: functional, in
// place, into out=.
//
// Note [Layers]
// What changes the meaning of all ops stands over the entry, a file each in ops/layers: autocast,
// vmap, the profiler, tensors on which something is pending. A call goes there if one of its
// tensors is marked (`special`, bits of TensorImpl::pending) or a layer is on in this thread
// (`active`), and straight to the function otherwise. A layer takes itself off, changes the values,
// and calls again.
#pragma once

#include "flambeau/base/current_op.h"
#include "flambeau/base/profiler.h"
#include "flambeau/ops/signature.h"

namespace flambeau {

constexpr int max_arguments = 20;

struct OpCall {
  const Family& family;      // the name it was called by
  const Overload& overload;  // what the values are for
  Value* values;
  // The tensors of out=, which may be of a tuple.
  const Tensor* outs = nullptr;
  size_t n_outs = 0;
  bool has_out = false, out_is_tuple = false;

  [[nodiscard]] const OpDef& op() const { return *overload.op; }
  [[nodiscard]] const std::string& name() const { return family.name; }
  // Whether value i is that of out= itself, which functions take that write there.
  [[nodiscard]] bool is_out(int i) const {
    return op().has(OpDef::out_form) && overload.parameters[i].name == "out";
  }
  // Whether the first value is a tensor that is written to.
  [[nodiscard]] bool in_place() const { return family.inplace_by_copy || family.writes_self; }
};

// Layers that are on in this thread, as bits.
struct Active {
  static constexpr uint8_t profiler = 1, autocast = 2, vmap = 4, dispatch = 8;
  static constexpr uint8_t inner = autocast | dispatch;  // those that see what ops are made of
};
inline thread_local constinit uint8_t active_layers = 0;

// The function itself, in the form that is asked for. Layers end here.
void call_function(const OpCall& call, Result& result);
[[gnu::cold, gnu::noinline]] void call_layers(const OpCall& call, uint8_t special, Result& result);

inline void invoke(const OpCall& call, Result& result) {
  current_op = call.op().signature;
  call.op().invoke(call.op().function, call.values, result);
}

// What a function wrote while it made its result is no write to the result: version 0.
inline bool may_have_writes(const Result& result) {
  return result.tensor.defined() ? static_cast<bool>(result.tensor->version)
                                 : !result.tensors.empty();
}
void forget_writes(const OpCall& call, Result& result);

inline void call(const OpCall& call, uint8_t special, Result& result) {
  if ((special & ~call.family.takes) | active_layers | profiling()) [[unlikely]]
    return call_layers(call, special, result);
  if (!call.family.inplace_by_copy && !call.has_out) [[likely]] {
    invoke(call, result);
    if (may_have_writes(result)) [[unlikely]]
      forget_writes(call, result);
    return;
  }
  call_function(call, result);
}

// PyTorch's name for the overload that the values are for: "Tensor", "dim_IntList", "default".
std::string overload_name(const OpCall& call);

// ops/write.cpp: the result of a function in the place of its first argument, or in out=.
void call_in_place(const OpCall& call, Result& result);
void call_into(const OpCall& call, Result& result);

// Visits every tensor among the values: visit(const Tensor&, whether it is one of a list).
template <class Visit>
void each_tensor(const OpCall& call, Visit&& visit) {
  for (int i = 0; i < call.op().arity; ++i) {
    const Value& value = call.values[i];
    if (!value.given) continue;
    switch (call.op().kinds[i]) {
      case Kind::tensor: visit(*value.tensor, false); break;
      case Kind::operand:
        if (value.operand->is_tensor()) visit(value.operand->tensor(), false);
        break;
      case Kind::tensors:
        for (const Tensor& tensor : *value.tensors) {
          if (tensor.defined()) visit(tensor, true);
        }
        break;
      default: break;
    }
  }
}

// What is pending on any of them.
inline uint8_t special_of(const OpCall& call) {
  uint8_t special = 0;
  each_tensor(call, [&](const Tensor& tensor, bool) { special |= tensor->pending; });
  for (size_t i = 0; i < call.n_outs; ++i) special |= call.outs[i]->pending;
  return special;
}

}  // namespace flambeau
