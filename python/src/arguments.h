// From the Python arguments of a call to the values of an overload's parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/src/binding.h"
#include "python/src/signature.h"

namespace flambeau::python {

constexpr int most_arguments = 20;

// Where converted arguments live during a call.
struct Frame {
  Value values[most_arguments];
  union Room {
    Scalar scalar;
    Operand operand;
    Device device;
    Room() {}
  } rooms[most_arguments];
  static constexpr int most_ints = 5;
  Dims ints[most_ints];
  int n_ints = 0;
  // Few ops take lists of tensors; the first one makes the room.
  static constexpr int most_lists = 6;
  std::unique_ptr<std::vector<Tensor>[]> tensors;
  int n_tensors = 0;
  std::vector<double> reals;
  Options options;
  const char* op = "";  // for messages
  int64_t largest = 0;  // elements of the largest tensor, to decide about the GIL
  uint8_t pending = 0;  // what is pending on any tensor
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

struct Call {
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
  const char* op;
  [[nodiscard]] Py_ssize_t keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

// Fills the frame for this overload; false, with the reason in `miss`, if the arguments do not fit.
// The keyword `skip` is left to the caller.
bool match(const Overload& overload, const Call& call, Frame& frame, Mismatch& miss,
           PyObject* skip);

// The TypeError for a call that fits no overload, in the words that people search for.
[[noreturn]] void raise_mismatch(const Family& family, const Mismatch& first, const Call& call);

// How an argument's type is called in messages.
std::string type_name(PyObject* object);

}  // namespace flambeau::python
