// torch.tensor and torch.Tensor: tensors from Python data, and back to nested lists.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/shape/misaligned.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/binding.h"
#include "python/src/interop.h"

namespace flambeau::python {
namespace {

bool is_sequence(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object)) return true;
  if (PyUnicode_Check(object) || PyBytes_Check(object) || is_number(object)) return false;
  if (is_tensor(object)) return false;  // a number, if it has one element
  return !PyDict_Check(object) && has_length(object);
}

// The shape that the first elements on the way down suggest; reading checks the others.
Dims infer_shape(PyObject* data) {
  Dims shape;
  Object current = Object::borrow(data);
  while (is_sequence(current.get())) {
    const Py_ssize_t n = PySequence_Size(current.get());
    if (n < 0) throw PythonError();
    shape.push_back(n);
    CHECK(static_cast<int64_t>(shape.size()) <= max_dims, ValueError,
          "tensor(): too many dimensions: data is nested deeper than {}", max_dims);
    if (n == 0) break;
    Object first(PySequence_GetItem(current.get(), 0));
    if (!first) PyErr_Clear();
    CHECK(first, ValueError, "could not determine the shape of object type '{}'",
          Py_TYPE(current.get())->tp_name);
    current = std::move(first);
  }
  PyErr_Clear();
  return shape;
}

// NumPy's numbers keep their dtype; Python's have that of their kind.
std::optional<DType> numpy_dtype(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  if (!name.starts_with("numpy.")) return {};
#define ROW(dtype, type, legacy) \
  if (name.substr(6) == dtype_name(DType::dtype)) return DType::dtype;
  FLAMBEAU_DTYPES(ROW)
#undef ROW
  return {};
}
// Lists have many of one type.
std::optional<DType> numpy_dtype(PyObject* object) {
  static PyTypeObject* last = nullptr;
  static std::optional<DType> known;
  if (Py_TYPE(object) != last) known = numpy_dtype(last = Py_TYPE(object));
  return known;
}

// Reads numbers in order, widening the common type on the way.
class Reader {
 public:
  // Lengths are what the data claims: memory is reserved for what is read, not what is promised.
  explicit Reader(const Dims& shape) : shape_(shape) {
    scalars_.reserve(std::min<int64_t>(checked_numel(shape), 65536));
  }

  void read(PyObject* data, size_t depth) {
    if (depth == shape_.size()) return read_number(data);
    CHECK(is_sequence(data), TypeError, "not a sequence");
    if (!PyList_Check(data) && !PyTuple_Check(data)) {
      const Object list = listed(data, depth);
      return read(list.get(), depth);
    }
    // Reading a number may run Python code, which may change the list.
    for (Py_ssize_t i = 0; i < shape_[depth]; ++i) {
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(data);
      CHECK(n == shape_[depth], ValueError, "expected sequence of length {} at dim {} (got {})",
            shape_[depth], depth, n);
      const Object item = Object::borrow(PySequence_Fast_GET_ITEM(data, i));
      read(item.get(), depth + 1);
    }
  }

  [[nodiscard]] DType dtype() const { return scalars_.empty() ? default_dtype() : kind_; }
  [[nodiscard]] const std::vector<Scalar>& scalars() const { return scalars_; }

  [[nodiscard]] bool saw_wide_integer() const { return saw_wide_integer_; }

  // How a tensor of several elements is refused where a number is wanted depends on the dtype.
  void check_single_elements(DType dtype) const {
    if (!saw_many_elements_) return;
    CHECK(is_differentiable(dtype), TypeError,
          "only integer tensors of a single element can be converted to an index");
    fail<ValueError>("only one element tensors can be converted to Python scalars");
  }

