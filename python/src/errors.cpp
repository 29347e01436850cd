// Exceptions across the border: one C++ class per Python exception.
#include <new>

#include "flambeau/base/assertion.h"
#include "flambeau/base/check.h"
#include "flambeau/io/stream.h"
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

// Messages may show bytes of files, which need not be text.
static void raise_as(PyObject* type, const std::exception& error) {
  const std::string_view text = error.what();
  const Object message(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  if (message) PyErr_SetObject(type, message.get());
}

void set_python_error() {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const DeviceFault& error) {
    raise_as(device_fault ? device_fault : PyExc_IndexError, error);
  } catch (const IndexError& error) {
    raise_as(PyExc_IndexError, error);
  } catch (const ValueError& error) {
    raise_as(PyExc_ValueError, error);
  } catch (const TypeError& error) {
    raise_as(PyExc_TypeError, error);
  } catch (const NotImplementedError& error) {
    raise_as(PyExc_NotImplementedError, error);
  } catch (const AssertionError& error) {
    raise_as(PyExc_AssertionError, error);
  } catch (const ZeroDivisionError& error) {
    raise_as(PyExc_ZeroDivisionError, error);
  } catch (const OverflowError& error) {
    raise_as(PyExc_OverflowError, error);
  } catch (const OutOfMemoryError& error) {
    raise_as(out_of_memory_error ? out_of_memory_error : PyExc_RuntimeError, error);
  } catch (const LinAlgError& error) {
    raise_as(linalg_error ? linalg_error : PyExc_RuntimeError, error);
  } catch (const io::UnpicklingError& error) {
    const Object module(PyImport_ImportModule("pickle"));
    const Object type(module ? PyObject_GetAttrString(module.get(), "UnpicklingError") : nullptr);
    if (type) raise_as(type.get(), error);
  } catch (const Error& error) {
    raise_as(PyExc_RuntimeError, error);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory");
  } catch (const std::exception& error) {
    raise_as(PyExc_RuntimeError, error);
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
