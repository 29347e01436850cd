// See older_calls.cpp.
#pragma once

#include <optional>
#include <vector>

#include "python/src/arguments.h"

namespace flambeau::python {

std::optional<OlderOrder> older_order_of(const Family& family);

// The same call in today's order.
class OlderCall {
 public:
  // False if the arguments are not in the order of old.
  bool arrange(const OlderOrder& order, const Arguments& call, bool is_method);
  [[nodiscard]] const Arguments& call() const { return call_; }

 private:
  std::vector<PyObject*> args_;
  Object names_;
  Arguments call_{};
};

}  // namespace flambeau::python
