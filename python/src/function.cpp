// Custom autograd functions: `_FunctionBase` is the context that forward and backward share, and
// the Python face of the node that Function.apply makes.
#include <algorithm>

#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/saved.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/side_stream.h"
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
  CHECK(!context.freed, RuntimeError,
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward.");
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

// The tensors of a tuple that the user left on the context.
template <class ErrorType>
std::vector<PyObject*> tensors_in(const Object& tuple, const char* what, const char* only,
                                  bool allow_none) {
  std::vector<PyObject*> items;
  if (!tuple) return items;
  CHECK(PyTuple_Check(tuple.get()), TypeError, "{} attribute is expected to be a tuple, but is {}",
        what, Py_TYPE(tuple.get())->tp_name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (is_tensor(item) || (allow_none && item == Py_None)) {
      items.push_back(item);
      continue;
    }
    fail<ErrorType>("{} {}, but argument {} is of type {}", what, only, i, Py_TYPE(item)->tp_name);
  }
  return items;
}

bool holds(const std::vector<PyObject*>& items, const Tensor& tensor) {
  return std::any_of(items.begin(), items.end(), [&](PyObject* item) {
    return item != Py_None && tensor_of(item).is_same(tensor);
  });
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
        const GradMeta& meta = node.inputs[i];
        Options options;
        options.dtype = meta.dtype;
        options.device = meta.device;
        in[i] = zeros(meta.sizes, options);
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

// Turns the outputs of forward into outputs of the node.
struct Outputs {
  PyObject* args;
  std::vector<PyObject*> dirty, non_differentiable;
  NodePtr node;
  bool records;

  Tensor finish(const Tensor& output) const {
    const bool is_input = is_argument(output), is_dirty = holds(dirty, output);
    if (is_dirty && is_input) return finish_dirty(output);
    if (holds(non_differentiable, output)) {
      if (output.requires_grad()) return detach_alias(output);
      if (records) node->add_input(output);
      return output;
    }
    Tensor result = output;
    if (is_input && !records) return detach_alias(output);
    if (is_input) {
      // Returned as it came: the caller gets a view of it with this function's history.
      result = make_alias(output);
      mark_view(result, output, ViewOrigin::custom_function);
    } else if (output->view_base && grad_enabled()) {
      result->view_origin = ViewOrigin::custom_function;
    }
    if (records) {
      const uint32_t at = node->add_input(result);
      if (is_differentiable(result.dtype())) set_history(result, node, at);
    }
    return result;
  }

  void check_dirty() const {
    for (PyObject* item : dirty) {
      if (!is_argument(tensor_of(item))) {
        warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
            "have been mutated should be passed to mark_dirty().");
      } else if (records) {
        check_inplace("a custom Function", tensor_of(item));
      }
    }
  }

  [[nodiscard]] Tensor finish_dirty(const Tensor& output) const {
    output.bump_version("a custom Function");
    if (!records) return output;
    set_grad(output, Tensor());  // it was that of other values
    node->add_input(output);
    if (output->view_base) {
      rebase_history(output, node);
    } else {
      set_history(output, node, static_cast<uint32_t>(node->inputs.size() - 1));
    }
    return output;
  }

  // A class that answers for ops itself makes the alias of an argument that is returned.
  [[nodiscard]] bool is_aliased_by_class(PyObject* item) const {
    return !records && has_override(item) && is_argument(tensor_of(item)) &&
           !holds(dirty, tensor_of(item));
  }

  [[nodiscard]] bool is_argument(const Tensor& tensor) const {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      PyObject* item = PyTuple_GET_ITEM(args, i);
      if (is_tensor(item) && tensor_of(item).is_same(tensor)) return true;
    }
    return false;
  }
};

void check_dirty_returned(const std::vector<PyObject*>& dirty, PyObject* outputs) {
  for (PyObject* item : dirty) {
    bool found = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i)
      found |= PyTuple_GET_ITEM(outputs, i) == item;
    CHECK(found, RuntimeError,
          "Some elements marked as dirty during the forward method were not returned as output. "
          "The inputs that are "
          "modified inplace must all be outputs of the Function.");
  }
}

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

