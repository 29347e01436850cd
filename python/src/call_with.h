// Calling a function with arguments that a program handed over as objects.
#pragma once

#include "python/src/binding.h"

namespace flambeau::python {

// function(*args, **kwargs), where either may be null or None; any sequence will do for the first.
inline PyObject* call_with(PyObject* function, PyObject* args, PyObject* kwargs) {
  // CPython itself asks for a tuple and a dict, and crashes if they are not.
  Object tuple(args && args != Py_None ? PySequence_Tuple(args) : PyTuple_New(0));
  if (!tuple) return nullptr;
  if (kwargs == Py_None) kwargs = nullptr;
  if (kwargs && !PyDict_Check(kwargs)) {
    PyErr_Format(PyExc_TypeError, "keyword arguments must be a dict, not %s",
                 Py_TYPE(kwargs)->tp_name);
    return nullptr;
  }
  return PyObject_Call(function, tuple.get(), kwargs);
}

}  // namespace flambeau::python
