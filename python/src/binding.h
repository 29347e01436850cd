// What the units of the extension module share: the Python object of a tensor, conversions in both
// directions, and the way exceptions cross the border. The extension translates, and does nothing
// else.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <string>
#include <vector>

#include "flambeau/ops/op.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {
class Node;
}

namespace flambeau::python {

// --- Ownership -----------------------------------------------------------------------------------

// A strong reference to a Python object.
class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : object_(owned) {}
  static Object borrow(PyObject* object) {
    Py_XINCREF(object);
    return Object(object);
  }
  Object(const Object& other) : object_(other.object_) { Py_XINCREF(object_); }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }
  [[nodiscard]] PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// A Python exception on its way through C++ (out of a hook, through the engine, and back).
class PythonError : public Error {
 public:
  PythonError();  // takes the current Python exception
  PythonError(const PythonError&);
  ~PythonError() override;
  void restore() const;

 private:
  PyObject* exception_;
};

// The result of a C-API call that signals failure by null.
inline Object check(PyObject* owned) {
  if (!owned) throw PythonError();
  return Object(owned);
}

// Turns the C++ exception being handled into the current Python one.
void set_python_error();
extern PyObject *out_of_memory_error, *linalg_error;
bool add_errors(PyObject* module);

// Runs body, which returns a new reference; a C++ exception becomes a Python one and null.
template <class Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
template <class Body>
int guarded_int(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

// Below this many elements a kernel is over before another thread could take the GIL.
constexpr int64_t gil_threshold = 16384;

class GilRelease {
 public:
  explicit GilRelease(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

class GilAcquire {
 public:
  GilAcquire() : state_(PyGILState_Ensure()) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

// --- The Tensor type -----------------------------------------------------------------------------

struct PyTensor {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;
  PyObject* weak_references;
  PyObject* backward_hooks;  // the ordered dict behind register_hook
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* parameter_type;  // set by nn.Parameter; spares it the override look-up

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type ||
         PyType_IsSubtype(Py_TYPE(object), tensor_type);
}
inline PyTensor* as_object(PyObject* self) { return reinterpret_cast<PyTensor*>(self); }
inline const Tensor& tensor_of(PyObject* object) {
  return reinterpret_cast<PyTensor*>(object)->tensor;
}
PyObject* wrap(Tensor tensor);                         // None for an undefined one
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);  // a fresh object of a subclass

PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs);  // torch.Tensor(...)
bool add_tensor_type(PyObject* module);

// Whether it is a tensor of which the core sees only integers that stand for other numbers.
bool is_quantized(PyObject* object);
double quantized_value(PyObject* object);  // of one element
// What tensor() and as_tensor() make of a quantized tensor; null for all other data.
PyObject* of_quantized(PyObject* data, std::optional<DType> dtype, std::optional<Device> device,
                       bool copy);

// What the garbage collector should know of the hooks on a tensor.
int visit_hooks(const Tensor& tensor, visitproc visit, void* arg);
void clear_hooks(const Tensor& tensor);

// The object of a node of the graph; None for none.
PyObject* wrap_node(const IntrusivePtr<class flambeau::Node>& node);

// --- Small types ---------------------------------------------------------------------------------

// The object of a dtype, layout or memory format: the enumerator.
struct EnumObject {
  PyObject_HEAD int value;
};
extern PyTypeObject *dtype_type, *device_type, *layout_type, *memory_format_type, *size_type;
bool add_small_types(PyObject* module);
PyObject* wrap_dtype(DType dtype);  // new references, all of these
PyObject* wrap_device(Device device);
PyObject* wrap_layout(Layout layout);
PyObject* wrap_memory_format(MemoryFormat format);
PyObject* wrap_size(IntSpan sizes);
PyObject* wrap_ints(IntSpan values);  // a plain tuple
PyObject* wrap_scalar(const Scalar& scalar);
PyObject* wrap_scalar(const Scalar& scalar, DType dtype);  // int for an integer tensor, ...
PyObject* wrap_generator(Generator* generator);
bool is_dtype(PyObject* object);
DType dtype_of_object(PyObject* object);
bool dtype_from(PyObject* object, DType& dtype);  // a dtype or Python's float, int, bool, complex
bool device_from(PyObject* object, Device& device);  // a device, a string or an index
Generator* generator_from(PyObject* object);         // null if it is none

// --- Conversions that may fail without an exception ----------------------------------------------

bool scalar_from(PyObject* object, Scalar& scalar);  // Python and NumPy numbers, zero-dim tensors
bool int_from(PyObject* object, int64_t& value);
bool ints_from(PyObject* object, Dims& values);  // a tuple or list of integers
bool real_from(PyObject* object, double& value);
bool is_number(PyObject* object);
bool has_length(PyObject* object);  // an array of no dimensions is a sequence by its type alone

// The text of a str; what UTF-8 cannot express, such as half a surrogate pair, is escaped.
std::string text_of(PyObject* string);

// --- Ops -----------------------------------------------------------------------------------------

bool add_ops(PyObject* module);
bool add_autocast(PyObject* module);
bool add_registry(PyObject* module);  // the ops as data, for stubs, docs and tests
// Calls op `name` as Tensor method or function with Python arguments.
PyObject* call_method(const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

// Calls what flambeau.sparse has for the op `name`; raises NotImplementedError if it has nothing.
PyObject* call_sparse(const char* name, PyObject* const* args, Py_ssize_t nargs,
                      PyObject* kwnames = nullptr);

// Overrides (__torch_function__): whether this object has one, and the call through it.
bool has_override(PyObject* object);
PyObject* call_override(PyObject* function, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames);
// The same for an attribute of the Tensor type by its name: an operator, a method, a getter's half.
PyObject* call_override_of(const char* name, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames = nullptr, const char* half = nullptr);
extern thread_local int overrides_disabled;
extern PyObject* disabled_torch_function;  // what a class assigns that does not want to be asked
// The same below autograd (__torch_dispatch__): marks the tensor of a class that answers.
void mark_dispatched(PyTypeObject* type, const Tensor& tensor);
// A class that says how to dispatch, and nothing else, is not asked for functions.
bool prefer_dispatch(PyTypeObject* type);
extern constinit thread_local int active_modes;  // TorchFunctionModes that want to see every call
inline bool modes_active() { return active_modes != 0; }
// Whether an operation on these objects is taken over, by a class of theirs or by a mode.
inline bool class_overrides(PyObject* object) {
  return Py_TYPE(object) != tensor_type && Py_TYPE(object) != parameter_type &&
         has_override(object);
}
inline bool overridden(PyObject* a) { return modes_active() || class_overrides(a); }
inline bool overridden(PyObject* a, PyObject* b) { return overridden(a) || class_overrides(b); }

// Subscripts: x[...] and x[...] = value.
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);

// torch.tensor's reading of data: numbers, nested sequences, arrays, tensors. A new reference.
PyObject* tensor_from_data(PyObject* data, std::optional<DType> dtype,
                           std::optional<Device> device);

// Hooks that Python objects call back into; each unit adds its functions and types to the module.
bool add_overrides(PyObject* module);
bool add_dispatch(PyObject* module);   // classes and modes that answer for operators
bool add_nodes(PyObject* module);      // graph nodes and hooks
bool add_functions(PyObject* module);  // custom autograd functions
bool add_engine(PyObject* module);     // backward, grad modes, saved-tensor hooks, anomaly mode
bool add_vmap(PyObject* module);
bool add_construct(PyObject* module);    // tensor(), as_tensor(), buffers, NumPy, DLPack, storage
bool add_runtime(PyObject* module);      // default dtype, threads, finfo, ...
bool add_accelerator(PyObject* module);  // streams, events and memory of devices
bool add_generator(PyObject* module);
bool add_module_base(PyObject* module);  // what nn.Module does on every call
bool add_tensor_api(PyObject* module);   // for extension modules of programs
bool add_library(PyObject* module);      // operators that programs register in C++

}  // namespace flambeau::python
