// __torch_function__: objects that want to answer for ops themselves. Those that do so with
// __torch_dispatch__ are asked after them (dispatch.cpp).
#include <algorithm>
#include <memory>
#include <vector>

#include "python/src/binding.h"
#include "python/src/call_with.h"
#include "python/src/mode_stack.h"

namespace flambeau::python {
namespace {

PyObject* name_torch_function = nullptr;

// Modes: a stack of objects whose __torch_function__ sees every call of this thread.
thread_local std::vector<PyObject*> modes;
thread_local bool modes_off = false;
void count_active() { active_modes = modes_off ? 0 : static_cast<int>(modes.size()); }
struct FunctionModes {
  static constexpr const char* kind = "function";
  static std::vector<PyObject*>& stack() { return modes; }
  static void changed() { count_active(); }
};
using FunctionStack = ModeStack<FunctionModes>;

bool is_basic(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
         type == &PyTuple_Type || type == &PyList_Type || type == &PyUnicode_Type ||
         type == Py_TYPE(Py_None) || type == dtype_type || type == device_type ||
         type == size_type || type == &PySlice_Type || type == Py_TYPE(Py_Ellipsis);
}

// Whether the object's class answers by __torch_function__.
bool has_function(PyObject* object) {
  if (overrides_disabled) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (type == tensor_type || type == parameter_type || is_basic(type)) return false;
  if (type->tp_getattro != PyObject_GenericGetAttr && !is_tensor(object) && PyType_Check(object))
    return false;
  PyObject* found = _PyType_Lookup(type, name_torch_function);
  return found && found != disabled_torch_function;
}

// Holds what it finds: the code that answers may change the lists that it was found in.
void collect(PyObject* object, bool (*answers)(PyObject*), std::vector<Object>& found) {
  if (PyTuple_Check(object) || PyList_Check(object)) {
    if (Py_EnterRecursiveCall(" while looking for __torch_function__")) throw PythonError();
    const std::unique_ptr<void, void (*)(void*)> leave(object,
                                                       [](void*) { Py_LeaveRecursiveCall(); });
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      collect(PySequence_Fast_GET_ITEM(object, i), answers, found);
    return;
  }
  if (!answers(object)) return;
  const auto same_type = [&](const Object& other) {
    return Py_TYPE(other.get()) == Py_TYPE(object);
  };
  if (std::any_of(found.begin(), found.end(), same_type)) return;
  // A subclass answers before its base.
  const auto at = std::find_if(found.begin(), found.end(), [&](const Object& other) {
    return PyType_IsSubtype(Py_TYPE(object), Py_TYPE(other.get()));
  });
  found.insert(at, Object::borrow(object));
}

Object types_of(const std::vector<Object>& found) {
  Object types = check(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
  for (size_t i = 0; i < found.size(); ++i) {
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[i].get()))));
  }
  return types;
}

PyObject* disabled(PyObject*, PyObject* args) {
  // _disabled_torch_function_impl(func, types, args, kwargs)
  PyObject *function = nullptr, *types = nullptr, *call_args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &call_args, &kwargs)) return nullptr;
  ++overrides_disabled;
  PyObject* result = call_with(function, call_args, kwargs);
  --overrides_disabled;
  return result;
}
PyMethodDef disabled_method = {"_disabled_torch_function_impl", disabled, METH_VARARGS, nullptr};

// with DisableTorchFunctionSubclass(): and with DisableTorchFunction(): (modes too).
struct Guard {
  PyObject_HEAD bool modes_too;
  bool before;
};
template <bool ModesToo>
PyObject* guard_enter(PyObject* self, PyObject*) {
  ++overrides_disabled;
  if (ModesToo) {
    reinterpret_cast<Guard*>(self)->before = modes_off;
    modes_off = true;
    count_active();
  }
  Py_RETURN_NONE;
}
template <bool ModesToo>
PyObject* guard_exit(PyObject* self, PyObject*) {
  --overrides_disabled;
  if (ModesToo) {
    modes_off = reinterpret_cast<Guard*>(self)->before;
    count_active();
  }
  Py_RETURN_NONE;
}
template <bool ModesToo>
PyMethodDef guard_methods[] = {{"__enter__", guard_enter<ModesToo>, METH_NOARGS, nullptr},
                               {"__exit__", guard_exit<ModesToo>, METH_VARARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
template <bool ModesToo>
PyObject* make_guard_type(const char* name) {
  PyType_Slot slots[] = {{Py_tp_methods, guard_methods<ModesToo>}, {0, nullptr}};
  PyType_Spec spec{name, sizeof(Guard), 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT), slots};
  return PyType_FromSpec(&spec);
}

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(overrides_disabled == 0); }
PyObject* has_torch_function(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    Object items = check(PySequence_Fast(arguments, "expected a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      if (has_function(PySequence_Fast_GET_ITEM(items.get(), i))) Py_RETURN_TRUE;
    }
    return PyBool_FromLong(modes_active());
  });
}

