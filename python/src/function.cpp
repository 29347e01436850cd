// Custom autograd functions: `_FunctionBase` is the context that forward and backward share, and
// the Python face of the node that Function.apply makes.
#include <algorithm>

#include "flambeau/autograd/custom_function.h"
#include "flambeau/autograd/grad_mode.h"
#include "python/src/node.h"

namespace flambeau::python {
namespace {

struct Context {
  PyObject_HEAD PyObject* dict;
  PyObject* needs_input_grad;
  Node* node;                 // borrowed; null before apply ends and after the node is gone
  std::vector<Saved>* saved;  // null when freed
  bool freed;
};
PyTypeObject* context_type = nullptr;
Context* as_context(PyObject* self) { return reinterpret_cast<Context*>(self); }

void context_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  Context* context = as_context(self);
  Py_CLEAR(context->dict);
  Py_CLEAR(context->needs_input_grad);
  delete context->saved;
  type->tp_free(self);
  Py_DECREF(type);
}
int context_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_context(self)->dict);
  Py_VISIT(as_context(self)->needs_input_grad);
  Py_VISIT(Py_TYPE(self));
  return 0;
}
int context_clear(PyObject* self) {
  Py_CLEAR(as_context(self)->dict);
  Py_CLEAR(as_context(self)->needs_input_grad);
  return 0;
}

void check_not_freed(const Context& context) {
  if (context.freed) refuse_freed();
}
// The same as objects on which hooks can be put.
PyObject* get_raw_saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Context* context = as_context(self);
    check_not_freed(*context);
    const size_t count = context->saved ? context->saved->size() : 0;
    Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       check(wrap_saved(nullptr, {&(*context->saved)[i]}, self)).release());
    }
    return tuple.release();
  });
}
PyObject* get_saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Context* context = as_context(self);
    // A copy: hooks that unpack may run a backward pass, which frees what is saved.
    const std::vector<Saved> saved = context->saved ? *context->saved : std::vector<Saved>();
    check_not_freed(*context);
    Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(saved.size())));
    for (size_t i = 0; i < saved.size(); ++i) {
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap(saved[i]())).release());
    }
    return tuple.release();
  });
}
PyObject* get_saved_variables(PyObject* self, void* closure) {
  constexpr const char* text = "'saved_variables' is deprecated; use 'saved_tensors'";
  if (PyErr_WarnEx(PyExc_DeprecationWarning, text, 1) < 0) return nullptr;
  return get_saved_tensors(self, closure);
}
PyObject* get_needs_input_grad(PyObject* self, void*) {
  PyObject* needs = as_context(self)->needs_input_grad;
  return Py_NewRef(needs ? needs : Py_None);
}
PyObject* get_metadata(PyObject* self, void*) {
  Object dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return nullptr;
  PyObject* metadata = PyDict_GetItemString(dict.get(), "_metadata");
  if (metadata) return Py_NewRef(metadata);
  Object made(PyDict_New());
  if (!made || PyDict_SetItemString(dict.get(), "_metadata", made.get()) < 0) return nullptr;
  return made.release();
}

// --- apply ---------------------------------------------------------------------------------------

Object attribute_or_null(PyObject* object, const char* name) {
  Object value(PyObject_GetAttrString(object, name));
  if (!value) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
  }
  return value.get() == Py_None ? Object() : value;
}

// The tensors of a tuple that the user left on the context; undefined for None.
template <class ErrorType>
std::vector<Tensor> tensors_in(const Object& tuple, const char* what, const char* only,
                               bool allow_none) {
  std::vector<Tensor> tensors;
  if (!tuple) return tensors;
  CHECK(PyTuple_Check(tuple.get()), TypeError, "{} attribute is expected to be a tuple, but is {}",
        what, Py_TYPE(tuple.get())->tp_name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (!is_tensor(item) && !(allow_none && item == Py_None))
      fail<ErrorType>("{} {}, but argument {} is of type {}", what, only, i,
                      Py_TYPE(item)->tp_name);
    tensors.push_back(is_tensor(item) ? tensor_of(item) : Tensor());
  }
  return tensors;
}

// Runs backward in Python: gradients in, gradients out.
struct BackwardRule {
  std::shared_ptr<void> context;
  std::vector<int> edge_of_argument;   // -1 where the argument is no tensor
  std::vector<bool> is_tensor_output;  // others get no gradient
  bool materialize = true;

