#include "python/src/warnings.h"

#include "flambeau/base/warn.h"

namespace flambeau::python {
namespace {

// Where the filters make an error of the warning, the op that gave it ends with that error.
void warn_in_python(const std::string& text) {
  const GilAcquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

PyObject* set_warn_always_(PyObject*, PyObject* always) {
  set_warn_always(always == Py_True);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_set_warn_always", set_warn_always_, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_warnings(PyObject* module) {
  set_warn_handler(warn_in_python);
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
