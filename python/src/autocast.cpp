// The state of autocast (flambeau/ops/layers/autocast.h) under PyTorch's names.
#include "flambeau/ops/layers/autocast.h"

#include <cstring>

#include "flambeau/base/check.h"
#include "python/src/arguments.h"

namespace flambeau::python {
namespace {

DeviceType type_from(const char* function, PyObject* text) {
  CHECK(PyUnicode_Check(text), TypeError,
        "{}(): argument 'device_type' (position 1) must be str, not {}", function, type_name(text));
  const char* name = PyUnicode_AsUTF8(text);
  if (!name) throw PythonError();
  return Device::parse(name).type;
}

bool flag_from(const char* function, int position, PyObject* object) {
  CHECK(PyBool_Check(object), TypeError,
        "{}(): argument 'enabled' (position {}) must be bool, not {}", function, position,
        type_name(object));
  return object == Py_True;
}

DeviceType supported(DeviceType type) {
  CHECK(has_autocast(type), RuntimeError,
        "unknown device type for autocast: it is there for cpu and cuda, not for {}", type);
  return type;
}

PyObject* is_enabled(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device_type", nullptr};
    PyObject* type = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_autocast_enabled",
                                     const_cast<char**>(names), &type))
      return nullptr;
    const DeviceType of = type ? type_from("is_autocast_enabled", type) : DeviceType::cuda;
    if (static_cast<int>(of) >= device_type_count) Py_RETURN_FALSE;  // nothing ever lies there
    return PyBool_FromLong(autocast_enabled(supported(of)));
  });
}

// set_autocast_enabled(device_type, enabled), or (enabled) for CUDA.
PyObject* set_enabled(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device_type", "enabled", nullptr};
    PyObject *type = nullptr, *enabled = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:set_autocast_enabled",
                                     const_cast<char**>(names), &type, &enabled))
      return nullptr;
    constexpr const char* name = "set_autocast_enabled";
    const bool for_cuda = !type || !enabled;
    const bool flag = for_cuda ? flag_from(name, 1,
                                           type      ? type
                                           : enabled ? enabled
                                                     : Py_None)
                               : flag_from(name, 2, enabled);
    set_autocast_enabled(for_cuda ? DeviceType::cuda : supported(type_from(name, type)), flag);
    Py_RETURN_NONE;
  });
}

PyObject* get_dtype(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device_type", nullptr};
    PyObject* type = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:get_autocast_dtype",
                                     const_cast<char**>(names), &type))
      return nullptr;
    return wrap_dtype(autocast_dtype(supported(type_from("get_autocast_dtype", type))));
  });
}

PyObject* set_dtype(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device_type", "dtype", nullptr};
    PyObject *type = nullptr, *dtype = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:set_autocast_dtype",
                                     const_cast<char**>(names), &type, &dtype))
      return nullptr;
    CHECK(is_dtype(dtype), TypeError,
          "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {}",
          type_name(dtype));
    set_autocast_dtype(supported(type_from("set_autocast_dtype", type)), dtype_of_object(dtype));
    Py_RETURN_NONE;
  });
}

PyObject* is_available(PyObject*, PyObject* type) {
  return guarded(
      [&] { return PyBool_FromLong(has_autocast(type_from("_is_autocast_available", type))); });
}

PyObject* is_any_enabled(PyObject*, PyObject*) { return PyBool_FromLong(any_autocast_enabled()); }
PyObject* is_cache_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(autocast_cache_enabled());
}
PyObject* set_cache_enabled(PyObject*, PyObject* enabled) {
  return guarded([&]() -> PyObject* {
    CHECK(PyBool_Check(enabled), TypeError, "enabled must be a bool (got {})", type_name(enabled));
    set_autocast_cache_enabled(enabled == Py_True);
    Py_RETURN_NONE;
  });
}
PyObject* clear_cache(PyObject*, PyObject*) {
  clear_autocast_cache();
  Py_RETURN_NONE;
}
PyObject* increment_nesting(PyObject*, PyObject*) {
  return PyLong_FromLong(increment_autocast_nesting());
}
PyObject* decrement_nesting(PyObject*, PyObject*) {
  return PyLong_FromLong(decrement_autocast_nesting());
}

PyCFunction keywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
PyMethodDef functions[] = {
    {"is_autocast_enabled", keywords(is_enabled), METH_VARARGS | METH_KEYWORDS,
     "Whether autocast is on for a kind of device; without one, for CUDA."},
    {"set_autocast_enabled", keywords(set_enabled), METH_VARARGS | METH_KEYWORDS,
     "Turns autocast on or off for a kind of device, in this thread."},
    {"get_autocast_dtype", keywords(get_dtype), METH_VARARGS | METH_KEYWORDS,
     "The low precision of autocast for a kind of device."},
    {"set_autocast_dtype", keywords(set_dtype), METH_VARARGS | METH_KEYWORDS,
     "Sets the low precision of autocast for a kind of device."},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS,
     "Whether parameters are cast once for all uses."},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O,
     "Sets whether parameters are cast once for all uses."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "Forgets the parameters that were cast."},
    {"autocast_increment_nesting", increment_nesting, METH_NOARGS,
     "Enters a region; the depth that is reached."},
    {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS,
     "Leaves a region; the depth that is reached."},
    {"_is_any_autocast_enabled", is_any_enabled, METH_NOARGS,
     "Whether autocast is on for any kind of device."},
    {"_is_autocast_available", is_available, METH_O,
     "Whether there is an autocast for a kind of device."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_autocast(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