void save_tensors(PyObject* self, const Outputs& outputs, const std::vector<Tensor>& results) {
  Object to_save = attribute_or_null(self, "to_save");
  if (!to_save) return;
  const auto items =
      tensors_in<TypeError>(to_save, "save_for_backward", "can only save variables", true);
  auto saved = std::make_unique<std::vector<Saved>>();
  for (PyObject* item : items) {
    if (item == Py_None) {
      saved->emplace_back();
      continue;
    }
    const Tensor& tensor = tensor_of(item);
    const bool is_output = std::any_of(results.begin(), results.end(), [&](const Tensor& r) {
      return r.defined() && r.is_same(tensor);
    });
    saved->emplace_back(tensor, is_output && outputs.records, outputs.node.get());
    saved->back().allow_detached();
  }
  as_context(self)->saved = saved.release();
  PyObject_SetAttrString(self, "to_save", Py_None);
}

// Ties a node and its context together: the node runs the context's backward and keeps it alive.
void adopt(const NodePtr& node, PyObject* context, std::vector<int> edge_of_argument,
           PyObject* outputs) {
  if (anomaly_mode.enabled) {
    node->extras().forward_trace = anomaly_mode.forward_trace();
    node->extras().parent = NodePtr(running_node);
  }
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
Object connect(PyObject* args, Node& node, std::vector<int>& edge_of_argument) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  Object needs = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(args, i);
    const bool wants = is_tensor(item) && tensor_of(item).requires_grad();
    PyTuple_SET_ITEM(needs.get(), i, Py_NewRef(wants ? Py_True : Py_False));
    edge_of_argument.push_back(is_tensor(item) ? static_cast<int>(node.edges.size()) : -1);
    if (!is_tensor(item)) continue;
    const Tensor& tensor = tensor_of(item);
    if (tensor.device().is_cuda()) node.stream = current_stream_id(tensor.device());
    node.edges.emplace_back(grad_enabled() ? gradient_edge(tensor) : Edge{});
  }
  return needs;
}

PyObject* apply(PyObject* cls, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Object maker = check(PyObject_GetAttrString(cls, "_backward_cls"));
    Object context = check(PyObject_CallNoArgs(maker.get()));
    CHECK(PyType_IsSubtype(Py_TYPE(context.get()), context_type), TypeError,
          "apply: _backward_cls must derive from _FunctionBase");
    NodePtr node = make_intrusive<Node>("custom_function");
    std::vector<int> edge_of_argument;
    Object needs = connect(args, *node, edge_of_argument);
    const bool any = PySequence_Contains(needs.get(), Py_True) == 1;
    const bool records = any && grad_enabled();
    as_context(context.get())->needs_input_grad = needs.release();
    Object output = run_forward(cls, context.get(), args);
    Object dirty = attribute_or_null(context.get(), "dirty_tensors");
    Object non_differentiable = attribute_or_null(context.get(), "non_differentiable");
    const bool single = !PyTuple_Check(output.get());
    Object list = single ? check(PyTuple_Pack(1, output.get())) : output;
    Outputs outputs{
        args, tensors_in<RuntimeError>(dirty, "mark_dirty", "can only accept variables", false),
        tensors_in<RuntimeError>(non_differentiable, "mark_non_differentiable",
                                 "only accepts variable arguments", false),
        node, records};
    check_dirty_returned(outputs.dirty, list.get());
    outputs.check_dirty();
    if (records) {
      adopt(node, context.get(), std::move(edge_of_argument), list.get());
    }
    Object wrapped = check(PyTuple_New(PyTuple_GET_SIZE(list.get())));
    std::vector<Tensor> results;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(list.get(), i);
      if (!is_tensor(item)) {
        if (records) node->inputs.emplace_back(GradMeta{});
        PyTuple_SET_ITEM(wrapped.get(), i, Py_NewRef(item));
        continue;
      }
      if (outputs.is_aliased_by_class(item)) {
        PyTuple_SET_ITEM(wrapped.get(), i,
                         check(PyObject_CallMethod(item, "view_as", "O", item)).release());
        continue;
      }
      results.push_back(outputs.finish(tensor_of(item)));
      PyTuple_SET_ITEM(wrapped.get(), i, check(wrap(results.back())).release());
    }
    if (records) save_tensors(context.get(), outputs, results);
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
