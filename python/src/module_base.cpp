// The base type of nn.Module: the two things that every forward does many times, in C. Finding an
// attribute among parameters, buffers and submodules costs Python half a microsecond (it must fail,
// raise and call __getattr__); calling a module without hooks costs a frame and a dozen look-ups.
#include <array>

#include "python/src/binding.h"

namespace flambeau::python {
namespace {

PyTypeObject* base_type = nullptr;
PyObject* own_getattr = nullptr;       // the descriptor of _ModuleBase.__getattr__
PyObject* own_getattribute = nullptr;  // and of object.__getattribute__

// The dictionaries of global hooks, which nn hands over once.
PyObject* global_hooks = nullptr;

PyObject *name_forward, *name_call_with_hooks, *name_getattr, *name_getattribute,
    *name_init_subclass;
// Where attributes are looked for that are not in the instance's dictionary.
std::array<PyObject*, 3> member_registries;
// A module with something in one of these is called the long way.
std::array<PyObject*, 5> call_registries;

// The instance's dictionary, borrowed; null (and an exception) if there is none.
PyObject* dict_of(PyObject* self) {
  PyObject** place = _PyObject_GetDictPtr(self);
  if (place && *place) return *place;
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  Py_XDECREF(dict);  // the instance holds it
  return dict;
}

// A parameter, buffer or submodule: a new reference, or null, with an exception only on failure.
PyObject* find_member(PyObject* dict, PyObject* name) {
  for (PyObject* registry_name : member_registries) {
    PyObject* registry = PyDict_GetItemWithError(dict, registry_name);
    if (!registry) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    if (PyDict_Check(registry)) {
      if (PyObject* value = PyDict_GetItemWithError(registry, name)) return Py_NewRef(value);
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    // A program put a mapping of its own there.
    if (PyObject* value = PyObject_GetItem(registry, name)) return value;
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) return nullptr;
    PyErr_Clear();
  }
  return nullptr;
}

PyObject* no_attribute(PyObject* self, PyObject* name) {
  PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
               Py_TYPE(self)->tp_name, name);
  return nullptr;
}

PyObject* getattro(PyObject* self, PyObject* name) {
  if (_PyType_Lookup(Py_TYPE(self), name)) return PyObject_GenericGetAttr(self, name);
  PyObject* dict = dict_of(self);
  if (!dict) return nullptr;
  if (PyObject* value = PyDict_GetItemWithError(dict, name)) return Py_NewRef(value);
  if (PyErr_Occurred()) return nullptr;
  if (PyObject* member = find_member(dict, name)) return member;
  return PyErr_Occurred() ? nullptr : no_attribute(self, name);
}

// __getattr__(name), for subclasses that extend it and call super().
PyObject* getattr_method(PyObject* self, PyObject* name) {
  PyObject* dict = dict_of(self);
  if (!dict) return nullptr;
  if (PyObject* member = find_member(dict, name)) return member;
  return PyErr_Occurred() ? nullptr : no_attribute(self, name);
}

// Whether there is anything in a hook registry: 1, 0, or -1 and an exception.
int is_filled(PyObject* registry) {
  return PyDict_Check(registry) ? PyDict_GET_SIZE(registry) != 0 : PyObject_IsTrue(registry);
}

int has_hooks(PyObject* dict) {
  for (PyObject* registry_name : call_registries) {
    PyObject* registry = PyDict_GetItemWithError(dict, registry_name);
    if (!registry) {
      if (PyErr_Occurred()) return -1;
      continue;
    }
    if (int filled = is_filled(registry)) return filled;
  }
  for (Py_ssize_t i = 0; global_hooks && i < PyTuple_GET_SIZE(global_hooks); ++i) {
    if (int filled = is_filled(PyTuple_GET_ITEM(global_hooks, i))) return filled;
  }
  return 0;
}

PyObject* call_with_hooks(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* given = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  if (!given) return nullptr;
  PyObject* result = PyObject_CallMethodObjArgs(self, name_call_with_hooks, args, given, nullptr);
  Py_DECREF(given);
  return result;
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* dict = dict_of(self);
  if (!dict) return nullptr;
  const int hooked = has_hooks(dict);
  if (hooked != 0) return hooked < 0 ? nullptr : call_with_hooks(self, args, kwargs);

  constexpr Py_ssize_t max_arguments = 7;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* forward = _PyType_Lookup(Py_TYPE(self), name_forward);
  if (forward && PyFunction_Check(forward) && count <= max_arguments) {
    PyObject* patched = PyDict_GetItemWithError(dict, name_forward);
    if (!patched) {
      if (PyErr_Occurred()) return nullptr;
      PyObject* stack[1 + max_arguments];
      stack[0] = self;
      for (Py_ssize_t i = 0; i < count; ++i) stack[i + 1] = PyTuple_GET_ITEM(args, i);
      // The method may replace itself on the class while it runs.
      Py_INCREF(forward);
      PyObject* result =
          PyObject_VectorcallDict(forward, stack, static_cast<size_t>(count + 1), kwargs);
      Py_DECREF(forward);
      return result;
    }
  }
  PyObject* bound = PyObject_GetAttr(self, name_forward);
  if (!bound) return nullptr;
  PyObject* result = PyObject_Call(bound, args, kwargs);
  Py_DECREF(bound);
  return result;
}

// Python gives a class with a __getattr__ in its ancestry a slot that looks the attribute up in
// the ordinary way first, fails, and only then asks. A class that has just ours gets ours back.
// Should the class be given another __getattr__ later, Python changes the slot again. The slot is
// not _ModuleBase's own: `__getattribute__`, called by name, is that of object, and finds no
// members.
void use_own_slot(PyTypeObject* cls) {
  if (_PyType_Lookup(cls, name_getattr) == own_getattr &&
      _PyType_Lookup(cls, name_getattribute) == own_getattribute) {
    cls->tp_getattro = getattro;
  }
}

PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
  use_own_slot(reinterpret_cast<PyTypeObject*>(cls));
  PyObject* parent =
      PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type),
                                   reinterpret_cast<PyObject*>(base_type), cls, nullptr);
  if (!parent) return nullptr;
  PyObject* next = PyObject_GetAttr(parent, name_init_subclass);
  Py_DECREF(parent);
  if (!next) return nullptr;
  PyObject* result = PyObject_Call(next, args, kwargs);
  Py_DECREF(next);
  return result;
}

