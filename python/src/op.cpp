// Ops as Python objects: one type that is called with vectorcall, matches the arguments to an
// overload, and calls the C++ function behind it. Signatures, defaults and errors all come from the
// registry.
#include <cstddef>
#include <cstring>
#include <memory>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/profiler.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/overwrite.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/tensor_iter.h"
#include "python/src/arguments.h"
#include "python/src/older_calls.h"
#include "python/src/out.h"

namespace flambeau::python {
namespace {

struct OpObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Family* family;
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

PyObject* wrap_result(Result& result, const Overload& overload) {
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

// An elementwise op does not resize what it also reads; it is known by its result, which has the
// common shape of all tensors that went in.
void check_not_read(const Family& family, const Call& call, const Tensor& out,
                    const Tensor& result) {
  if (out.sizes() == result.sizes()) return;
  bool is_read = false;
  Dims common;
  for (Py_ssize_t i = 0; i < call.nargs; ++i) {
    if (!is_tensor(call.args[i])) continue;
    const Tensor& input = tensor_of(call.args[i]);
    is_read |= input.is_same(out);
    if (!can_broadcast_to(input.sizes(), result.sizes())) return;
    common = broadcast_shapes(common, input.sizes());
  }
  CHECK(!is_read || !(result.sizes() == common), RuntimeError,
        "{}(): output with shape {} doesn't match the broadcast shape {}", family.name, out.sizes(),
        common);
}

PyObject* into_out(const Family& family, const Overload& overload, Result& result, PyObject* out) {
  if (is_tensor(out)) {
    CHECK(result.form == Result::Form::tensor, TypeError,
          "{}(): argument 'out' must be tuple of Tensors, not Tensor", family.name);
    write_out(family, tensor_of(out), result.tensor);
    return Py_NewRef(out);
  }
  CHECK((PyTuple_Check(out) || PyList_Check(out)) && result.form != Result::Form::tensor, TypeError,
        "{}(): argument 'out' must be {}, not {}", family.name,
        result.form == Result::Form::tensor ? "Tensor" : "tuple of Tensors", type_name(out));
  const bool fits = PySequence_Fast_GET_SIZE(out) == static_cast<Py_ssize_t>(result.tensors.size());
  CHECK(fits || result.form == Result::Form::tuple, RuntimeError,
        "{}(): expected {} tensors in argument 'out', got {}", family.name, result.tensors.size(),
        PySequence_Fast_GET_SIZE(out));
  CHECK(fits, TypeError, "{}(): argument 'out' must be tuple of {} Tensors, not of {}", family.name,
        result.tensors.size(), PySequence_Fast_GET_SIZE(out));
  const Object items = check(PySequence_Tuple(out));  // a warning may run code that changes a list
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
    CHECK(is_tensor(item), TypeError,
          "{}(): argument 'out' must be tuple of Tensors, but element {} is {}", family.name, i,
          type_name(item));
    write_out(family, tensor_of(item), result.tensors[i], i > 0);
    result.tensors[i] = tensor_of(item);
  }
  if (result.form == Result::Form::list) Py_RETURN_NONE;  // as PyTorch does for split_copy
  return wrap_tuple(result.tensors, overload.result_type);
}

// --- The call ------------------------------------------------------------------------------------

PyObject* run(const Overload& overload, Frame& frame, Result& result) {
  const GilRelease release(frame.largest >= gil_threshold);
  current_op = overload.op->signature;
  overload.op->invoke(overload.op->function, frame.values, result);
  return nullptr;
}

const Overload& find(const Family& family, const std::vector<Overload>& overloads, const Call& call,
                     Frame& frame, PyObject* skip) {
  Mismatch first;
  for (const Overload& overload : overloads) {
    Mismatch miss;
    if (match(overload, call, frame, miss, skip)) return overload;
    if (first.fault == Fault::none) first = miss;
    frame.options = Options();
    frame.largest = 0;
  }
  raise_mismatch(family, first, call);
}

// The form that writes into out= itself; null where there is none for these arguments, and the
// result is written there afterwards.
const Overload* find_direct(const Family& family, const Call& call, Frame& frame) {
  if (family.out_forms.empty()) return nullptr;
  if (!family.takes_out) return &find(family, family.out_forms, call, frame, nullptr);
  for (const Overload& overload : family.out_forms) {
    Mismatch miss;
    if (match(overload, call, frame, miss, nullptr)) return &overload;
    frame.options = Options();
    frame.largest = 0;
  }
  return nullptr;
}

bool any_override(const Call& call) {
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

bool any_wants_gradient(const Call& call) {
  const auto wants = [](PyObject* object) {
    return is_tensor(object) && tensor_of(object).requires_grad();
  };
  bool any = false;
  for (Py_ssize_t i = 0; i < call.nargs + call.keywords(); ++i) {
    PyObject* object = call.args[i];
    any |= wants(object);
    if (!PyTuple_Check(object) && !PyList_Check(object)) continue;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
      any |= wants(PySequence_Fast_GET_ITEM(object, k));
    }
  }
  return any;
}

// out= overwrites a tensor behind the graph's back, so nothing that goes in may want a gradient.
void check_may_write(const Family& family, const Call& call, PyObject* out) {
  const bool records = grad_enabled() && !family.has(OpDef::gives_truth);
  CHECK(!records || !any_wants_gradient(call), RuntimeError,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.",
        family.name);
  CHECK(!is_tensor(out) || !tensor_of(out)->inference || inference_mode(), RuntimeError,
        "{}(): Inplace update to inference tensor outside InferenceMode is not allowed. You can "
        "make a clone to get a normal tensor before doing inplace update.",
        family.name);
}

PyObject* call_family(const Family& family, const Call& call);

// A tensor on which something is pending, and the copy that an op got in its place.
struct Resolved {
  PyObject* given;
  Object copy;
  uint32_t version;  // of the copy, until somebody writes to it
  bool written;
};

Object resolved(PyObject* object, bool written, std::vector<Resolved>& copies) {
  if (is_tensor(object)) {
    if (!tensor_of(object)->pending) return Object(Py_NewRef(object));
    Object copy = check(wrap(resolve(tensor_of(object))));
    if (copy.get() != object) {  // as it is if the op takes it so
      const uint32_t version = tensor_of(copy.get()).version();
      copies.push_back({object, Object(Py_NewRef(copy.get())), version, written});
    }
    return copy;
  }
  if (!PyList_Check(object) && !PyTuple_Check(object)) return Object(Py_NewRef(object));
  Object list = check(PyList_New(0));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    Object item = resolved(PySequence_Fast_GET_ITEM(object, i), written, copies);
    if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
  }
  return list;
}

// The call with copies in place of tensors on which something is pending (Note [Pending
// conjugation]). What the op wrote to a copy goes back to its tensor, which is the result then.
PyObject* call_resolved(const Family& family, const Call& call) {
  std::vector<Object> owned;
  std::vector<PyObject*> args;
  std::vector<Resolved> copies;
  const bool in_place = family.name.back() == '_';
  for (Py_ssize_t i = 0; i < call.nargs + call.keywords(); ++i) {
    const bool is_out =
        i >= call.nargs && PyTuple_GET_ITEM(call.kwnames, i - call.nargs) == name_out;
    owned.push_back(resolved(call.args[i], is_out || (in_place && i == 0), copies));
    args.push_back(owned.back().get());
  }
  Call again = call;
  again.args = args.data();
  Object result = check(call_family(family, again));
  for (const Resolved& one : copies) {
    const Tensor& copy = tensor_of(one.copy.get());
    if (!one.written && copy.version() == one.version) continue;
    const Tensor& given = tensor_of(one.given);
    {  // a step of an optimizer writes leaves, and records nothing
      const bool is_leaf = given.requires_grad() && !grad_fn(given);
      const GradGuard mode(grad_enabled() && (one.written || !is_leaf));
      copy_(given, copy);
    }
    if (result.get() == one.copy.get()) result = Object(Py_NewRef(one.given));
    if (!PyTuple_Check(result.get())) continue;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i) {
      if (PyTuple_GET_ITEM(result.get(), i) != one.copy.get()) continue;
      Py_DECREF(one.copy.get());  // the tuple is new: nobody else has seen its items
      PyTuple_SET_ITEM(result.get(), i, Py_NewRef(one.given));
    }
  }
  return result.release();
}

