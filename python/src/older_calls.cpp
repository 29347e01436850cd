// Calls that old programs make: numbers among the tensors, add_(0.1, grad), where they are keywords
// today, add_(grad, alpha=0.1).
#include "python/src/older_calls.h"

namespace flambeau::python {

std::optional<OlderOrder> older_order_of(const Family& family) {
  if (!family.has(OpDef::numbers_first)) return {};
  const Overload& overload = family.overloads.front();
  OlderOrder order{overload.positional, {}};
  for (const Parameter& p : overload.parameters) {
    if (p.keyword_only) order.numbers.push_back(p.name);
  }
  return order;
}

bool OlderCall::arrange(const OlderOrder& order, const Arguments& call, bool is_method) {
  std::vector<PyObject*> numbers;
  for (Py_ssize_t i = 0; i < call.nargs; ++i) {
    (is_tensor(call.args[i]) ? args_ : numbers).push_back(call.args[i]);
  }
  const bool two = order.numbers.size() == 2;
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
                     check(PyUnicode_InternFromString(order.numbers[k].c_str())).release());
  }
  call_ = {args_.data(), order.tensors, names_.get(), call.op};
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "This overload of %s is deprecated: it has numbers before tensors. Give "
                       "them by the keyword %s%s%s.",
                       call.op, order.numbers[0].c_str(), two ? " or " : "",
                       two ? order.numbers[1].c_str() : "") < 0)
    throw PythonError();
  return true;
}

}  // namespace flambeau::python