 private:
  // The items of a sequence, which may have more of them than it says, without end.
  [[nodiscard]] Object listed(PyObject* data, size_t depth) const {
    const Object iterator = check(PyObject_GetIter(data));
    Object list = check(PyList_New(0));
    while (const Object item{PyIter_Next(iterator.get())}) {
      CHECK(PyList_GET_SIZE(list.get()) < shape_[depth], ValueError,
            "expected sequence of length {} at dim {} (got more)", shape_[depth], depth);
      if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
    }
    if (PyErr_Occurred()) throw PythonError();
    return list;
  }

  void read_number(PyObject* object) {
    Scalar scalar;
    if (PyLong_CheckExact(object)) {
      scalar = read_integer(object);
      widen(DType::int64);
    } else if (is_tensor(object)) {
      const Tensor& tensor = tensor_of(object);
      const bool quantized = is_quantized(object);
      if (tensor.numel() == 1) scalar = quantized ? Scalar(quantized_value(object)) : item(tensor);
      saw_many_elements_ |= tensor.numel() != 1;
      widen(quantized ? DType::float32 : tensor.dtype());
    } else if (const auto dtype = numpy_dtype(object); dtype && scalar_from(object, scalar)) {
      widen(*dtype);
    } else {
      if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        CHECK(!shape_.empty() && scalars_.empty(), TypeError, "new(): invalid data type '{}'",
              Py_TYPE(object)->tp_name);
        fail<ValueError>("too many dimensions '{}'", Py_TYPE(object)->tp_name);
      }
      CHECK(!is_sequence(object), TypeError, "must be real number, not {}",
            Py_TYPE(object)->tp_name);
      if (const Tensor array = tensor_over_array(object); array.defined() && array.dim() == 0) {
        scalar = item(array);
        widen(array.dtype());
      } else {
        CHECK(scalar_from(object, scalar), RuntimeError, "Could not infer dtype of {}",
              Py_TYPE(object)->tp_name);
        widen(scalar.natural_dtype());
      }
    }
    scalars_.push_back(scalar);
  }

  // An integer beyond 64 bits is a floating number if its neighbours are; dtype() or the caller
  // decides.
  Scalar read_integer(PyObject* object) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return Scalar(value);
    saw_wide_integer_ = true;
    const uint64_t wide = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : 0;
    if (overflow > 0 && !PyErr_Occurred()) return Scalar(wide);
    PyErr_Clear();
    const double real = PyLong_AsDouble(object);
    if (PyErr_Occurred()) throw PythonError();
    return Scalar(real);
  }

  void widen(DType dtype) {
    kind_ = scalars_.empty() ? dtype : kind_ == dtype ? kind_ : promote_types(kind_, dtype);
  }

  const Dims& shape_;
  std::vector<Scalar> scalars_;
  DType kind_ = DType::float32;
  bool saw_wide_integer_ = false;
  bool saw_many_elements_ = false;
};

// A number that was given for an element of dtype.
void check_element(const Scalar& scalar, DType type) {
  if (scalar.is_complex()) {
    CHECK(!is_floating(type), TypeError, "must be real number, not complex");
    CHECK(!is_integral(type), TypeError, "'complex' object cannot be interpreted as an integer");
  }
  CHECK(!is_integral(type) || scalar.fits(type), RuntimeError,
        "value cannot be converted to type {} without overflow: {}", dtype_name(type), scalar);
}

void warn_of_arrays(PyObject* data) {
  if (!PyList_Check(data) || PyList_GET_SIZE(data) == 0) return;
  PyObject* first = PyList_GET_ITEM(data, 0);
  if (std::strcmp(Py_TYPE(first)->tp_name, "numpy.ndarray") != 0) return;
  static std::atomic<bool> told{false};
  warn_once(told,
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting "
            "to a tensor.");
}

