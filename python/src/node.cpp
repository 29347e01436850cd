// Nodes of the backward graph and the hooks on them and on tensors.
#include "python/src/node.h"

#include "flambeau/autograd/meta.h"
#include "python/src/interop.h"

#include <cstring>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace flambeau::python {

PyTypeObject* node_type = nullptr;

std::shared_ptr<void> hold(PyObject* object) {
  Py_INCREF(object);
  return {object, [](void* owned) {
            if (!Py_IsInitialized()) return;  // a thread's state outlives the interpreter
            const GilAcquire gil;
            Py_DECREF(static_cast<PyObject*>(owned));
          }};
}

PyObject* grads_tuple(const Grads& grads) {
  Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap(grads[i])).release());
  }
  return tuple.release();
}

void replace_grads(PyObject* result, Grads& grads, const char* what) {
  if (result == Py_None) return;
  const auto set = [&](size_t i, PyObject* item) {
    CHECK(item == Py_None || is_tensor(item), TypeError,
          "{} returned a {} in place of a gradient; expected Tensor or None", what,
          Py_TYPE(item)->tp_name);
    grads[i] = item == Py_None ? Tensor() : tensor_of(item);
  };
  if (is_tensor(result)) {
    CHECK(grads.size() == 1, RuntimeError, "{} returned one gradient, expected {}", what,
          grads.size());
    return set(0, result);
  }
  CHECK(PyTuple_Check(result), TypeError,
        "{} returned a {}; expected Tensor, a tuple of Tensors or None", what,
        Py_TYPE(result)->tp_name);
  CHECK(PyTuple_GET_SIZE(result) == static_cast<Py_ssize_t>(grads.size()), RuntimeError,
        "{} has returned an incorrect number of values (got {}, but expected {})", what,
        PyTuple_GET_SIZE(result), grads.size());
  for (size_t i = 0; i < grads.size(); ++i)
    set(i, PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i)));
}

namespace {

// What register_hook gives back: remove() takes the hook off; it is a context manager too.
struct Handle {
  PyObject_HEAD NodePtr* node;
  Tensor* leaf;
  uint64_t key;
};
PyTypeObject* handle_type = nullptr;

PyObject* make_handle(uint64_t key, NodePtr node, Tensor leaf) {
  auto* handle = PyObject_New(Handle, handle_type);
  if (!handle) return nullptr;
  handle->node = new NodePtr(std::move(node));
  handle->leaf = new Tensor(std::move(leaf));
  handle->key = key;
  return reinterpret_cast<PyObject*>(handle);
}
PyObject* handle_remove(PyObject* self, PyObject*) {
  auto* handle = reinterpret_cast<Handle*>(self);
  if (*handle->node) remove_node_hook(**handle->node, handle->key);
  if (handle->leaf->defined()) remove_hook(*handle->leaf, handle->key);
  Py_RETURN_NONE;
}
PyObject* handle_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* handle_id(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Handle*>(self)->key);
}
void handle_dealloc(PyObject* self) {
  auto* handle = reinterpret_cast<Handle*>(self);
  delete handle->node;
  delete handle->leaf;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* node_repr(PyObject* self) {
  const NodePtr node = node_of(self);
  const char* dot = std::strrchr(Py_TYPE(self)->tp_name, '.');
  return PyUnicode_FromFormat("<%s object at %p>", dot ? dot + 1 : Py_TYPE(self)->tp_name, self);
}
// What is saved has no entry among the attributes of the type.
PyObject* node_getattr(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  const char* text = PyUnicode_AsUTF8(name);
  if (!text ||
      (std::strncmp(text, "_saved_", 7) != 0 && std::strncmp(text, "_raw_saved_", 11) != 0))
    return nullptr;
  PyErr_Clear();
  return guarded([&] { return node_saved_attribute(node_of(self), text); });
}
void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* object = reinterpret_cast<PyNode*>(self);
  if (object->node) object->node->python = nullptr;
  object->node.~NodePtr();
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}
PyObject* node_variable(PyObject* self, void*) {
  const NodePtr node = node_of(self);
  if (!node || !node->variable) {
    PyErr_SetString(PyExc_AttributeError,
                    "only the node that accumulates into a leaf has a variable");
    return nullptr;
  }
  return wrap(Tensor(node->variable));
}
// grad_fn(*grads): runs this one step; gives the gradients of what it was computed from.
PyObject* node_call(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const NodePtr node = node_of(self);
    const Py_ssize_t given = PyTuple_GET_SIZE(args);
    CHECK(!keywords || PyDict_Size(keywords) == 0, TypeError,
          "{}: keyword arguments are not supported", node->name());
    CHECK(!node->variable, NotImplementedError, "{}: an accumulator is run by backward() only",
          node->name());
    CHECK(given == static_cast<Py_ssize_t>(node->inputs.size()), TypeError,
          "expected {} arguments, got {} instead", node->inputs.size(), given);
    Grads in, out;
    for (Py_ssize_t i = 0; i < given; ++i) {
      PyObject* item = PyTuple_GET_ITEM(args, i);
      CHECK(item == Py_None || is_tensor(item), TypeError,
            "expected Variable argument, got {} at position {}", Py_TYPE(item)->tp_name, i);
      in.push_back(item == Py_None ? Tensor() : tensor_of(item));
    }
    node->apply(in, out);
    return out.size() == 1 ? check(wrap(out[0])).release() : grads_tuple(out);
  });
}
PyObject* node_metadata(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    std::shared_ptr<void>& metadata = node_of(self)->extras().metadata;
    if (!metadata) metadata = hold(check(PyDict_New()).get());
    return Py_NewRef(held(metadata));
  });
}

