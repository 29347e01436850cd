// Signatures read once at import: what each overload of an op takes, ready for matching calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/src/binding.h"

namespace flambeau::python {

struct Parameter {
  PyObject* name = nullptr;  // interned, immortal
  std::string text;
  Kind kind;
  bool nullable = false;
  bool required = false;
  bool keyword_only = false;
  bool takes_rest = false;  // *size
  bool single_int = false;  // an int does for a list of ints
  Value fallback;           // its default; refers to the storage below
  Scalar scalar;
  std::unique_ptr<Operand> operand;
  Dims ints;
  std::string string;
};

struct Overload {
  const OpDef* op;
  std::vector<Parameter> parameters;
  int positional = 0;                   // how many may come by position
  PyTypeObject* result_type = nullptr;  // a named tuple, where results have names
  std::string text;                     // "(Tensor input, int dim, *, torch.dtype dtype = None)"
};

// All overloads of one Python name.
struct Family {
  std::string name;
  std::vector<Overload> overloads;
  std::vector<Overload> out_forms;
  uint16_t flags = 0;      // those of any overload
  bool takes_out = false;  // see out.h
  bool is_function = false, is_method = false;
  bool inplace_by_copy = false;              // name_() made from name()
  const struct OlderOrder* older = nullptr;  // the order of arguments in old programs
  std::string doc;

  [[nodiscard]] bool has(int any_of) const { return flags & any_of; }
};

std::vector<std::unique_ptr<Family>> read_families();

}  // namespace flambeau::python