Tensor from_sequence(PyObject* data, std::optional<DType> dtype) {
  warn_of_arrays(data);
  const Dims shape = infer_shape(data);
  Reader reader(shape);
  if (checked_numel(shape) > 0 || shape.empty()) {
    reader.read(data, 0);
  }
  const DType type = dtype.value_or(reader.dtype());
  reader.check_single_elements(type);
  if (reader.saw_wide_integer() && is_integral(type)) {
    CHECK(type == DType::uint64, ValueError, "Overflow when unpacking long long");
    for (const Scalar& scalar : reader.scalars()) {
      CHECK(!scalar.is_floating(), OverflowError, "int too big to convert");
    }
  }
  Tensor out = make_tensor(shape, type, Device());
  dispatch<dtypes::AllStored>("tensor", type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.data<T>();
    for (const Scalar& scalar : reader.scalars()) {
      check_element(scalar, type);
      *to++ = scalar.to<T>();
    }
  });
  return out;
}

Tensor moved(Tensor tensor, std::optional<Device> device) {
  const Device target = device ? *device : default_device();
  return tensor.device().type == target.type && target.index < 0 ? tensor : to(tensor, target);
}

bool is_plain(PyObject* object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyList_CheckExact(object) ||
         PyTuple_CheckExact(object);
}

bool speaks_dlpack(PyObject* object) {
  return !is_plain(object) && PyObject_HasAttrString(object, "__dlpack__");
}

// A tensor over the memory of a storage; none over any other object. A storage of bytes is read as
// elements of the wanted dtype, one of elements has its own.
Tensor over_storage(PyObject* object, std::optional<DType> dtype) {
  if (is_plain(object) || !PyObject_HasAttrString(object, "_as_elements")) return {};
  Object wanted = dtype ? Object(wrap_dtype(*dtype)) : Object::borrow(Py_None);
  Object elements = check(PyObject_CallMethod(object, "_as_elements", "O", wanted.get()));
  CHECK(is_tensor(elements.get()), TypeError, "_as_elements() must return a Tensor, not {}",
        Py_TYPE(elements.get())->tp_name);
  return detach_alias(tensor_of(elements.get()));
}

// A new tensor with the data's values, never sharing memory with it.
Tensor copy_of_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device) {
  const NoGrad off;
  if (is_tensor(data)) {
    const Tensor& source = tensor_of(data);
    return detach_alias(to(source, device ? *device : source.device(),
                           dtype.value_or(source.dtype()), false, true, {}));
  }
  if (numpy_dtype(data)) return moved(from_sequence(data, dtype), device);
  Tensor view = tensor_over_array(data);
  if (!view.defined() && speaks_dlpack(data))
    view = tensor_of(check(from_dlpack_object(data)).get());
  if (!view.defined()) view = over_storage(data, dtype);
  if (view.defined()) {
    return to(view, device ? *device : default_device(), dtype.value_or(view.dtype()), false, true,
              {});
  }
  return moved(from_sequence(data, dtype), device);
}

DType dtype_argument(const char* function, PyObject* object) {
  DType dtype;
  CHECK(dtype_from(object, dtype), TypeError, "{}(): argument 'dtype' must be torch.dtype, not {}",
        function, Py_TYPE(object)->tp_name);
  return dtype;
}

struct Arguments {
  PyObject* data = nullptr;
  std::optional<DType> dtype;
  std::optional<Device> device;
  bool requires_grad = false, pin_memory = false;
};

Arguments parse(PyObject* args, PyObject* kwargs, const char* format) {
  static const char* names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", nullptr};
  PyObject *data = nullptr, *dtype = Py_None, *device = Py_None;
  int requires_grad = 0, pin_memory = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &data, &dtype,
                                   &device, &requires_grad, &pin_memory))
    throw PythonError();
  Arguments result;
  result.data = data;
  result.requires_grad = requires_grad != 0;
  result.pin_memory = pin_memory != 0;
  if (dtype != Py_None) {
    result.dtype = dtype_argument("tensor", dtype);
  }
  if (device != Py_None) {
    Device target;
    CHECK(device_from(device, target), TypeError,
          "tensor(): argument 'device' must be torch.device, not {}", Py_TYPE(device)->tp_name);
    result.device = target;
  }
  return result;
}