  BackwardRule(std::shared_ptr<void> context, std::vector<int> edges, PyObject* outputs)
      : context(std::move(context)), edge_of_argument(std::move(edges)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i)
      is_tensor_output.push_back(is_tensor(PyTuple_GET_ITEM(outputs, i)));
  }
  BackwardRule(BackwardRule&&) noexcept = default;
  ~BackwardRule() {
    if (!context) return;
    const GilAcquire gil;
    Context* self = as_context(held(context));
    // A graph that merely died leaves the saved tensors to those who still hold the context.
    if (self->node && self->node->released()) {
      delete std::exchange(self->saved, nullptr);
      self->freed = true;
    }
    context.reset();
  }

  void operator()(Grads& in, Grads& out) {
    const GilAcquire gil;
    PyObject* self = held(context);
    const Node& node = *as_context(self)->node;
    if (materialize) {
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i].defined() || !is_tensor_output[i]) continue;
        in[i] = missing_gradient(node.inputs[i]);
      }
    }
    Object grads = check(grads_tuple(in));
    Object apply = check(PyObject_GetAttrString(self, "apply"));
    Object result = check(PyObject_CallObject(apply.get(), grads.get()));
    Object values = PyTuple_Check(result.get())  ? result
                    : PyList_Check(result.get()) ? check(PyList_AsTuple(result.get()))
                                                 : check(PyTuple_Pack(1, result.get()));
    take(values.get(), node, out);
  }

  void take(PyObject* values, const Node& node, Grads& out) const {
    const auto expected = static_cast<Py_ssize_t>(edge_of_argument.size());
    const Py_ssize_t count = PyTuple_GET_SIZE(values);
    for (Py_ssize_t i = expected; i < count; ++i) {
      CHECK(PyTuple_GET_ITEM(values, i) == Py_None, RuntimeError,
            "function {} returned an incorrect number of gradients (expected {}, got {})",
            node.name(), expected, count);
    }
    CHECK(count >= expected, RuntimeError,
          "function {} returned an incorrect number of gradients (expected {}, got {})",
          node.name(), expected, count);
    for (Py_ssize_t i = 0; i < expected; ++i) {
      PyObject* value = PyTuple_GET_ITEM(values, i);
      const int edge = edge_of_argument[i];
      if (value == Py_None) continue;
      CHECK(edge >= 0, RuntimeError,
            "function {} returned a gradient different than None at position {}, but the "
            "corresponding forward input was not a Variable",
            node.name(), i + 1);
      CHECK(is_tensor(value), RuntimeError, "expected Variable or None (got {})",
            Py_TYPE(value)->tp_name);
      out[edge] = tensor_of(value);
    }
  }
};

Object run_forward(PyObject* cls, PyObject* context, PyObject* args) {
  const NoGrad off;
  Object setup = check(PyObject_GetAttrString(cls, "_has_setup_context"));
  Object forward = check(PyObject_GetAttrString(cls, "forward"));
  if (PyObject_IsTrue(setup.get())) {
    Object output = check(PyObject_CallObject(forward.get(), args));
    check(PyObject_CallMethod(cls, "setup_context", "OOO", context, args, output.get()));
    return output;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  Object with_context = check(PyTuple_New(n + 1));
  PyTuple_SET_ITEM(with_context.get(), 0, Py_NewRef(context));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(with_context.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  return check(PyObject_CallObject(forward.get(), with_context.get()));
}

void save_tensors(PyObject* self, const CustomCall& call, const std::vector<Tensor>& results) {
  Object to_save = attribute_or_null(self, "to_save");
  if (!to_save) return;
  auto saved = std::make_unique<std::vector<Saved>>();
  for (const Tensor& tensor :
       tensors_in<TypeError>(to_save, "save_for_backward", "can only save variables", true))
    saved->push_back(tensor.defined() ? call.save(tensor, results) : Saved());
  as_context(self)->saved = saved.release();
  PyObject_SetAttrString(self, "to_save", Py_None);
}

// Ties a node and its context together: the node runs the context's backward and keeps it alive.
void adopt(const NodePtr& node, PyObject* context, std::vector<int> edge_of_argument,
           PyObject* outputs) {
  note_forward(*node);
  node->extras().name = Py_TYPE(context)->tp_name;
  as_context(context)->node = node.get();
  Object materialize = attribute_or_null(context, "materialize_grads");
  BackwardRule rule(hold(context), std::move(edge_of_argument), outputs);
  rule.materialize = !materialize || PyObject_IsTrue(materialize.get());
  node->set_whole_rule(std::move(rule));
  node->python = context;
  node->extras().python_owner = std::shared_ptr<void>(Py_NewRef(context), [](void* owned) {
    const GilAcquire gil;
    as_context(static_cast<PyObject*>(owned))->node = nullptr;
    Py_DECREF(static_cast<PyObject*>(owned));
  });
}

// Gives the node an edge for each tensor among the arguments; which of them want a gradient.
Object connect(PyObject* args, CustomCall& call, std::vector<int>& edge_of_argument) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  Object needs = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(args, i);
    const bool wants = is_tensor(item) && tensor_of(item).requires_grad();
    PyTuple_SET_ITEM(needs.get(), i, Py_NewRef(wants ? Py_True : Py_False));
    edge_of_argument.push_back(is_tensor(item) ? static_cast<int>(call.node->edges.size()) : -1);
    if (is_tensor(item)) call.connect(tensor_of(item));
  }
  return needs;
}

