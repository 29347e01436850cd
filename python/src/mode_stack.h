// The functions of Python that push, pop and look at a stack of modes of this thread: those of
// __torch_function__ and those of __torch_dispatch__.
#pragma once

#include <vector>

#include "python/src/binding.h"

namespace flambeau::python {

// Modes has the stack(), its kind for errors, and changed(), which is called after each change.
template <class Modes>
struct ModeStack {
  static PyObject* push(PyObject*, PyObject* mode) {
    Modes::stack().push_back(Py_NewRef(mode));
    Modes::changed();
    Py_RETURN_NONE;
  }
  static PyObject* pop(PyObject*, PyObject*) {
    std::vector<PyObject*>& modes = Modes::stack();
    if (modes.empty()) {
      PyErr_Format(PyExc_AssertionError, "the stack of torch %s modes is empty", Modes::kind);
      return nullptr;
    }
    PyObject* mode = modes.back();
    modes.pop_back();
    Modes::changed();
    return mode;
  }
  static PyObject* count(PyObject*, PyObject*) { return PyLong_FromSize_t(Modes::stack().size()); }
  static PyObject* at(PyObject*, PyObject* index) {
    const std::vector<PyObject*>& modes = Modes::stack();
    const size_t at = PyLong_AsSize_t(index);
    if (PyErr_Occurred()) return nullptr;
    if (at >= modes.size()) {
      PyErr_Format(PyExc_IndexError, "no torch %s mode at this position", Modes::kind);
      return nullptr;
    }
    return Py_NewRef(modes[at]);
  }
};

}  // namespace flambeau::python