PyObject* finish(Tensor tensor, bool requires_grad) {
  if (requires_grad) set_requires_grad(tensor, true);
  return wrap(std::move(tensor));
}

void warn_of_tensor(PyObject* data) {
  if (!is_tensor(data)) return;
  warn(
      "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
      "sourceTensor.detach().clone().requires_grad_(True), rather than "
      "torch.tensor(sourceTensor).");
}

PyObject* tensor_function(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Arguments a = parse(args, kwargs, "O|$OOpp:tensor");
    warn_of_tensor(a.data);
    if (PyObject* quantized = of_quantized(a.data, a.dtype, a.device, true)) return quantized;
    const Tensor made = copy_of_data(a.data, a.dtype, a.device);
    return finish(a.pin_memory ? pin_memory(made) : made, a.requires_grad);
  });
}

PyObject* as_tensor(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Arguments a = parse(args, kwargs, "O|OOpp:as_tensor");
    if (PyObject* quantized = of_quantized(a.data, a.dtype, a.device, false)) return quantized;
    if (is_tensor(a.data)) {
      const Tensor& source = tensor_of(a.data);
      return wrap(to(source, a.device, a.dtype, false, false, {}));
    }
    if (numpy_dtype(a.data)) return finish(copy_of_data(a.data, a.dtype, a.device), false);
    Tensor view = tensor_over_array(a.data);
    if (!view.defined()) view = over_storage(a.data, a.dtype);
    if (view.defined()) {
      return wrap(to(view, a.device ? *a.device : default_device(), a.dtype, false, false, {}));
    }
    return finish(copy_of_data(a.data, a.dtype, a.device), false);
  });
}

// x.new_tensor(data): as tensor(data), with x's dtype and device.
PyObject* new_tensor_method(PyObject* object, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Tensor& self = tensor_of(object);
    const Arguments a = parse(args, kwargs, "O|$OOpp:new_tensor");
    warn_of_tensor(a.data);
    return finish(
        copy_of_data(a.data, a.dtype.value_or(self.dtype()), a.device.value_or(self.device())),
        a.requires_grad);
  });
}

// A tensor over the object's own memory, if it has memory that one can share. The bytes
// of a buffer are taken for `dtype`, or for what the buffer says they are.
Tensor shared_view(PyObject* object, std::optional<DType> dtype) {
  if (is_tensor(object)) return tensor_of(object);
  if (Tensor view = tensor_over_array(object); view.defined()) return view;
  if (PyList_Check(object) || PyTuple_Check(object)) return {};
  if (PyCapsule_CheckExact(object) || speaks_dlpack(object)) {
    const Object made = check(from_dlpack_object(object));
    return tensor_of(made.get());
  }
  if (!PyObject_CheckBuffer(object)) return {};
  return tensor_over_buffer(object, dtype ? *dtype : dtype_of_buffer(object));
}

PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    CHECK(PyType_Check(cls), TypeError, "cls must be a type (got {})", Py_TYPE(cls)->tp_name);
    CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type), TypeError,
          "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
          "possible. Make sure your class inherits from Tensor.");
    return wrap_as(reinterpret_cast<PyTypeObject*>(cls), alias(tensor_of(self)));
  });
}

PyObject* has_weak_references(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(object), TypeError, "_has_weak_references(): expected a tensor");
    return PyBool_FromLong(as_object(object)->weak_references != nullptr);
  });
}

// Two objects exchange their tensors and the hooks on them. See Note [One object a tensor]: both
// objects are alive, so neither is owned by its tensor.
PyObject* swap_tensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *first = nullptr, *second = nullptr;
    if (!PyArg_ParseTuple(args, "OO:_swap_tensors", &first, &second)) return nullptr;
    CHECK(is_tensor(first) && is_tensor(second), TypeError,
          "_swap_tensors(): expected two tensors");
    PyTensor *a = as_object(first), *b = as_object(second);
    std::swap(a->tensor, b->tensor);
    std::swap(a->backward_hooks, b->backward_hooks);
    a->tensor->python = first;
    b->tensor->python = second;
    // They may have exchanged attributes, through which cycles can go.
    for (PyObject* object : {first, second}) {
      if (!PyObject_GC_IsTracked(object)) PyObject_GC_Track(object);
    }
    Py_RETURN_NONE;
  });
}