// The call with tensors that the op cannot take as they are.
PyObject* call_unlike(const Family& family, const Call& call, uint8_t pending) {
  if (pending & ~Pending::sparse) return call_resolved(family, call);
  return call_sparse(family.name.c_str(), call.args, call.nargs, call.kwnames);
}

Tensor copy_with_history(const Tensor& tensor, const Edge& origin) {
  const NoGrad off;
  Tensor copy = clone(tensor);
  if (origin) set_history(copy, origin.node, origin.input);
  return copy;
}

// Writes the result of an op on self, which had the history `origin`. A result that is one step
// away from there has made its step for the write; of others the copying is another step.
void write_result(const Tensor& self, const Edge& origin, const Tensor& result) {
  const NodePtr step = origin && !result->view_base ? grad_fn(result) : nullptr;
  const bool direct = step && step->inputs.size() == 1 && step->edges.size() > 0 &&
                      step->edges[0].node == origin.node && step->edges[0].input == origin.input &&
                      result.dtype() == self.dtype();
  {
    const GradGuard mode(grad_enabled() && !direct);
    copy_(self, result);
  }
  if (direct) rebase_history(self, step);
}

// name_() made from name(): the result is copied into the first argument.
PyObject* call_by_copy(const Family& family, const Call& call, const Overload& overload,
                       Frame& frame, Result& result) {
  const Tensor& self = tensor_of(call.args[0]);
  bool others_want_gradients = false;
  for (Py_ssize_t i = 1; i < call.nargs + call.keywords(); ++i) {
    if (!is_tensor(call.args[i])) continue;
    others_want_gradients |= tensor_of(call.args[i]).requires_grad();
    check_no_partial_overlap(family.name, self, tensor_of(call.args[i]));
  }
  check_inplace(family.name.c_str(), self, others_want_gradients);
  check_no_internal_overlap(family.name, self);
  // What the op keeps of self for backward must not be what it overwrites.
  const bool recorded = grad_enabled() && (self.requires_grad() || others_want_gradients);
  const Edge origin = recorded ? gradient_edge(self) : Edge();
  const Tensor kept = recorded ? copy_with_history(self, origin) : self;
  frame.values[0].tensor = &kept;
  {
    const MayOverwrite target(recorded ? nullptr : &self);
    run(overload, frame, result);
  }
  if (result.tensor.is_same(self)) {
    self.bump_version(family.name.c_str());
    return Py_NewRef(call.args[0]);
  }
  CHECK(can_cast(result.tensor.dtype(), self.dtype()), RuntimeError,
        "{}(): result type {} can't be cast to the desired output type {}", family.name,
        dtype_legacy_name(result.tensor.dtype()), dtype_legacy_name(self.dtype()));
  CHECK(result.tensor.sizes() == self.sizes(), RuntimeError,
        "{}(): output with shape {} doesn't match the broadcast shape {}", family.name,
        self.sizes(), result.tensor.sizes());
  write_result(self, origin, result.tensor);
  return Py_NewRef(call.args[0]);
}

