// Exceptions across the border: one C++ class per Python exception.
#include <new>

#include "flambeau/base/check.h"
#include "flambeau/tensor/accelerator.h"
#include "python/src/binding.h"

namespace flambeau::python {

PythonError::PythonError() : Error("a Python exception"), exception_(nullptr) {
#if PY_VERSION_HEX >= 0x030c0000
  exception_ = PyErr_GetRaisedException();
#else
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  exception_ = value;
#endif
}

PythonError::PythonError(const PythonError& other) : Error(other), exception_(other.exception_) {
  const GilAcquire gil;
  Py_XINCREF(exception_);
}

PythonError::~PythonError() {
  const GilAcquire gil;
  Py_XDECREF(exception_);
}

void PythonError::restore() const {
  if (!exception_) {
    PyErr_SetString(PyExc_SystemError, "an error was signalled without an exception");
    return;
  }
  Py_INCREF(exception_);
#if PY_VERSION_HEX >= 0x030c0000
  PyErr_SetRaisedException(exception_);
#else
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception_))), exception_,
                PyException_GetTraceback(exception_));
#endif
}

PyObject* device_fault = nullptr;

void set_python_error() {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const DeviceFault& error) {
    PyErr_SetString(device_fault ? device_fault : PyExc_IndexError, error.what());
  } catch (const IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what());
  } catch (const OverflowError& error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
  } catch (const OutOfMemoryError& error) {
    PyErr_SetString(out_of_memory_error ? out_of_memory_error : PyExc_RuntimeError, error.what());
  } catch (const LinAlgError& error) {
    PyErr_SetString(linalg_error ? linalg_error : PyExc_RuntimeError, error.what());
  } catch (const Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

PyObject* out_of_memory_error = nullptr;
PyObject* linalg_error = nullptr;

bool add_errors(PyObject* module) {
  out_of_memory_error = PyErr_NewExceptionWithDoc("torch.OutOfMemoryError",
                                                  "Raised when a device has no memory left.",
                                                  PyExc_RuntimeError, nullptr);
  linalg_error = PyErr_NewExceptionWithDoc(
      "torch._C._LinAlgError", "Raised when a matrix has no such decomposition or inverse.",
      PyExc_RuntimeError, nullptr);
  const Object bases(PyTuple_Pack(2, PyExc_IndexError, PyExc_RuntimeError));
  device_fault = PyErr_NewExceptionWithDoc(
      "torch.DeviceFault", "Raised when a device found an index or weight that it cannot use.",
      bases.get(), nullptr);
  return out_of_memory_error && linalg_error && device_fault &&
         PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory_error) == 0 &&
         PyModule_AddObjectRef(module, "_DeviceFault", device_fault) == 0 &&
         PyModule_AddObjectRef(module, "_LinAlgError", linalg_error) == 0;
}

}  // namespace flambeau::python
