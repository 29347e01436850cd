// Subscripts: x[key] and x[key] = value for every key that Python allows. Integers, slices, None
// and Ellipsis are views; masks and index tensors go to one index op.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/index/subscript.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

// Dimensions of the tensor that one item of a key uses up.
int64_t uses(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  return is_tensor(item) ? Subscript::uses(tensor_of(item)) : 1;
}

Tensor tensor_from_sequence(PyObject* object, Device device) {
  Object data = check(tensor_from_data(object, std::nullopt, device));
  Tensor tensor = tensor_of(data.get());
  if (tensor.numel() == 0 && tensor.is_floating()) tensor = to(tensor, DType::int64);
  return tensor;
}

int64_t slice_part(PyObject* part, int64_t otherwise, const char* what) {
  if (part == Py_None) return otherwise;
  CHECK(PyIndex_Check(part), TypeError,
        "slice indices must be integers or None or have an __index__ method ({})", what);
  Object number = check(PyNumber_Index(part));
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  return overflow ? (overflow > 0 ? INT64_MAX : INT64_MIN) : value;
}

void add_slice(Subscript& subscript, PyObject* object) {
  auto* key = reinterpret_cast<PySliceObject*>(object);
  const int64_t step = slice_part(key->step, 1, "step");
  const int64_t start = slice_part(key->start, 0, "start");
  subscript.add_slice(start, slice_part(key->stop, INT64_MAX, "stop"), step);
}

int64_t index_from(PyObject* key) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(key, &overflow);
  CHECK(overflow == 0, ValueError, "Overflow when unpacking long long");
  return number;
}

using Purpose = Subscript::Purpose;

Subscript subscript_of(const Tensor& self, PyObject* const* items, Py_ssize_t n, Purpose purpose) {
  int64_t used = 0;
  for (Py_ssize_t i = 0; i < n; ++i) used += uses(items[i]);
  Subscript result(self, used, n, purpose);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = items[i];
    int64_t number = 0;
    if (PySlice_Check(key)) {
      add_slice(result, key);
    } else if (key == Py_None) {
      result.add_none();
    } else if (key == Py_Ellipsis) {
      result.add_ellipsis();
    } else if (PyBool_Check(key)) {
      result.add_bool(key == Py_True);
    } else if (is_tensor(key)) {
      result.add_tensor(tensor_of(key));
    } else if (PyLong_CheckExact(key) || int_from(key, number)) {
      result.add_integer(PyLong_CheckExact(key) ? index_from(key) : number);
    } else if (PySequence_Check(key) && !PyUnicode_Check(key)) {
      result.add_tensor(tensor_from_sequence(key, self.device()), 1);
    } else if (PyUnicode_Check(key) || PyDict_Check(key)) {
      fail<TypeError>("new(): invalid data type '{}'", Py_TYPE(key)->tp_name);
    } else {
      fail<IndexError>(
          "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
          "valid "
          "indices (got {})",
          Py_TYPE(key)->tp_name);
    }
  }
  return result;
}

// As in older NumPy, a short list that holds sequences, slices, tensors or None stands for a tuple:
// x[[[0, 2], [1, 1]]] is x[[0, 2], [1, 1]].
bool stands_for_tuple(PyObject* key) {
  constexpr Py_ssize_t longest = 32;
  if (!PyList_Check(key) || PyList_GET_SIZE(key) >= longest) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); ++i) {
    PyObject* item = PyList_GET_ITEM(key, i);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
        (PySequence_Check(item) && !PyUnicode_Check(item))) {
      return true;
    }
  }
  return false;
}

Subscript subscript_of(const Tensor& self, PyObject* key, Purpose purpose) {
  if (stands_for_tuple(key)) {
    const Object items = check(PyList_AsTuple(key));  // reading a number may change the list
    return subscript_of(self, items.get(), purpose);
  }
  if (PyTuple_Check(key)) {
    return subscript_of(self, PySequence_Fast_ITEMS(key), PyTuple_GET_SIZE(key), purpose);
  }
  return subscript_of(self, &key, 1, purpose);
}