// A new tensor that goes into out= is of out's dtype and device unless others were asked for.
void make_like_out(const Family& family, Options& options, const Tensor& out) {
  CHECK(!options.dtype || *options.dtype == out.dtype(), RuntimeError,
        "{}(): dtype {} does not match dtype of out parameter ({})", family.name,
        dtype_legacy_name(*options.dtype), dtype_legacy_name(out.dtype()));
  options.dtype = out.dtype();
  if (!options.device) options.device = out.device();
}

PyObject* call_family(const Family& family, const Call& call) {
  PyObject* out = nullptr;
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    if (PyTuple_GET_ITEM(call.kwnames, k) == name_out) out = call.args[call.nargs + k];
  }
  Frame frame;
  Result result;
  if (out && out != Py_None && !family.inplace_by_copy) {
    check_may_write(family, call, out);
    if (!family.out_forms.empty()) {
      CHECK(is_tensor(out), TypeError, "{}(): argument 'out' must be Tensor, not {}", family.name,
            type_name(out));
    }
    if (const Overload* direct = find_direct(family, call, frame)) {
      if (frame.pending) [[unlikely]]
        return call_unlike(family, call, frame.pending);
      check_out_device(family, call, tensor_of(out));
      check_out_dtype(family, *direct, frame, out);
      const Dims before = tensor_of(out)->sizes;
      const NoGrad off;
      run(*direct, frame, result);
      warn_if_resized(family, before, tensor_of(out).sizes());
      return Py_NewRef(out);
    }
    CHECK(family.takes_out, TypeError, "{}() got an unexpected keyword argument 'out'",
          family.name);
    const Overload& overload = find(family, family.overloads, call, frame, name_out);
    if (is_tensor(out)) frame.pending |= tensor_of(out)->pending;
    if (frame.pending) [[unlikely]]
      return call_unlike(family, call, frame.pending);
    check_no_overlap(family, call, out);
    check_out_dtype(family, overload, frame, out);
    if (is_tensor(out)) make_like_out(family, frame.options, tensor_of(out));
    const NoGrad off;
    run(overload, frame, result);
    if (is_tensor(out) && result.form == Result::Form::tensor) {
      CHECK(result.tensor.defined(), NotImplementedError,
            "{}(): there is no result to write to out", family.name);
      check_not_read(family, call, tensor_of(out), result.tensor);
    }
    Object written = check(into_out(family, overload, result, out));
    if (frame.options.requires_grad && is_tensor(out)) set_requires_grad(tensor_of(out), true);
    return written.release();
  }
  const Overload& overload = find(family, family.overloads, call, frame, out ? name_out : nullptr);
  if (frame.pending) [[unlikely]] {
    if (family.has(OpDef::takes_pending | OpDef::makes_view)) frame.pending &= Pending::sparse;
    if (family.has(OpDef::takes_sparse)) frame.pending &= static_cast<uint8_t>(~Pending::sparse);
    if (frame.pending) return call_unlike(family, call, frame.pending);
  }
  if (!family.inplace_by_copy) {
    run(overload, frame, result);
    return wrap_result(result, overload);
  }
  return call_by_copy(family, call, overload, frame, result);
}