PyMethodDef functions[] = {
    {"_is_torch_function_enabled", is_enabled, METH_NOARGS, nullptr},
    {"_push_on_torch_function_stack", FunctionStack::push, METH_O, nullptr},
    {"_pop_torch_function_stack", FunctionStack::pop, METH_NOARGS, nullptr},
    {"_len_torch_function_stack", FunctionStack::count, METH_NOARGS, nullptr},
    {"_get_function_stack_at", FunctionStack::at, METH_O, nullptr},
    {"_has_torch_function", has_torch_function, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

constinit thread_local int active_modes = 0;
PyObject* disabled_torch_function = nullptr;

bool has_override(PyObject* object) { return has_function(object); }

PyObject* call_override(PyObject* function, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  std::vector<Object> found;
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < nargs + keywords; ++i) collect(args[i], has_function, found);
  Object tuple = check(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  Object kwargs = check(PyDict_New());
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
      throw PythonError();
  }
  const Object types = types_of(found);
  if (modes_active()) {
    // The innermost mode sees the call first, with itself taken off.
    PyObject* mode = modes.back();
    modes.pop_back();
    count_active();
    Object method(PyObject_GetAttr(mode, name_torch_function));
    Object result(method ? PyObject_CallFunctionObjArgs(method.get(), function, types.get(),
                                                        tuple.get(), kwargs.get(), nullptr)
                         : nullptr);
    modes.push_back(mode);
    count_active();
    if (!result) throw PythonError();
    if (result.get() != Py_NotImplemented) return result.release();
  }
  for (const Object& object : found) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object.get()));
    Object method = check(PyObject_GetAttr(type, name_torch_function));
    Object result = check(PyObject_CallFunctionObjArgs(method.get(), function, types.get(),
                                                       tuple.get(), kwargs.get(), nullptr));
    if (result.get() != Py_NotImplemented) return result.release();
  }
  Object name(PyObject_GetAttrString(function, "__name__"));
  PyErr_Format(PyExc_TypeError,
               "no implementation found for '%S' on types that implement __torch_function__: %R",
               name ? name.get() : function, types.get());
  throw PythonError();
}

PyObject* call_sparse(const char* name, PyObject* const* args, Py_ssize_t nargs,
                      PyObject* kwnames) {
  // Imported when the first sparse tensor is met, and kept.
  static PyObject* const run = [] {
    Object module = check(PyImport_ImportModule("flambeau.sparse._operations"));
    return check(PyObject_GetAttrString(module.get(), "run")).release();
  }();
  Object text = check(PyUnicode_FromString(name));
  Object tuple = check(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  Object kwargs = check(PyDict_New());
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]) < 0)
      throw PythonError();
  }
  PyObject* const all[] = {text.get(), tuple.get(), kwargs.get()};
  return check(PyObject_Vectorcall(run, all, 3, nullptr)).release();
}

PyObject* call_override_of(const char* name, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames, const char* half) {
  Object function = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  if (half) function = check(PyObject_GetAttrString(function.get(), half));
  return call_override(function.get(), args, nargs, kwnames);
}

bool add_overrides(PyObject* module) {
  name_torch_function = PyUnicode_InternFromString("__torch_function__");
  disabled_torch_function = PyCFunction_New(&disabled_method, nullptr);
  Object subclass(make_guard_type<false>("torch._C.DisableTorchFunctionSubclass"));
  Object all(make_guard_type<true>("torch._C.DisableTorchFunction"));
  return disabled_torch_function && subclass && all &&
         PyModule_AddObjectRef(module, "_disabled_torch_function_impl", disabled_torch_function) ==
             0 &&
         PyModule_AddObjectRef(module, "DisableTorchFunctionSubclass", subclass.get()) == 0 &&
         PyModule_AddObjectRef(module, "DisableTorchFunction", all.get()) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
