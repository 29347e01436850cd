// Classes of tensors, and modes, that answer for operators themselves: __torch_dispatch__.
//
// Note [Dispatched tensors]
// A tensor whose class answers carries the mark Dispatched::mark; it may have no values of its
// own (Note [Wrapped tensors] in tensor/sparse.h). Every op that is not made of others, and has
// such a tensor among its arguments, is asked of the class, under PyTorch's name and with autograd
// off: this layer lies below it. What the class answers enters the graph by the op's own
// derivative: the body of the op runs once more, on shells (tensors of the same geometry on the
// meta device, where kernels do nothing), and the node that it records is grafted to the answer,
// with the arguments and the answer in place of the shells that it saved. In backward its closures
// compute with those, and the class is asked again.
//
// Where the body cannot run without values, or saves one that is neither argument nor answer, the
// class is asked for the derivative as one operator, `name_backward`, which takes the gradients and
// the arguments of the op.
#pragma once

#include <memory>

#include "flambeau/autograd/node.h"
#include "flambeau/ops/call.h"

namespace flambeau {

// The front end, which knows the classes.
struct DispatchHooks {
  // Asks the modes that are on and the classes of the arguments, and keeps what was asked.
  std::shared_ptr<void> (*ask)(const OpCall& call, Result& result);
  // The gradients of all tensors that were among the arguments, from those of the answers.
  std::vector<Tensor> (*ask_gradients)(const std::shared_ptr<void>& asked, const Grads& grads);
  bool (*has_modes)();  // in this thread
};
extern DispatchHooks dispatch_hooks;

// PyTorch's name for what the values are for: "add_.Tensor", "sum.dim_IntList", "relu.default".
std::string operator_name(const OpCall& call);

// While it is not zero, nobody is asked.
inline thread_local constinit int dispatch_disabled = 0;

// Inside of functionalize(), which refuses what writes and is made of other ops. Gives what was.
bool set_functionalizing(bool on);
bool is_functionalizing();

// What PyTorch makes of an op that this library computes at once:
//   static Tensor outer_steps(const Tensor& a, const Tensor& b) { return view(a, {-1, 1}) * b; }
//   STEPS(outer, outer_steps)
// An undefined result: nothing, for these arguments.
// Its function takes what that of the op takes. Only this layer calls it.
struct StepsRegistration {
  template <class F>
  StepsRegistration(std::string_view op, F function) {
    using Call = detail::Invoker<F>;
    add(op, {reinterpret_cast<void (*)()>(function), &Call::call, Call::kinds, Call::arity});
  }
  struct Steps {
    void (*function)();
    void (*invoke)(void (*function)(), const Value* values, Result& result);
    const Kind* kinds;
    int arity;
  };
  static void add(std::string_view op, const Steps& steps);
};
#define STEPS(op, function) STEPS_NUMBERED(__COUNTER__, op, function)
#define STEPS_NUMBERED(number, op, function) \
  static const ::flambeau::StepsRegistration FLAMBEAU_JOIN(steps_, number){#op, +(function)};

}  // namespace flambeau