// --- Hooks on tensors ----------------------------------------------------------------------------

std::string callable_name(PyObject* callable) {
  Object name(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  return name && PyUnicode_Check(name.get()) ? text_of(name.get()) : "hook";
}

// Note [Hooks and the garbage collector]
// A hook that mentions its own tensor makes a ring: tensor, node, hook, tensor. Hooks are functors
// of these types, so that the collector, which comes by the tensor's object, can be shown the
// callables behind them; but only where nobody else holds the tensor or the node, because then the
// ring is all there is.
struct TensorCallable {
  std::shared_ptr<void> callable;

  Tensor operator()(const Tensor& grad) const {
    const GilAcquire gil;
    Object argument = check(wrap(grad));
    Object result = check(PyObject_CallOneArg(held(callable), argument.get()));
    if (result.get() == Py_None) return {};
    CHECK(is_tensor(result.get()), TypeError, "expected Variable, but hook returned '{}'",
          Py_TYPE(result.get())->tp_name);
    const Tensor& changed = tensor_of(result.get());
    CHECK(grad.defined(), RuntimeError,
          "hook '{}': can't replace an empty gradient with a non-empty value",
          callable_name(held(callable)));
    CHECK(changed.sizes() == grad.sizes(), RuntimeError,
          "hook '{}' has changed the size of value: {} to {}", callable_name(held(callable)),
          grad.sizes(), changed.sizes());
    return changed;
  }
};

struct PostCallable {
  std::shared_ptr<void> callable;

  void operator()(Grads& out, const Grads& in) const {
    const GilAcquire gil;
    Object outgoing = check(grads_tuple(out)), incoming = check(grads_tuple(in));
    Object result = check(
        PyObject_CallFunctionObjArgs(held(callable), outgoing.get(), incoming.get(), nullptr));
    replace_grads(result.get(), out, "backward hook");
  }
};

struct PreCallable {
  std::shared_ptr<void> callable;

  void operator()(Grads& in) const {
    const GilAcquire gil;
    Object incoming = check(grads_tuple(in));
    Object result = check(PyObject_CallOneArg(held(callable), incoming.get()));
    replace_grads(result.get(), in, "backward pre hook");
  }
};

// The extras of a node that only its one holder refers to.
NodeExtras* own_extras(const NodePtr& node) {
  return node && node->use_count() == 1 ? node->maybe_extras() : nullptr;
}

const TensorCallable* callable_of(const TensorHook& hook) { return hook.target<TensorCallable>(); }
const PreCallable* callable_of(const NodePreHook& hook) { return hook.target<PreCallable>(); }
const PostCallable* callable_of(const NodePostHook& hook) { return hook.target<PostCallable>(); }

// Calls `visit` with the Python callable of each hook that has one which nobody else holds.
template <class Entry, class Visit>
int each_callable(const std::vector<Entry>& hooks, Visit& visit) {
  for (const Entry& entry : hooks) {
    const auto* hook = [&] {
      if constexpr (requires { entry.hook; }) {
        return callable_of(entry.hook);
      } else {
        return callable_of(entry.second);
      }
    }();
    if (!hook || hook->callable.use_count() != 1) continue;
    if (const int stop = visit(held(hook->callable))) return stop;
  }
  return 0;
}
template <class Visit>
int each_callable(const NodeExtras* extras, Visit& visit) {
  if (!extras) return 0;
  if (const int stop = each_callable(extras->tensor_hooks, visit)) return stop;
  if (const int stop = each_callable(extras->pre_hooks, visit)) return stop;
  return each_callable(extras->post_hooks, visit);
}

// Takes hooks off. What Python had for them dies with the list, which is empty by then.
template <class... Hooks>
void drop(Hooks&... hooks) {
  (void)std::tuple(std::exchange(hooks, {})...);
}
void drop_hooks(NodeExtras* extras) {
  if (extras) drop(extras->tensor_hooks, extras->pre_hooks, extras->post_hooks);
}

// A hook may hold the node that it is on.
int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto visitor = [&](PyObject* callable) { return visit(callable, arg); };
  return each_callable(own_extras(reinterpret_cast<PyNode*>(self)->node), visitor);
}
int node_clear(PyObject* self) {
  drop_hooks(own_extras(reinterpret_cast<PyNode*>(self)->node));
  return 0;
}

