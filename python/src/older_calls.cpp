// Calls that old programs make: numbers among the tensors, add_(0.1, grad), where they are keywords
// today, add_(grad, alpha=0.1).
#include "python/src/older_calls.h"

#include <algorithm>

namespace flambeau::python {
namespace {

constexpr OlderOrder older_orders[] = {{"add", 2, {"alpha"}},
                                       {"sub", 2, {"alpha"}},
                                       {"addcmul", 3, {"value"}},
                                       {"addcdiv", 3, {"value"}},
                                       {"addmm", 3, {"beta", "alpha"}},
                                       {"addmv", 3, {"beta", "alpha"}},
                                       {"addr", 3, {"beta", "alpha"}},
                                       {"addbmm", 3, {"beta", "alpha"}},
                                       {"baddbmm", 3, {"beta", "alpha"}}};

}  // namespace

const OlderOrder* older_order_of(std::string_view op) {
  if (op.back() == '_') op.remove_suffix(1);
  const auto* found = std::find_if(std::begin(older_orders), std::end(older_orders),
                                   [op](const OlderOrder& order) { return op == order.op; });
  return found == std::end(older_orders) ? nullptr : found;
}

bool OlderCall::arrange(const OlderOrder& order, const Call& call, bool is_method) {
  std::vector<PyObject*> numbers;
  for (Py_ssize_t i = 0; i < call.nargs; ++i) {
    (is_tensor(call.args[i]) ? args_ : numbers).push_back(call.args[i]);
  }
  const bool two = order.numbers[1] != nullptr;
  // beta stands before the tensor that it belongs to, which a method has before its arguments.
  const Py_ssize_t first = two && !is_method ? 0 : 1;
  if (static_cast<int>(args_.size()) != order.tensors || numbers.empty() ||
      numbers.size() > (two ? 2 : 1) || is_tensor(call.args[first]))
    return false;
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) args_.push_back(call.args[call.nargs + k]);
  args_.insert(args_.end(), numbers.begin(), numbers.end());
  names_ = check(PyTuple_New(call.keywords() + static_cast<Py_ssize_t>(numbers.size())));
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    PyTuple_SET_ITEM(names_.get(), k, Py_NewRef(PyTuple_GET_ITEM(call.kwnames, k)));
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    PyTuple_SET_ITEM(names_.get(), call.keywords() + static_cast<Py_ssize_t>(k),
                     check(PyUnicode_InternFromString(order.numbers[k])).release());
  }
  call_ = {args_.data(), order.tensors, names_.get(), call.op};
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "This overload of %s is deprecated: it has numbers before tensors. Give "
                       "them by the keyword %s%s%s.",
                       call.op, order.numbers[0], two ? " or " : "",
                       two ? order.numbers[1] : "") < 0)
    throw PythonError();
  return true;
}

}  // namespace flambeau::python