// The same under the eyes of the profiler, which wants the shapes of arguments too.
[[gnu::cold, gnu::noinline]] PyObject* call_profiled(const Family& family, const Call& call) {
  const Span span(SpanKind::op, family.name);
  for (Py_ssize_t i = 0; span.record() && i < call.nargs; ++i) {
    std::vector<int64_t>& shape = span.record()->shapes.emplace_back();
    if (is_tensor(call.args[i])) {
      const IntSpan sizes = tensor_of(call.args[i]).sizes();
      shape.assign(sizes.begin(), sizes.end());
    }
  }
  return call_family(family, call);
}

// Keywords are told apart by identity. Those out of a dictionary that was read from somewhere need
// not be interned, and are replaced by their interned twins.
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

// A call with names=, which only functions that make tensors have (flambeau/_named.py).
bool has_names(PyObject* kwnames) {
  static PyObject* const names = PyUnicode_InternFromString("names");
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (PyTuple_GET_ITEM(kwnames, k) == names) return true;
  }
  return false;
}
[[gnu::cold]] PyObject* call_named(PyObject* factory, PyObject* const* args, Py_ssize_t nargs,
                                   PyObject* kwnames) {
  Object module = check(PyImport_ImportModule("flambeau._named"));
  Object create = check(PyObject_GetAttrString(module.get(), "create"));
  Object tuple = check(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  Object kwargs = check(PyDict_New());
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]) < 0)
      throw PythonError();
  }
  return check(PyObject_CallFunctionObjArgs(create.get(), factory, tuple.get(), kwargs.get(),
                                            nullptr))
      .release();
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Object names = interned_names(kwnames);
    if (names) kwnames = names.get();
    const Family& family = *reinterpret_cast<OpObject*>(self)->family;
    const Call call{args, PyVectorcall_NARGS(nargsf), kwnames, family.name.c_str()};
    if (modes_active() || any_override(call)) [[unlikely]]
      return call_override(self, args, call.nargs, kwnames);
    if (kwnames && has_names(kwnames)) [[unlikely]]
      return call_named(self, args, call.nargs, kwnames);
    if (profiling()) [[unlikely]]
      return call_profiled(family, call);
    if (family.older && call.nargs > family.older->tensors) [[unlikely]] {
      OlderCall older;
      if (older.arrange(*family.older, call, family.is_method))
        return call_family(family, older.call());
    }
    return call_family(family, call);
  });
}

PyObject* method_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf,
                            PyObject* kwnames) {
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
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
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  if (family.is_method)
    return PyUnicode_FromFormat("<method '%s' of 'torch._C.TensorBase' objects>",
                                family.name.c_str());
  return PyUnicode_FromFormat("<built-in method %s of type object>", family.name.c_str());
}
PyObject* op_name(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpObject*>(self)->family->name.c_str());
}
PyObject* op_qualname(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  return PyUnicode_FromFormat(family.is_method ? "TensorBase.%s" : "%s", family.name.c_str());
}
PyObject* op_module(PyObject* self, void*) {
  (void)self;
  return PyUnicode_FromString("flambeau");
}
PyObject* op_doc(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  std::string text;
  for (const Overload& overload : family.overloads) {
    text += family.name + std::string(std::strchr(overload.op->signature, '(')) + "\n";
  }
  return PyUnicode_FromString((text + "\n" + family.doc).c_str());
}
PyObject* op_reduce(PyObject* self, PyObject*) {
  // By name, so that functions travel in pickles: flambeau.add, or Tensor.add.
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
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
  for (auto& family : read_families()) {
    PyTypeObject* type = family->is_method ? method_type : op_type;
    auto* object = PyObject_New(OpObject, type);
    if (!object) return false;
    object->vectorcall = family->is_method ? method_vectorcall : op_vectorcall;
    family->older = older_order_of(family->name);
    object->family = family.release();  // as long as the process lives
    Object owned(reinterpret_cast<PyObject*>(object));
    const char* name = object->family->name.c_str();
    for (const Overload& overload : object->family->overloads) {
      auto* named = reinterpret_cast<PyObject*>(overload.result_type);
      if (named && PyDict_SetItemString(result_types.get(), name, named) < 0) return false;
    }
    if (object->family->is_method) {
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