// A class that answers for ops itself makes the alias of an argument that is returned.
bool is_aliased_by_class(const CustomCall& call, PyObject* item) {
  if (call.records || !has_override(item)) return false;
  const auto is_same = [&](const Tensor& tensor) { return tensor.is_same(tensor_of(item)); };
  return call.is_input(tensor_of(item)) &&
         std::none_of(call.dirty.begin(), call.dirty.end(), is_same);
}

PyObject* apply(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Object maker = check(PyObject_GetAttrString(cls, "_backward_cls"));
    Object context = check(PyObject_CallNoArgs(maker.get()));
    CHECK(PyType_IsSubtype(Py_TYPE(context.get()), context_type), TypeError,
          "apply: _backward_cls must derive from _FunctionBase");
    CustomCall call;
    call.node = make_intrusive<Node>("custom_function");
    std::vector<int> edge_of_argument;
    Object needs = connect(args, call, edge_of_argument);
    call.records = PySequence_Contains(needs.get(), Py_True) == 1 && grad_enabled();
    as_context(context.get())->needs_input_grad = needs.release();
    Object output = run_forward(cls, context.get(), args);
    Object dirty = attribute_or_null(context.get(), "dirty_tensors");
    Object non_differentiable = attribute_or_null(context.get(), "non_differentiable");
    const bool single = !PyTuple_Check(output.get());
    Object list = single ? check(PyTuple_Pack(1, output.get())) : output;
    call.dirty = tensors_in<RuntimeError>(dirty, "mark_dirty", "can only accept variables", false);
    call.non_differentiable = tensors_in<RuntimeError>(
        non_differentiable, "mark_non_differentiable", "only accepts variable arguments", false);
    std::vector<Tensor> given_back;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(list.get(), i);
      if (is_tensor(item)) given_back.push_back(tensor_of(item));
    }
    call.check_dirty(given_back);
    if (call.records) adopt(call.node, context.get(), std::move(edge_of_argument), list.get());
    Object wrapped = check(PyTuple_New(PyTuple_GET_SIZE(list.get())));
    std::vector<Tensor> results;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(list.get(), i);
      if (!is_tensor(item)) {
        if (call.records) call.node->inputs.emplace_back(GradMeta{});
        PyTuple_SET_ITEM(wrapped.get(), i, Py_NewRef(item));
        continue;
      }
      if (is_aliased_by_class(call, item)) {
        PyTuple_SET_ITEM(wrapped.get(), i,
                         check(PyObject_CallMethod(item, "view_as", "O", item)).release());
        continue;
      }
      results.push_back(call.finish(tensor_of(item)));
      PyTuple_SET_ITEM(wrapped.get(), i, check(wrap(results.back())).release());
    }
    if (call.records) save_tensors(context.get(), call, results);
    return single ? Py_NewRef(PyTuple_GET_ITEM(wrapped.get(), 0)) : wrapped.release();
  });
}

}  // namespace

NodePtr node_of_context(PyObject* object) {
  if (!context_type || !PyType_IsSubtype(Py_TYPE(object), context_type)) return nullptr;
  return NodePtr(as_context(object)->node);
}

bool context_keeps_saved(PyObject* context) { return as_context(context)->saved != nullptr; }

bool add_functions(PyObject* module) {
  static PyMethodDef methods[] = {
      {"apply", apply, METH_VARARGS | METH_CLASS, "Runs forward and records backward."},
      {"name", node_name, METH_NOARGS, nullptr},
      {"register_hook", node_register_hook, METH_O, nullptr},
      {"register_prehook", node_register_prehook, METH_O, nullptr},
      {"_sequence_nr", node_sequence, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef attributes[] = {
      {"saved_tensors", get_saved_tensors, nullptr, "What save_for_backward was given.", nullptr},
      {"_raw_saved_tensors", get_raw_saved_tensors, nullptr, nullptr, nullptr},
      {"saved_variables", get_saved_variables, nullptr, nullptr, nullptr},
      {"needs_input_grad", get_needs_input_grad, nullptr,
       "For each input, whether it needs a gradient.", nullptr},
      {"next_functions", node_next_functions, nullptr, nullptr, nullptr},
      {"metadata", get_metadata, nullptr, nullptr, nullptr},
      {"_input_metadata", node_input_metadata, nullptr, nullptr, nullptr},
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMemberDef members[] = {
      {"__dictoffset__", T_PYSSIZET, offsetof(Context, dict), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec{
      "torch._C._FunctionBase", sizeof(Context), 0,
      static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC), slots};
  context_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return context_type && PyModule_AddObjectRef(module, "_FunctionBase",
                                               reinterpret_cast<PyObject*>(context_type)) == 0;
}

}  // namespace flambeau::python
