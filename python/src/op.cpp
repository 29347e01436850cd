// Ops as Python objects: one type that is called with vectorcall, matches the arguments to an
// overload, and hands its values to the entry of the core (flambeau/ops/call.h).
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "flambeau/base/check.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/arguments.h"
#include "python/src/older_calls.h"

namespace flambeau::python {
namespace {

struct OpObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const BoundFamily* bound;
};

PyTypeObject* op_type = nullptr;      // torch.add
PyTypeObject* method_type = nullptr;  // Tensor.add

// --- Results -------------------------------------------------------------------------------------

PyObject* wrap_tuple(std::vector<Tensor>& tensors, PyTypeObject* named) {
  if (named) {
    Object tuple = check(PyStructSequence_New(named));
    for (size_t i = 0; i < tensors.size(); ++i) {
      PyStructSequence_SetItem(tuple.get(), static_cast<Py_ssize_t>(i),
                               check(wrap(std::move(tensors[i]))).release());
    }
    return tuple.release();
  }
  Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     check(wrap(std::move(tensors[i]))).release());
  }
  return tuple.release();
}

PyObject* wrap_result(Result& result, const BoundOverload& overload) {
  switch (result.form) {
    case Result::Form::none: Py_RETURN_NONE;
    case Result::Form::tensor: return wrap(std::move(result.tensor));
    case Result::Form::tuple:
    case Result::Form::list: return wrap_tuple(result.tensors, overload.result_type);
    case Result::Form::boolean: return PyBool_FromLong(result.scalar.to<bool>());
    case Result::Form::dtype: return wrap_dtype(static_cast<DType>(result.scalar.to_int()));
    case Result::Form::text:
      return PyUnicode_FromStringAndSize(result.text.data(),
                                         static_cast<Py_ssize_t>(result.text.size()));
    default: return wrap_scalar(result.scalar);
  }
}

// --- The call ------------------------------------------------------------------------------------

const BoundOverload& find(const BoundFamily& bound, const std::vector<BoundOverload>& overloads,
                          const Arguments& arguments, Frame& frame, PyObject* skip,
                          uint64_t without = 0) {
  Mismatch first;
  for (const BoundOverload& overload : overloads) {
    if (overload.overload->op->has(without)) continue;
    Mismatch miss;
    if (match(overload, arguments, frame, miss, skip)) return overload;
    if (first.fault == Fault::none) first = miss;
    frame.options = Options();
    frame.largest = 0;
  }
  raise_mismatch(bound, first, arguments);
}

// The form that writes into out= itself; null where there is none for these arguments, and the
// result is written there afterwards.
const BoundOverload* find_direct(const BoundFamily& bound, const Arguments& arguments,
                                 Frame& frame) {
  if (!bound.family->takes_out) return &find(bound, bound.out_forms, arguments, frame, nullptr);
  for (const BoundOverload& overload : bound.out_forms) {
    Mismatch miss;
    if (match(overload, arguments, frame, miss, nullptr)) return &overload;
    frame.options = Options();
    frame.largest = 0;
  }
  return nullptr;
}

bool any_override(const Arguments& call) {
  const Py_ssize_t n = call.nargs + call.keywords();
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* object = call.args[i];
    PyTypeObject* type = Py_TYPE(object);
    if (type == tensor_type || type == parameter_type) continue;
    if (has_override(object)) return true;
    if (type == &PyTuple_Type || type == &PyList_Type) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(object, k);
        if (Py_TYPE(item) == tensor_type || !is_tensor(item)) {
          if (Py_TYPE(item) == &PyLong_Type || Py_TYPE(item) == &PyFloat_Type) break;
        }
        if (has_override(item)) return true;
      }
    }
  }
  return false;
}

PyObject* run(const OpCall& op_call, const Arguments& arguments, const BoundOverload& overload,
              Frame& frame) {
  if (frame.special & Pending::sparse & ~op_call.family.takes &&
      !(frame.special & Dispatched::mark)) [[unlikely]]
    return call_sparse(arguments.op, arguments.args, arguments.nargs, arguments.kwnames);
  Result result;
  {
    const GilRelease release(frame.largest >= gil_threshold);
    flambeau::call(op_call, frame.special, result);
  }
  return wrap_result(result, overload);
}

