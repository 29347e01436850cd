// The overloads of each name as Python knows them: with interned keywords and named tuples.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flambeau/ops/signature.h"
#include "python/src/binding.h"

namespace flambeau::python {

// Of an op that may be called in an order of old: how many tensors it takes, and the numbers that
// may stand among them.
struct OlderOrder {
  int tensors;
  std::vector<std::string> numbers;
};

struct BoundOverload {
  const Overload* overload;
  std::vector<PyObject*> names;         // of the parameters; immortal
  PyTypeObject* result_type = nullptr;  // a named tuple, where results have names
};

struct BoundFamily {
  const Family* family;
  std::vector<BoundOverload> overloads;
  std::vector<BoundOverload> out_forms;
  std::optional<OlderOrder> older;  // the order of arguments in old programs
};

std::vector<std::unique_ptr<BoundFamily>> bind_families();

}  // namespace flambeau::python