PyObject* storage_bytes(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(object), TypeError, "_storage_bytes(): expected a tensor");
    CHECK(!is_wrapped(tensor_of(object)), RuntimeError,
          "The tensor has a non-zero number of elements, but its data is not allocated yet.");
    CHECK(!tensor_of(object).is_sparse(), NotImplementedError, "Cannot access storage of {}",
          is_coo(tensor_of(object)) ? "SparseTensorImpl" : "SparseCsrTensorImpl");
    const StoragePtr& storage = tensor_of(object).storage();
    const int64_t size = static_cast<int64_t>(storage->bytes());
    return wrap(make_over(storage, size, 1, 0, DType::uint8));
  });
}

PyObject* asarray(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"obj", "dtype", "device", "copy", "requires_grad", nullptr};
    PyObject *object = nullptr, *dtype = Py_None, *device = Py_None, *copy = Py_None;
    PyObject* asked = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOO:asarray", const_cast<char**>(names),
                                     &object, &dtype, &device, &copy, &asked))
      return nullptr;
    // Unless it is said, the history of a tensor goes on.
    const bool unsaid = asked == Py_None;
    CHECK(unsaid || PyBool_Check(asked), TypeError,
          "asarray(): argument 'requires_grad' must be bool, not {}", Py_TYPE(asked)->tp_name);
    const bool requires_grad = asked == Py_True;
    std::optional<DType> type;
    if (dtype != Py_None) type = dtype_argument("asarray", dtype);
    std::optional<Device> place;
    if (device != Py_None) {
      Device given;
      CHECK(device_from(device, given), TypeError,
            "asarray(): argument 'device' must be torch.device, not {}", Py_TYPE(device)->tp_name);
      place = given;
    }
    const bool numpy_number = numpy_dtype(object).has_value();
    CHECK(!(numpy_number && copy == Py_False), RuntimeError, "can't alias NumPy scalars.");
    Tensor shared = numpy_number ? Tensor() : shared_view(object, type);
    if (!shared.defined()) {
      CHECK(copy != Py_False, ValueError, "can't alias arbitrary sequence into a tensor.");
      return finish(copy_of_data(object, type, place), requires_grad);
    }
    const bool may_copy = copy != Py_False;
    CHECK(may_copy || !place || place->type == shared.device().type, ValueError,
          "can't alias tensor from device '{}' to '{}'.", shared.device(), *place);
    CHECK(may_copy || !type || *type == shared.dtype(), ValueError,
          "can't alias tensor with dtype '{}' into dtype '{}'.", shared.dtype(), *type);
    Tensor result = to(shared, place, type, false, copy == Py_True, {});
    if (unsaid && result.requires_grad()) {
      static std::atomic<bool> told{false};
      warn_once(told,
                "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad "
                "instead of False. Pass requires_grad=False explicitly to get the old behavior and "
                "silence this warning.");
    } else if (!unsaid && result.requires_grad() != requires_grad) {
      if (is_leaf(result)) {
        set_requires_grad(result, requires_grad);
      } else {
        result = detach_alias(result);
      }
    }
    return wrap(std::move(result));
  });
}