// _set_global_hooks(registries): the dictionaries that calls look into for hooks of all modules.
PyObject* set_global_hooks(PyObject*, PyObject* registries) {
  if (!PyTuple_Check(registries)) {
    PyErr_SetString(PyExc_TypeError, "_set_global_hooks(): registries must be a tuple");
    return nullptr;
  }
  Py_XSETREF(global_hooks, Py_NewRef(registries));
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__getattr__", getattr_method, METH_O, "A parameter, buffer or submodule by name."},
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(init_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {"_set_global_hooks", set_global_hooks, METH_O | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("What nn.Module does on every call, without Python.")},
    {0, nullptr}};
PyType_Spec spec{"flambeau._C._ModuleBase", sizeof(PyObject), 0,
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

bool add_module_base(PyObject* module) {
  name_forward = PyUnicode_InternFromString("forward");
  name_call_with_hooks = PyUnicode_InternFromString("_call_with_hooks");
  name_getattr = PyUnicode_InternFromString("__getattr__");
  name_getattribute = PyUnicode_InternFromString("__getattribute__");
  name_init_subclass = PyUnicode_InternFromString("__init_subclass__");
  constexpr std::array members{"_parameters", "_buffers", "_modules"};
  for (size_t i = 0; i < members.size(); ++i)
    member_registries[i] = PyUnicode_InternFromString(members[i]);
  constexpr std::array hooks{"_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                             "_backward_pre_hooks", "_compiled_call_impl"};
  for (size_t i = 0; i < hooks.size(); ++i)
    call_registries[i] = PyUnicode_InternFromString(hooks[i]);
  base_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!base_type) return false;
  own_getattr = _PyType_Lookup(base_type, name_getattr);
  own_getattribute = _PyType_Lookup(base_type, name_getattribute);
  return PyModule_AddObjectRef(module, "_ModuleBase", reinterpret_cast<PyObject*>(base_type)) == 0;
}

}  // namespace flambeau::python