// What stands right of the equals sign, as a tensor of the target's dtype. A number may be
// `checked` whether it fits.
Tensor value_tensor(const Tensor& target, PyObject* value, bool masked = false,
                    bool checked = true) {
  if (is_tensor(value)) {
    const Tensor& tensor = tensor_of(value);
    return tensor.device() == target.device() || tensor.numel() != 1 ? tensor
                                                                     : to(tensor, target.device());
  }
  Scalar number;
  Options options = options_of(target);
  if (scalar_from(value, number)) {
    // Where a mask is filled, any number counts as a bool.
    if (masked && target.dtype() == DType::bool_) number = Scalar(!(number == Scalar(0)));
    if (checked) return full({}, number, options);
    const NoGrad off;
    return fill_(empty({}, options), number);
  }
  if (PySequence_Check(value) && !PyUnicode_Check(value)) {
    Object data = check(tensor_from_data(value, target.dtype(), target.device()));
    return tensor_of(data.get());
  }
  fail<TypeError>("can't assign a {} to a {} tensor", Py_TYPE(value)->tp_name, target.dtype());
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  if (overridden(self) || (is_tensor(key) && class_overrides(key))) [[unlikely]] {
    return guarded([&] {
      Object method =
          check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__getitem__"));
      PyObject* const args[] = {self, key};
      return call_override(method.get(), args, 2, nullptr);
    });
  }
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (tensor.is_sparse() && !is_wrapped(tensor)) [[unlikely]] {
      PyObject* const args[] = {self, key};
      return call_sparse("__getitem__", args, 2);
    }
    if (PyLong_CheckExact(key)) {  // the common x[i]
      const int64_t index = index_from(key);
      CHECK(tensor.dim() > 0, IndexError,
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a "
            "0-dim tensor to a number");
      const int64_t size = tensor->sizes[0];
      CHECK(index >= -size && index < size, IndexError,
            "index {} is out of bounds for dimension 0 with size {}", index, size);
      return wrap(select(tensor, 0, index));
    }
    Subscript subscript = subscript_of(tensor, key, Purpose::read);
    Tensor read;
    {
      const GilRelease release(subscript.has_index() && subscript.view().numel() >= gil_threshold);
      read = subscript.read();
    }
    return wrap(std::move(read));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  if (overridden(self, value)) [[unlikely]] {
    return guarded_int([&] {
      Object method =
          check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__setitem__"));
      PyObject* const args[] = {self, key, value};
      check(call_override(method.get(), args, 3, nullptr));
      return 0;
    });
  }
  return guarded_int([&] {
    const Tensor& tensor = tensor_of(self);
    CHECK(!tensor.is_sparse() || is_wrapped(tensor), TypeError, "Cannot assign to a sparse tensor");
    if (key == Py_False) return 0;
    CHECK(!PyUnicode_Check(value), TypeError, "can't assign a str to a {} tensor", tensor.dtype());
    const Tensor target = key == Py_True ? unsqueeze(tensor, 0) : tensor;
    Subscript subscript = key == Py_True ? Subscript(target, 0, 0, Purpose::write)
                                         : subscript_of(target, key, Purpose::write);
    Scalar number;
    if (!subscript.has_index() && !is_tensor(value) && scalar_from(value, number)) {
      subscript.fill(number);
      return 0;
    }
    const std::vector<Tensor>& indices = subscript.indices();
    const bool masked = std::ranges::all_of(indices, [](const Tensor& index) {
      return !index.defined() || index.dtype() == DType::bool_;
    });
    if (!is_tensor(value)) subscript.check_first_mask();
    // As PyTorch has it: a number that does not fit is refused at one tensor of indices, not at
    // two.
    const bool single = std::ranges::count_if(indices, &Tensor::defined) < 2;
    const Tensor source = value_tensor(tensor, value, masked, single);
    const GilRelease release(subscript.view().numel() >= gil_threshold);
    subscript.write(source);
    return 0;
  });
}

}  // namespace flambeau::python