// The tensors of out=, given as a sequence.
std::vector<Tensor> outs_from(const Family& family, Result::Form returns, PyObject* out) {
  CHECK((PyTuple_Check(out) || PyList_Check(out)) && returns != Result::Form::tensor, TypeError,
        "{}(): argument 'out' must be {}, not {}", family.name,
        returns == Result::Form::tensor ? "Tensor" : "tuple of Tensors", type_name(out));
  std::vector<Tensor> outs;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(out, i);
    CHECK(is_tensor(item), TypeError,
          "{}(): argument 'out' must be tuple of Tensors, but element {} is {}", family.name, i,
          type_name(item));
    outs.push_back(tensor_of(item));
  }
  return outs;
}

PyObject* call_into_out(const BoundFamily& bound, const Arguments& arguments, PyObject* out) {
  const Family& family = *bound.family;
  Frame frame;
  const BoundOverload* overload = nullptr;
  if (!bound.out_forms.empty()) {
    CHECK(is_tensor(out), TypeError, "{}(): argument 'out' must be Tensor, not {}", family.name,
          type_name(out));
    overload = find_direct(bound, arguments, frame);
  }
  if (!overload) {
    CHECK(family.takes_out, TypeError, "{}() got an unexpected keyword argument 'out'",
          family.name);
    overload = &find(bound, bound.overloads, arguments, frame, name_out, OpDef::no_out);
  }
  const bool single = is_tensor(out);
  std::vector<Tensor> several;
  if (!single) several = outs_from(family, overload->overload->op->returns, out);
  const std::span<const Tensor> outs(single ? &tensor_of(out) : several.data(),
                                     single ? 1 : several.size());
  for (const Tensor& tensor : outs) frame.special |= tensor->pending;
  const OpCall op_call{family, *overload->overload, frame.values, outs.data(), outs.size(), true,
                       !single};
  return run(op_call, arguments, *overload, frame);
}

PyObject* call_family(const BoundFamily& bound, const Arguments& arguments) {
  PyObject* out = nullptr;
  for (Py_ssize_t k = 0; k < arguments.keywords(); ++k) {
    if (PyTuple_GET_ITEM(arguments.kwnames, k) == name_out)
      out = arguments.args[arguments.nargs + k];
  }
  if (out && out != Py_None && !bound.family->inplace_by_copy) [[unlikely]]
    return call_into_out(bound, arguments, out);
  Frame frame;
  const BoundOverload& overload =
      find(bound, bound.overloads, arguments, frame, out ? name_out : nullptr);
  return run({*bound.family, *overload.overload, frame.values}, arguments, overload, frame);
}

// Keywords are told apart by identity. Those out of a dictionary that was read from somewhere need
// not be interned, and are replaced by their interned equals.
Object interned_names(PyObject* kwnames) {
  const Py_ssize_t count = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  bool interned = true;
  for (Py_ssize_t k = 0; k < count; ++k) {
    interned &= PyUnicode_CHECK_INTERNED(PyTuple_GET_ITEM(kwnames, k)) != 0;
  }
  if (interned) return {};
  Object names = check(PyTuple_New(count));
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* name = Py_NewRef(PyTuple_GET_ITEM(kwnames, k));
    PyUnicode_InternInPlace(&name);
    PyTuple_SET_ITEM(names.get(), k, name);
  }
  return names;
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Object names = interned_names(kwnames);
    if (names) kwnames = names.get();
    const BoundFamily& bound = *reinterpret_cast<OpObject*>(self)->bound;
    const Arguments arguments{args, PyVectorcall_NARGS(nargsf), kwnames,
                              bound.family->name.c_str()};
    if (modes_active() || any_override(arguments)) [[unlikely]]
      return call_override(self, args, arguments.nargs, kwnames);
    if (bound.older && arguments.nargs > bound.older->tensors) [[unlikely]] {
      OlderCall older;
      if (older.arrange(*bound.older, arguments, bound.family->is_method))
        return call_family(bound, older.call());
    }
    return call_family(bound, arguments);
  });
}

PyObject* method_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf,
                            PyObject* kwnames) {
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  const Family& family = *reinterpret_cast<OpObject*>(self)->bound->family;
  if (nargs < 1 || !is_tensor(args[0])) {
    PyErr_Format(PyExc_TypeError,
                 "descriptor '%s' for 'torch._C.TensorBase' objects doesn't apply to a '%s' object",
                 family.name.c_str(), nargs < 1 ? "missing" : Py_TYPE(args[0])->tp_name);
    return nullptr;
  }
  return op_vectorcall(self, args, nargsf, kwnames);
}

PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* op_repr(PyObject* self) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->bound->family;
  if (family.is_method)
    return PyUnicode_FromFormat("<method '%s' of 'torch._C.TensorBase' objects>",
                                family.name.c_str());
  return PyUnicode_FromFormat("<built-in method %s of type object>", family.name.c_str());
}
PyObject* op_name(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpObject*>(self)->bound->family->name.c_str());
}
PyObject* op_qualname(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->bound->family;
  return PyUnicode_FromFormat(family.is_method ? "TensorBase.%s" : "%s", family.name.c_str());
}
PyObject* op_module(PyObject* self, void*) {
  (void)self;
  return PyUnicode_FromString("flambeau");
}
PyObject* op_doc(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->bound->family;
  std::string text;
  for (const Overload& overload : family.overloads) {
    text += family.name + std::string(std::strchr(overload.op->signature, '(')) + "\n";
  }
  return PyUnicode_FromString((text + "\n" + family.doc).c_str());
}
PyObject* op_reduce(PyObject* self, PyObject*) {
  // By name, so that functions travel in pickles: flambeau.add, or Tensor.add.
  const Family& family = *reinterpret_cast<OpObject*>(self)->bound->family;
  if (!family.is_method) return PyUnicode_FromString(family.name.c_str());
  Object builtins = check(PyImport_ImportModule("builtins"));
  Object getattr = check(PyObject_GetAttrString(builtins.get(), "getattr"));
  return Py_BuildValue("O(Os)", getattr.get(), reinterpret_cast<PyObject*>(tensor_type),
                       family.name.c_str());
}

PyGetSetDef op_attributes[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                               {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
                               {"__module__", op_module, nullptr, nullptr, nullptr},
                               {"__doc__", op_doc, nullptr, nullptr, nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr},
                            {nullptr, nullptr, 0, nullptr}};
PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject* make_op_type(const char* name, bool method) {
  PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
      {Py_tp_getset, op_attributes},
      {Py_tp_members, op_members},
      {Py_tp_methods, op_methods},
      {method ? Py_tp_descr_get : 0, method ? reinterpret_cast<void*>(method_get) : nullptr},
      {0, nullptr}};
  unsigned long flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  // Python then calls the unbound method with self in front, without making a bound one.
  if (method) flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
  PyType_Spec spec{name, sizeof(OpObject), 0, static_cast<unsigned>(flags), slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyObject* call_method(const char* name, PyObject* const* args, Py_ssize_t nargs,
                      PyObject* kwnames) {
  Object method = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  return PyObject_Vectorcall(method.get(), args, nargs, kwnames);
}

bool add_ops(PyObject* module) {
  intern_keywords();
  op_type = make_op_type("torch._C.builtin_function", false);
  method_type = make_op_type("torch._C.builtin_method", true);
  if (!op_type || !method_type) return false;
  Object functions(PyDict_New()), result_types(PyDict_New());
  for (auto& bound : bind_families()) {
    const Family& family = *bound->family;
    auto* object = PyObject_New(OpObject, family.is_method ? method_type : op_type);
    if (!object) return false;
    object->vectorcall = family.is_method ? method_vectorcall : op_vectorcall;
    object->bound = bound.release();  // as long as the process lives
    Object owned(reinterpret_cast<PyObject*>(object));
    const char* name = family.name.c_str();
    for (const BoundOverload& overload : object->bound->overloads) {
      auto* named = reinterpret_cast<PyObject*>(overload.result_type);
      if (named && PyDict_SetItemString(result_types.get(), name, named) < 0) return false;
    }
    if (family.is_method) {
      // What the Tensor type defines by hand stays.
      if (PyDict_GetItemString(tensor_type->tp_dict, name)) continue;
      if (PyDict_SetItemString(tensor_type->tp_dict, name, owned.get()) < 0) return false;
    } else {
      if (PyDict_SetItemString(functions.get(), name, owned.get()) < 0) return false;
      if (PyModule_AddObjectRef(module, name, owned.get()) < 0) return false;
    }
  }
  PyType_Modified(tensor_type);
  return PyModule_AddObjectRef(module, "_ops", functions.get()) == 0 &&
         PyModule_AddObjectRef(module, "_result_types", result_types.get()) == 0;
}

}  // namespace flambeau::python
