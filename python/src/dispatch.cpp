// __torch_dispatch__: classes of tensors, and modes, that answer for operators themselves
// (Note [Dispatched tensors] in flambeau/ops/layers/dispatch.h). Here calls become Python objects,
// as PyTorch shows its operators; flambeau/_operators/_dispatch.py asks.
#include "flambeau/ops/layers/dispatch.h"

#include <vector>

#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/binding.h"
#include "python/src/call_with.h"
#include "python/src/mode_stack.h"

namespace flambeau::python {
namespace {

PyObject* name_dispatch = nullptr;
PyObject* disabled_dispatch = nullptr;  // what Tensor itself has, and classes assign to opt out

// Modes: a stack of objects whose __torch_dispatch__ sees every operator of this thread.
thread_local std::vector<PyObject*> modes;
void note_modes() {
  const bool on = !modes.empty() || is_functionalizing();
  active_layers = static_cast<uint8_t>(on ? active_layers | Active::dispatch
                                          : active_layers & ~Active::dispatch);
}
struct DispatchModes {
  static constexpr const char* kind = "dispatch";
  static std::vector<PyObject*>& stack() { return modes; }
  static void changed() { note_modes(); }
};
using DispatchStack = ModeStack<DispatchModes>;

bool defines_dispatch(PyTypeObject* type) {
  PyObject* found = _PyType_Lookup(type, name_dispatch);
  return found && found != disabled_dispatch;
}

// A function of flambeau/_operators/_dispatch.py, which is imported when it is first needed.
Object python_function(const char* name) {
  Object module = check(PyImport_ImportModule("flambeau._operators._dispatch"));
  return check(PyObject_GetAttrString(module.get(), name));
}

// --- Calls as Python objects ---------------------------------------------------------------------

template <class T, class Convert>
Object list_of(const T* items, size_t count, Convert&& convert) {
  Object list = check(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(convert(items[i])).release());
  }
  return list;
}

Object object_of(const Value& value, Kind kind) {
  if (!value.given) return Object::borrow(Py_None);
  switch (kind) {
    case Kind::tensor: return check(wrap(*value.tensor));
    case Kind::operand:
      return check(value.operand->is_tensor() ? wrap(value.operand->tensor())
                                              : wrap_scalar(value.operand->scalar()));
    case Kind::scalar: return check(wrap_scalar(*value.scalar));
    case Kind::integer: return check(PyLong_FromLongLong(value.integer));
    case Kind::real: return check(PyFloat_FromDouble(value.real));
    case Kind::boolean: return Object::borrow(value.flag ? Py_True : Py_False);
    case Kind::ints:
      return list_of(static_cast<const int64_t*>(value.span.begin), value.span.size,
                     PyLong_FromLongLong);
    case Kind::reals: return list_of(value.reals->data(), value.reals->size(), PyFloat_FromDouble);
    case Kind::tensors: return list_of(value.tensors->data(), value.tensors->size(), wrap);
    case Kind::dtype: return check(wrap_dtype(static_cast<DType>(value.code)));
    case Kind::device: return check(wrap_device(*value.device));
    case Kind::layout: return check(wrap_layout(static_cast<Layout>(value.code)));
    case Kind::memory_format:
      return check(wrap_memory_format(static_cast<MemoryFormat>(value.code)));
    case Kind::string:
      return check(PyUnicode_FromStringAndSize(static_cast<const char*>(value.span.begin),
                                               static_cast<Py_ssize_t>(value.span.size)));
    case Kind::generator: return check(wrap_generator(value.generator));
    case Kind::options: break;
  }
  return Object::borrow(Py_None);
}

void put(PyObject* kwargs, const char* name, const Object& value) {
  if (PyDict_SetItemString(kwargs, name, value.get()) < 0) throw PythonError();
}

// requires_grad is not an operator's business: what is made is told so afterwards.
void put_options(PyObject* kwargs, const Options& options) {
  if (options.dtype) put(kwargs, "dtype", check(wrap_dtype(*options.dtype)));
  if (options.layout != Layout::strided) put(kwargs, "layout", check(wrap_layout(options.layout)));
  if (options.device) put(kwargs, "device", check(wrap_device(*options.device)));
  if (options.pin_memory) put(kwargs, "pin_memory", Object::borrow(Py_True));
}

bool is_default(const Parameter& parameter, const Value& value, const Object& object) {
  if (parameter.required || value.given != parameter.fallback.given) return false;
  if (!value.given) return true;
  if (parameter.kind == Kind::tensor || parameter.kind == Kind::tensors) return false;
  if (parameter.kind == Kind::operand && value.operand->is_tensor()) return false;
  const Object fallback = object_of(parameter.fallback, parameter.kind);
  const int same = PyObject_RichCompareBool(object.get(), fallback.get(), Py_EQ);
  if (same < 0) throw PythonError();
  return same;
}

// By position, without those at the end that have their default; what is only given by name, named.
void arguments_of(const OpCall& call, Object& args, Object& kwargs) {
  std::vector<Object> positional;
  size_t needed = 0;
  kwargs = check(PyDict_New());
  for (size_t i = 0; i < call.overload.parameters.size(); ++i) {
    const Parameter& parameter = call.overload.parameters[i];
    const Value& value = call.values[i];
    if (call.is_out(static_cast<int>(i))) continue;
    if (parameter.kind == Kind::options) {
      put_options(kwargs.get(), *value.options);
      continue;
    }
    const Object object = object_of(value, parameter.kind);
    const bool dispensable = is_default(parameter, value, object);
    if (parameter.keyword_only) {
      if (!dispensable) put(kwargs.get(), parameter.name.c_str(), object);
      continue;
    }
    positional.push_back(object);
    if (!dispensable) needed = positional.size();
  }
  if (call.has_out) {
    const Object outs = list_of(call.outs, call.n_outs, wrap);
    put(kwargs.get(), "out",
        call.out_is_tuple ? check(PyList_AsTuple(outs.get()))
                          : Object::borrow(PyList_GET_ITEM(outs.get(), 0)));
  }
  args = check(PyTuple_New(static_cast<Py_ssize_t>(needed)));
  for (size_t i = 0; i < needed; ++i) {
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), positional[i].release());
  }
}