PyObject* tensor_register_hook(PyObject* object, PyObject* callable) {
  return guarded([&]() -> PyObject* {
    const Tensor& self = tensor_of(object);
    const uint64_t key = add_hook(self, TensorCallable{hold(callable)});
    // A tensor with a dictionary, even an empty one, is known to the collector.
    PyObject*& dict = as_object(object)->dict;
    if (!dict) dict = check(PyDict_New()).release();
    if (!PyObject_GC_IsTracked(object)) PyObject_GC_Track(object);
    NodePtr node = grad_fn(self);
    return make_handle(key, node, node ? Tensor() : self);
  });
}
PyObject* tensor_register_accumulate_hook(PyObject* object, PyObject* callable) {
  return guarded([&]() -> PyObject* {
    const Tensor& self = tensor_of(object);
    const uint64_t key = add_accumulate_hook(self, [hook = hold(callable)](const Tensor& variable) {
      const GilAcquire gil;
      Object argument = check(wrap(variable));
      const Object result = check(PyObject_CallOneArg(held(hook), argument.get()));
      // What updates the tensor in place may return it.
      if (result.get() == Py_None || result.get() == argument.get()) return;
      CHECK(is_tensor(result.get()), TypeError, "expected Variable, but hook returned '{}'",
            Py_TYPE(result.get())->tp_name);
      CHECK(false, RuntimeError, "Tensor post accumulate grad hooks should return None.");
    });
    return make_handle(key, nullptr, self);
  });
}
PyMethodDef tensor_methods[] = {
    {"register_hook", tensor_register_hook, METH_O,
     "Calls hook(grad) when the gradient of this tensor has been computed; what it returns, if "
     "anything, takes its place."},
    {"register_post_accumulate_grad_hook", tensor_register_accumulate_hook, METH_O,
     "Calls hook(tensor) after a gradient has been added to this leaf's .grad."},
    {nullptr, nullptr, 0, nullptr}};

// Each kind of node is a class of its own to Python, named after its op.
PyTypeObject* type_named(const std::string& name) {
  static std::unordered_map<std::string, PyTypeObject*> types;  // under the GIL
  PyTypeObject*& type = types[name];
  if (!type) {
    const size_t colon = name.rfind(':');
    const auto* text =
        new std::string("builtins." + (colon == std::string::npos ? name : name.substr(colon + 1)));
    PyType_Slot none[] = {{0, nullptr}};
    PyType_Spec spec{text->c_str(), sizeof(PyNode), 0,
                     static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION),
                     none};
    Object bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(node_type)));
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.get()));
    if (!type) throw PythonError();
    // The module is wanted in `__module__`, but not in what the class prints as.
    type->tp_name = text->c_str() + std::strlen("builtins.");
  }
  return type;
}

}  // namespace

NodePtr node_of(PyObject* object) {
  if (PyType_IsSubtype(Py_TYPE(object), node_type)) return reinterpret_cast<PyNode*>(object)->node;
  return node_of_context(object);
}

PyObject* wrap_node(const NodePtr& node) {
  if (!node) Py_RETURN_NONE;
  if (node->python) return Py_NewRef(static_cast<PyObject*>(node->python));
  auto* object = PyObject_GC_New(PyNode, type_named(node->name()));
  if (!object) return nullptr;
  new (&object->node) NodePtr(node);
  node->python = object;
  PyObject_GC_Track(object);
  return reinterpret_cast<PyObject*>(object);
}

int visit_hooks(const Tensor& tensor, visitproc visit, void* arg) {
  const AutogradMeta* meta = tensor.defined() ? maybe_meta(tensor) : nullptr;
  if (!meta || tensor.impl()->use_count() != 1) return 0;
  const auto visitor = [&](PyObject* callable) { return visit(callable, arg); };
  if (const int stop = each_callable(meta->hooks, visitor)) return stop;
  return each_callable(own_extras(meta->grad_fn), visitor);
}

void clear_hooks(const Tensor& tensor) {
  AutogradMeta* meta = tensor.defined() ? maybe_meta(tensor) : nullptr;
  if (!meta || tensor.impl()->use_count() != 1) return;
  drop_hooks(own_extras(meta->grad_fn));
  drop(meta->hooks);
}

PyObject* node_name(PyObject* self, PyObject*) {
  const NodePtr node = node_of(self);
  return PyUnicode_FromString(node ? node->name().c_str() : Py_TYPE(self)->tp_name);
}

