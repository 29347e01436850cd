// Numbers and sequences between Python and C++. Converters answer false, without an exception,
// where an object is of another kind; NumPy's scalars count as numbers.
#include <cstring>

#include "flambeau/ops/ops.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

bool is_numpy(PyObject* object) { return std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0; }

// A Python int in 64 bits; raises past them, as PyTorch does.
int64_t unpack_long(PyObject* object) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  CHECK(overflow == 0, ValueError, "Overflow when unpacking long long");
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

Scalar scalar_from_long(PyObject* object) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return Scalar(value);
  CHECK(overflow > 0, OverflowError, "int too big to convert");
  const uint64_t wide = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    fail<OverflowError>("int too big to convert");
  }
  return Scalar(wide);
}

bool scalar_from_numpy(PyObject* object, Scalar& scalar) {
  const char* name = Py_TYPE(object)->tp_name + 6;
  if (std::strcmp(name, "ndarray") == 0) return false;
  if (std::strncmp(name, "bool", 4) == 0) {
    scalar = PyObject_IsTrue(object) == 1;
    return true;
  }
  if (PyIndex_Check(object)) {
    Object number = check(PyNumber_Index(object));
    scalar = scalar_from_long(number.get());
    return true;
  }
  if (std::strncmp(name, "complex", 7) == 0) {
    const Py_complex value = PyComplex_AsCComplex(object);
    if (PyErr_Occurred()) throw PythonError();
    scalar = std::complex<double>(value.real, value.imag);
    return true;
  }
  if (std::strncmp(name, "float", 5) == 0 || std::strncmp(name, "longdouble", 10) == 0) {
    scalar = PyFloat_AsDouble(object);
    if (PyErr_Occurred()) throw PythonError();
    return true;
  }
  return false;
}

}  // namespace

bool is_number(PyObject* object) {
  return PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object) ||
         (is_numpy(object) && !PySequence_Check(object));
}

bool scalar_from(PyObject* object, Scalar& scalar) {
  if (PyFloat_Check(object)) {
    scalar = PyFloat_AS_DOUBLE(object);
  } else if (PyBool_Check(object)) {
    scalar = object == Py_True;
  } else if (PyLong_Check(object)) {
    scalar = scalar_from_long(object);
  } else if (PyComplex_Check(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    scalar = std::complex<double>(value.real, value.imag);
  } else if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    if (tensor.dim() != 0 || tensor.requires_grad()) return false;
    scalar = item(tensor);
  } else if (is_numpy(object)) {
    return scalar_from_numpy(object, scalar);
  } else {
    return false;
  }
  return true;
}

bool has_length(PyObject* object) {
  if (!PySequence_Check(object)) return false;
  if (PySequence_Size(object) >= 0) return true;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
  PyErr_Clear();
  return false;
}

std::string text_of(PyObject* string) {
  const Object bytes = check(PyUnicode_AsEncodedString(string, "utf-8", "backslashreplace"));
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

bool int_from(PyObject* object, int64_t& value) {
  if (PyLong_CheckExact(object)) {
    value = unpack_long(object);
    return true;
  }
  if (PyBool_Check(object)) return false;
  if (PyLong_Check(object)) {
    value = unpack_long(object);
    return true;
  }
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    if (tensor.numel() != 1 || !is_integral(tensor.dtype()) || tensor.dim() != 0) return false;
    value = item(tensor).to_int();
    return true;
  }
  if (PyIndex_Check(object) && !has_length(object)) {
    Object number = check(PyNumber_Index(object));
    value = unpack_long(number.get());
    return true;
  }
  return false;
}

bool ints_from(PyObject* object, Dims& values) {
  // Reading a number may run Python code, which may change a list.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(object, i);
    int64_t value = item == Py_True;
    const bool is_bool = i > 0 && PyBool_Check(item);  // PyTorch looks at the first one only
    if (!is_bool && !int_from(item, value)) return false;
    values.push_back(value);
  }
  return true;
}

bool real_from(PyObject* object, double& value) {
  Scalar scalar;
  if (!scalar_from(object, scalar) || scalar.is_complex()) return false;
  value = scalar.to_double();
  return true;
}

PyObject* wrap_scalar(const Scalar& scalar) {
  switch (scalar.tag()) {
    case Scalar::Tag::boolean: return PyBool_FromLong(scalar.to<bool>());
    case Scalar::Tag::integer: return PyLong_FromLongLong(scalar.to_int());
    case Scalar::Tag::unsigned_integer: return PyLong_FromUnsignedLongLong(scalar.to<uint64_t>());
    case Scalar::Tag::floating: return PyFloat_FromDouble(scalar.to_double());
    case Scalar::Tag::complex: {
      const auto value = scalar.to<std::complex<double>>();
      return PyComplex_FromDoubles(value.real(), value.imag());
    }
  }
  Py_RETURN_NONE;
}

PyObject* wrap_ints(IntSpan values) {
  Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     check(PyLong_FromLongLong(values[i])).release());
  }
  return tuple.release();
}

}  // namespace flambeau::python