// --- Answers -------------------------------------------------------------------------------------

Tensor tensor_from(const OpCall& call, PyObject* object) {
  CHECK(object == Py_None || is_tensor(object), TypeError,
        "{}: __torch_dispatch__ gave a {} where a tensor was expected", call.name(),
        Py_TYPE(object)->tp_name);
  return object == Py_None ? Tensor() : tensor_of(object);
}

void read_answer(const OpCall& call, PyObject* answer, Result& result) {
  using Form = Result::Form;
  result = {};
  result.form = call.op().returns;
  Scalar number;
  if (call.in_place()) {
    result.form = Form::tensor;
    result.tensor = *call.values[0].tensor;
  } else if (result.form == Form::tensor && (PyTuple_Check(answer) || PyList_Check(answer)) &&
             PySequence_Fast_GET_SIZE(answer) > 0) {
    // PyTorch's operator gives more than the op.
    result.tensor = tensor_from(call, PySequence_Fast_GET_ITEM(answer, 0));
  } else if (PyTuple_Check(answer) || PyList_Check(answer)) {
    if (result.form != Form::list) result.form = Form::tuple;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(answer); ++i) {
      result.tensors.push_back(tensor_from(call, PySequence_Fast_GET_ITEM(answer, i)));
    }
  } else if (is_tensor(answer)) {
    result.form = Form::tensor;
    result.tensor = tensor_of(answer);
  } else if (answer == Py_None) {
    if (result.form != Form::tensor) result.form = Form::none;
  } else if (is_dtype(answer)) {
    result.scalar = static_cast<int64_t>(dtype_of_object(answer));
  } else if (PyUnicode_Check(answer)) {
    result.text = text_of(answer);
  } else {
    CHECK(scalar_from(answer, number), TypeError,
          "{}: __torch_dispatch__ gave a {} where a tensor was expected", call.name(),
          Py_TYPE(answer)->tp_name);
    result.scalar = number;
    if (result.form == Form::tensor) result.form = Form::scalar;
  }
}

