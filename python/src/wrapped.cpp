// __torch_dispatch__: classes of tensors that answer for operators themselves, below autograd, and
// tensors of such classes that have no values here (Note [Wrapped tensors] in tensor/sparse.h).
// What to ask them, and how derivatives go through the answer, is flambeau/_operators/_wrapped.py.
#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/binding.h"
#include "python/src/call_with.h"

namespace flambeau::python {
namespace {

PyObject* name_dispatch = nullptr;
PyObject* disabled_dispatch = nullptr;  // what Tensor itself has, and classes assign to opt out
thread_local int dispatch_disabled = 0;

bool defines_dispatch(PyTypeObject* type) {
  PyObject* found = _PyType_Lookup(type, name_dispatch);
  return found && found != disabled_dispatch;
}

// A function of flambeau/_operators/_wrapped.py, which is imported when the first such tensor is
// met.
Object python_function(const char* name) {
  Object module = check(PyImport_ImportModule("flambeau._operators._wrapped"));
  return check(PyObject_GetAttrString(module.get(), name));
}

Tensor ask(const char* op, const Tensor& a, const Tensor& b) {
  const GilAcquire gil;
  const Object from_core = python_function("from_core");
  const Object name = check(PyUnicode_FromString(op));
  const Object first = check(wrap(a)), second = check(wrap(b));
  const Object result = check(PyObject_CallFunctionObjArgs(from_core.get(), name.get(), first.get(),
                                                           second.get(), nullptr));
  CHECK(is_tensor(result.get()), TypeError,
        "{}: __torch_dispatch__ of {} gave a {} where a tensor was expected", op,
        Py_TYPE(first.get())->tp_name, Py_TYPE(result.get())->tp_name);
  return tensor_of(result.get());
}

// _disabled_torch_dispatch_impl(func, types, args, kwargs): the operator, and nobody is asked.
PyObject* disabled(PyObject*, PyObject* args) {
  PyObject *function = nullptr, *types = nullptr, *call_args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &call_args, &kwargs)) return nullptr;
  ++dispatch_disabled;
  PyObject* result = call_with(function, call_args, kwargs);
  --dispatch_disabled;
  return result;
}
PyMethodDef disabled_method = {"_disabled_torch_dispatch_impl", disabled, METH_VARARGS, nullptr};

PyObject* guard_enter(PyObject*, PyObject*) {
  ++dispatch_disabled;
  Py_RETURN_NONE;
}
PyObject* guard_exit(PyObject*, PyObject*) {
  --dispatch_disabled;
  Py_RETURN_NONE;
}
PyMethodDef guard_methods[] = {{"__enter__", guard_enter, METH_NOARGS, nullptr},
                               {"__exit__", guard_exit, METH_VARARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

// _make_wrapped(cls, sizes, strides, storage_offset, dtype, device): a tensor without values.
PyObject* make_wrapped_object(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls = nullptr, *size = nullptr, *stride = nullptr, *dtype = nullptr;
    PyObject* place = nullptr;
    long long offset = 0;
    if (!PyArg_ParseTuple(args, "O!OOLOO:_make_wrapped", &PyType_Type, &cls, &size, &stride,
                          &offset, &dtype, &place))
      return nullptr;
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    CHECK(PyType_IsSubtype(type, tensor_type) && defines_dispatch(type), TypeError,
          "{} must define __torch_dispatch__", type->tp_name);
    Dims sizes, strides;
    Device device;
    CHECK(ints_from(size, sizes) && ints_from(stride, strides) && sizes.size() == strides.size() &&
              is_dtype(dtype) && device_from(place, device),
          TypeError,
          "_make_wrapper_subclass(): sizes and strides of one length, a dtype and a "
          "device are needed");
    CHECK(static_cast<int>(device.type) < device_type_count, NotImplementedError,
          "_make_wrapper_subclass(): not linked with support for {} devices", device.type);
    return wrap_as(type, make_wrapped(sizes, strides, offset, dtype_of_object(dtype), device));
  });
}
PyObject* is_wrapped_object(PyObject*, PyObject* object) {
  return PyBool_FromLong(is_tensor(object) && is_wrapped(tensor_of(object)));
}

PyMethodDef functions[] = {{"_make_wrapped", make_wrapped_object, METH_VARARGS, nullptr},
                           {"_is_wrapped", is_wrapped_object, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool has_dispatch(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type != tensor_type && type != parameter_type && dispatch_disabled == 0 &&
         PyType_IsSubtype(type, tensor_type) && defines_dispatch(type);
}

PyObject* call_dispatch(PyObject* function, PyObject* types, PyObject* args, PyObject* kwargs) {
  const Object run = python_function("run");
  return check(PyObject_CallFunctionObjArgs(run.get(), function, types, args, kwargs, nullptr))
      .release();
}

bool prefer_dispatch(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  if (!tensor_type || !defines_dispatch(type)) return true;
  if (_PyType_Lookup(type, name) != _PyType_Lookup(tensor_type, name)) return true;
  return PyObject_SetAttr(reinterpret_cast<PyObject*>(type), name, disabled_torch_function) == 0;
}

bool add_wrapped(PyObject* module) {
  name_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  disabled_dispatch = PyCFunction_New(&disabled_method, nullptr);
  ask_wrapped = ask;
  PyType_Slot slots[] = {{Py_tp_methods, guard_methods}, {0, nullptr}};
  PyType_Spec spec{"torch._C._DisableTorchDispatch", sizeof(PyObject), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT), slots};
  const Object guard(PyType_FromSpec(&spec));
  return disabled_dispatch && guard &&
         PyDict_SetItem(tensor_type->tp_dict, name_dispatch, disabled_dispatch) == 0 &&
         PyModule_AddObjectRef(module, "_disabled_torch_dispatch_impl", disabled_dispatch) == 0 &&
         PyModule_AddObjectRef(module, "_DisableTorchDispatch", guard.get()) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
