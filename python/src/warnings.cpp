#include "python/src/warnings.h"

#include "flambeau/base/warn.h"

namespace flambeau::python {
namespace {

// Where the filters make an error of the warning, the op that gave it ends with that error.
void warn_in_python(const std::string& text) {
  const GilAcquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

}  // namespace

bool add_warnings(PyObject* /*module*/) {
  set_warn_handler(warn_in_python);
  return true;
}

}  // namespace flambeau::python