bool makes_leaves(const OpCall& call) {
  for (int i = 0; i < call.op().arity; ++i) {
    if (call.op().kinds[i] == Kind::options && call.values[i].options->requires_grad) return true;
  }
  return false;
}

// An operator and its arguments, which may die in a thread without the GIL.
struct Asked {
  Object op, args, kwargs;
};
void forget(Asked* asked) {
  const GilAcquire gil;
  delete asked;
}

std::shared_ptr<void> ask(const OpCall& call, Result& result) {
  const GilAcquire gil;
  Object args, kwargs;
  arguments_of(call, args, kwargs);
  const Object find = python_function("operator_of");
  const std::string name = operator_name(call);
  Object op = check(PyObject_CallFunction(find.get(), "ss", name.c_str(), call.name().c_str()));
  const Object function = python_function("ask");
  const Object answer = check(
      PyObject_CallFunctionObjArgs(function.get(), op.get(), args.get(), kwargs.get(), nullptr));
  read_answer(call, answer.get(), result);
  if (result.form == Result::Form::tensor && makes_leaves(call)) {
    set_requires_grad(result.tensor, true);
  }
  return {new Asked{std::move(op), std::move(args), std::move(kwargs)}, forget};
}

std::vector<Tensor> ask_gradients(const std::shared_ptr<void>& asked, const Grads& grads) {
  const GilAcquire gil;
  const auto& before = *static_cast<const Asked*>(asked.get());
  const Object given = list_of(grads.begin(), grads.size(), wrap);
  const Object function = python_function("ask_gradients");
  const Object found =
      check(PyObject_CallFunctionObjArgs(function.get(), before.op.get(), given.get(),
                                         before.args.get(), before.kwargs.get(), nullptr));
  const Object items = check(PySequence_Fast(found.get(), "gradients are a sequence"));
  std::vector<Tensor> gradients;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    gradients.push_back(item == Py_None ? Tensor() : tensor_of(item));
  }
  return gradients;
}

// --- What Python has of it -----------------------------------------------------------------------

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
// Whether its class answers for operators.
PyObject* is_dispatched(PyObject*, PyObject* object) {
  return PyBool_FromLong(is_tensor(object) && dispatch_disabled == 0 &&
                         tensor_of(object)->pending & Dispatched::mark);
}

// _set_functionalizing(on): what it was before.
PyObject* functionalize(PyObject*, PyObject* on) {
  const bool before = set_functionalizing(on == Py_True);
  note_modes();
  return PyBool_FromLong(before);
}

PyMethodDef functions[] = {
    {"_make_wrapped", make_wrapped_object, METH_VARARGS, nullptr},
    {"_is_wrapped", is_wrapped_object, METH_O, nullptr},
    {"_is_dispatched", is_dispatched, METH_O, nullptr},
    {"_set_functionalizing", functionalize, METH_O, nullptr},
    {"_push_on_torch_dispatch_stack", DispatchStack::push, METH_O, nullptr},
    {"_pop_torch_dispatch_stack", DispatchStack::pop, METH_NOARGS, nullptr},
    {"_len_torch_dispatch_stack", DispatchStack::count, METH_NOARGS, nullptr},
    {"_get_dispatch_stack_at", DispatchStack::at, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void mark_dispatched(PyTypeObject* type, const Tensor& tensor) {
  if (type != tensor_type && type != parameter_type && name_dispatch && defines_dispatch(type)) {
    tensor->pending |= Dispatched::mark;
  }
}

bool prefer_dispatch(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  if (!tensor_type || !defines_dispatch(type)) return true;
  if (_PyType_Lookup(type, name) != _PyType_Lookup(tensor_type, name)) return true;
  return PyObject_SetAttr(reinterpret_cast<PyObject*>(type), name, disabled_torch_function) == 0;
}

bool add_dispatch(PyObject* module) {
  name_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  disabled_dispatch = PyCFunction_New(&disabled_method, nullptr);
  dispatch_hooks = {ask, ask_gradients, [] { return !modes.empty(); }};
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