PyMethodDef functions[] = {
    {"_has_weak_references", has_weak_references, METH_O, nullptr},
    {"_swap_tensors", swap_tensors, METH_VARARGS, nullptr},
    {"_storage_bytes", storage_bytes, METH_O, nullptr},
    {"tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(tensor_function)),
     METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n\nA new "
     "tensor with the values of data: numbers, nested sequences, arrays."},
    {"as_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(as_tensor)),
     METH_VARARGS | METH_KEYWORDS,
     "as_tensor(data, dtype=None, device=None)\n\nA tensor with the values of data, sharing its "
     "memory where that is possible."},
    {"asarray", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(asarray)),
     METH_VARARGS | METH_KEYWORDS,
     "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n\nA tensor of "
     "obj's values: shared where possible, copied where asked or needed."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef methods[] = {
    {"new_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(new_tensor_method)),
     METH_VARARGS | METH_KEYWORDS,
     "new_tensor(data, *, dtype=None, device=None, requires_grad=False)\n\nA new tensor with the "
     "values of data, of self's dtype and device."},
    {"as_subclass", as_subclass, METH_O, "The same tensor as an object of a subclass."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* tensor_from_data(PyObject* data, std::optional<DType> dtype,
                           std::optional<Device> device) {
  return wrap(copy_of_data(data, dtype, device));
}

// Arguments of the old constructor: one object or sizes, either of them by name too.
struct LegacyArguments {
  PyObject* only = nullptr;   // a tensor, a storage, data
  PyObject* sizes = nullptr;  // a sequence of ints
  bool names_device = false;
};

LegacyArguments parse_legacy(PyObject* args, PyObject* kwargs) {
  LegacyArguments result;
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  PyObject* first = n ? PyTuple_GET_ITEM(args, 0) : nullptr;
  const auto counts = [](PyObject* object) {
    const std::optional<DType> number = numpy_dtype(object);
    return PyLong_Check(object) || (number && is_integral(*number));
  };
  if (n == 1 && Py_TYPE(first) == size_type) {
    result.sizes = first;
  } else if (n == 1 && !counts(first)) {
    result.only = first;
  } else if (n > 0) {
    result.sizes = args;
  }
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
    const std::string name = text_of(key);
    const bool names_data = name == "data" || name == "other" || name == "storage";
    CHECK(name == "device" || (n == 0 && (names_data || name == "size")), TypeError,
          "new() received an invalid combination of arguments: unexpected keyword argument '{}'",
          name);
    if (names_data) result.only = value;
    if (name == "size") result.sizes = value;
    if (name != "device" || value == Py_None) continue;
    Device device;
    CHECK(device_from(value, device), TypeError,
          "Tensor(): argument 'device' must be torch.device");
    CHECK(device.type == default_device().type, RuntimeError,
          "legacy constructor expects device type: {} but device type: {} was passed",
          Device(default_device().type), Device(device.type));
    result.names_device = true;
  }
  return result;
}

// torch.Tensor(), Tensor(2, 3), Tensor(size), Tensor([1., 2.]): always of the default dtype.
// Tensor(other): another handle of the same memory, whatever its dtype.
PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const LegacyArguments a = parse_legacy(args, kwargs);
    const Device device = default_device();
    PyObject* first = a.only;
    Tensor tensor;
    if (first && is_tensor(first)) {
      CHECK(!a.names_device, RuntimeError,
            "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not "
            "supported. Use torch.tensor(...) or torch.as_tensor(...) instead.");
      const Tensor& source = tensor_of(first);
      tensor = type == tensor_type ? alias(source) : detach_alias(source);
    } else if (first) {
      CHECK(is_sequence(first) || tensor_over_array(first).defined(), TypeError,
            "new(): data must be a sequence (got {})", Py_TYPE(first)->tp_name);
      tensor = over_storage(first, default_dtype());
      if (!tensor.defined()) tensor = copy_of_data(first, default_dtype(), device);
    } else {
      Dims sizes;
      if (!a.sizes) sizes.push_back(0);
      CHECK(!a.sizes || ints_from(a.sizes, sizes), TypeError,
            "new() received an invalid combination of arguments: sizes must be ints");
      tensor = make_tensor(sizes, default_dtype(), device);
    }
    if (type == tensor_type) return wrap(std::move(tensor));
    return wrap_as(type, make_alias(tensor));
  });
}

bool add_construct(PyObject* module) {
  return add_methods(methods) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
