// See older_calls.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "python/src/arguments.h"

namespace flambeau::python {

// An op that may be called in an order of old: how many tensors it takes, and the numbers that may
// stand among them.
struct OlderOrder {
  std::string_view op;
  int tensors;
  const char* numbers[2];
};
const OlderOrder* older_order_of(std::string_view op);

// The same call in today's order.
class OlderCall {
 public:
  // False if the arguments are not in the order of old.
  bool arrange(const OlderOrder& order, const Call& call, bool is_method);
  [[nodiscard]] const Call& call() const { return call_; }

 private:
  std::vector<PyObject*> args_;
  Object names_;
  Call call_{};
};

}  // namespace flambeau::python