PyObject* node_next_functions(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const NodePtr node = node_of(self);
    if (!node) return PyTuple_New(0);
    const InlineVector<Edge, 2>& edges = node->shown_edges();
    Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(edges.size())));
    for (size_t i = 0; i < edges.size(); ++i) {
      const Edge& edge = edges[i];
      Object next = check(wrap_node(edge.node));
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       check(Py_BuildValue("(OI)", next.get(), edge.input)).release());
    }
    return tuple.release();
  });
}

PyObject* node_register_hook(PyObject* self, PyObject* callable) {
  return guarded([&]() -> PyObject* {
    const NodePtr node = node_of(self);
    CHECK(node, RuntimeError, "register_hook: this node is gone");
    const uint64_t key = next_hook_key();
    node->extras().post_hooks.emplace_back(key, PostCallable{hold(callable)});
    return make_handle(key, node, {});
  });
}

PyObject* node_register_prehook(PyObject* self, PyObject* callable) {
  return guarded([&]() -> PyObject* {
    const NodePtr node = node_of(self);
    CHECK(node, RuntimeError, "register_prehook: this node is gone");
    const uint64_t key = next_hook_key();
    node->extras().pre_hooks.emplace_back(key, PreCallable{hold(callable)});
    return make_handle(key, node, {});
  });
}

PyObject* node_sequence(PyObject* self, PyObject*) {
  const NodePtr node = node_of(self);
  return PyLong_FromUnsignedLongLong(node ? node->sequence() : 0);
}

// What the engine knows of each gradient that comes in: (shape, dtype, device).
PyObject* node_input_metadata(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const NodePtr node = node_of(self);
    Object list = check(PyList_New(0));
    for (size_t i = 0; node && i < node->inputs.size(); ++i) {
      const GradMeta& meta = node->inputs[i];
      Object shape = check(wrap_size(meta.sizes)), dtype = check(wrap_dtype(meta.dtype)),
             device = check(wrap_device(meta.device));
      Object types = check(PyImport_ImportModule("types"));
      Object maker = check(PyObject_GetAttrString(types.get(), "SimpleNamespace"));
      Object none = check(PyTuple_New(0));
      Object values = check(Py_BuildValue("{s:O,s:O,s:O}", "shape", shape.get(), "dtype",
                                          dtype.get(), "device", device.get()));
      Object item = check(PyObject_Call(maker.get(), none.get(), values.get()));
      if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

bool add_nodes(PyObject* module) {
  static PyMethodDef methods[] = {
      {"name", node_name, METH_NOARGS, "The name of the op this node differentiates."},
      {"register_hook", node_register_hook, METH_O,
       "Calls hook(grad_inputs, grad_outputs) after this node has run."},
      {"register_prehook", node_register_prehook, METH_O,
       "Calls hook(grad_outputs) before this node runs."},
      {"_sequence_nr", node_sequence, METH_NOARGS, nullptr},
      {"__dir__", node_dir, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef attributes[] = {
      {"next_functions", node_next_functions, nullptr, "The nodes this one's gradients go to.",
       nullptr},
      {"variable", node_variable, nullptr, "The leaf that an accumulator writes to.", nullptr},
      {"metadata", node_metadata, nullptr, nullptr, nullptr},
      {"_input_metadata", node_input_metadata, nullptr, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  PyType_Slot slots[] = {{Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                         {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
                         {Py_tp_call, reinterpret_cast<void*>(node_call)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {0, nullptr}};
  PyType_Spec spec{"torch._C._Node", sizeof(PyNode), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                         Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION),
                   slots};
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  static PyMethodDef handle_methods[] = {
      {"remove", handle_remove, METH_NOARGS, "Takes the hook off."},
      {"__enter__", handle_enter, METH_NOARGS, nullptr},
      {"__exit__", handle_remove, METH_VARARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef handle_attributes[] = {{"id", handle_id, nullptr, nullptr, nullptr},
                                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
  PyType_Slot handle_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
                                {Py_tp_methods, handle_methods},
                                {Py_tp_getset, handle_attributes},
                                {0, nullptr}};
  PyType_Spec handle_spec{
      "torch._C._HookHandle", sizeof(Handle), 0,
      static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION), handle_slots};
  handle_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&handle_spec));
  const Object accumulate(
      guarded([] { return Py_NewRef(type_named("torch::autograd::AccumulateGrad")); }));
  return node_type && handle_type && accumulate &&
         PyModule_AddObjectRef(module, "_AccumulateGrad", accumulate.get()) == 0 &&
         PyModule_AddObjectRef(module, "_Node", reinterpret_cast<PyObject*>(node_type)) == 0 &&
         add_saved(module) && add_methods(tensor_methods);
}

}  // namespace flambeau::python
