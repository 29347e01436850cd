// From the Python arguments of a call to the values of an overload's parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "flambeau/ops/call.h"
#include "python/src/binding.h"
#include "python/src/families.h"

namespace flambeau::python {

// Where converted arguments live during a call.
struct Frame {
  Frame() {}  // NOLINT(modernize-use-equals-default): the union has no default
  // Without values at first: match() gives one to each parameter.
  union {
    Value values[max_arguments];
  };
  union Slot {
    Scalar scalar;
    Operand operand;
    Device device;
    Slot() {}
  } slots[max_arguments];
  static constexpr int max_ints = 5;
  Dims ints[max_ints];
  int n_ints = 0;
  // Few ops take lists of tensors; the first one allocates them.
  static constexpr int max_lists = 6;
  std::unique_ptr<std::vector<Tensor>[]> tensors;
  int n_tensors = 0;
  std::vector<double> reals;
  Options options;
  const char* op = "";  // for messages
  int64_t largest = 0;  // elements of the largest tensor, to decide about the GIL
  uint8_t special = 0;  // what is pending on any tensor
};

// Interned keywords, set when the ops are bound.
extern PyObject *name_out, *name_dtype, *name_layout, *name_device, *name_pin_memory;
extern PyObject* name_requires_grad;
void intern_keywords();

enum class Fault : uint8_t { none, too_many, missing, unknown, repeated, wrong_type };

struct Mismatch {
  Fault fault = Fault::none;
  int parameter = -1;
  PyObject* object = nullptr;   // the argument or keyword at fault, borrowed
  PyObject* keyword = nullptr;  // of an option
};

struct Arguments {
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
  const char* op;
  [[nodiscard]] Py_ssize_t keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

// Fills the frame for this overload; false, with the reason in `miss`, if the arguments do not fit.
// The keyword `skip` is left to the caller.
bool match(const BoundOverload& overload, const Arguments& call, Frame& frame, Mismatch& miss,
           PyObject* skip);

// The TypeError for a call that fits no overload, in the words that people search for.
[[noreturn]] void raise_mismatch(const BoundFamily& bound, const Mismatch& first,
                                 const Arguments& call);

// How an argument's type is called in messages.
std::string type_name(PyObject* object);

}  // namespace flambeau::python
