// Backward passes, grad modes, saved-tensor hooks and anomaly mode, as functions of the module.
#include "flambeau/autograd/engine.h"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/record.h"
#include "flambeau/autograd/saved.h"
#include "flambeau/ops/ops.h"
#include "python/src/node.h"

namespace flambeau::python {
namespace {

// A tensor, or a (node, number) pair: graph.GradientEdge.
Edge edge_of(PyObject* object, const char* what, Py_ssize_t at) {
  if (is_tensor(object)) {
    Edge edge = gradient_edge(tensor_of(object));
    CHECK(edge, RuntimeError, "element {} of {} does not require grad and does not have a grad_fn",
          at, what);
    return edge;
  }
  CHECK(PyTuple_Check(object) && PyTuple_GET_SIZE(object) >= 2, TypeError,
        "{}: element {} must be a Tensor or a GradientEdge, not {}", what, at,
        Py_TYPE(object)->tp_name);
  NodePtr node = node_of(PyTuple_GET_ITEM(object, 0));
  CHECK(node, TypeError, "{}: element {} holds no node of a graph", what, at);
  int64_t number = 0;
  CHECK(int_from(PyTuple_GET_ITEM(object, 1), number), TypeError,
        "{}: element {} holds no number of an output", what, at);
  const auto outputs = std::max<int64_t>(static_cast<int64_t>(node->inputs.size()), 1);
  CHECK(number >= 0 && number < outputs, IndexError,
        "{}: element {} names output {} of {}, which has {}", what, at, number, node->name(),
        outputs);
  return {node, static_cast<uint32_t>(number)};
}

Object fast(PyObject* sequence) {
  return check(PySequence_Fast(sequence, "expected a sequence of tensors"));
}

// --- Passes within passes
// -------------------------------------------------------------------------------------

// Runs `pass`, without the GIL. A rule that calls backward again nests passes on the stack; from a
// certain depth on they continue on a thread of their own, so that no depth exhausts a stack.
template <class Run>
void run_nested(Run&& pass) {
  constexpr int max_on_a_stack = 60;
  static thread_local int depth = 0;
  struct Deeper {
    Deeper() { ++depth; }
    ~Deeper() { --depth; }
  };
  if (depth < max_on_a_stack) {
    const Deeper deeper;
    const GilRelease release(true);
    return pass();
  }
  std::exception_ptr error;
  const GilRelease release(true);
  std::thread([&, grad = grad_state, inference = making_inference_tensors, hooks = saved_hooks] {
    grad_state = grad;
    making_inference_tensors = inference;
    saved_hooks = hooks;
    const GilAcquire gil;  // one thread state for all that the pass calls
    try {
      const Deeper deeper;
      const GilRelease again(true);
      pass();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

// _engine_run_backward(tensors, grad_tensors, retain_graph, create_graph, inputs, allow_unused,
// accumulate)
PyObject* run(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensors = nullptr, *grads = nullptr, *inputs = nullptr;
    int keep = 0, create = 0, allow_unused = 0, accumulate = 0;
    if (!PyArg_ParseTuple(args, "OOppOpp", &tensors, &grads, &keep, &create, &inputs, &allow_unused,
                          &accumulate))
      return nullptr;
    const Object roots_list = fast(tensors), grads_list = fast(grads), inputs_list = fast(inputs);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(roots_list.get());
    CHECK(PySequence_Fast_GET_SIZE(grads_list.get()) == n, RuntimeError,
          "got {} tensors and {} gradients", n, PySequence_Fast_GET_SIZE(grads_list.get()));
    std::vector<Edge> roots, wanted;
    std::vector<Tensor> root_grads;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* root = PySequence_Fast_GET_ITEM(roots_list.get(), i);
      PyObject* grad = PySequence_Fast_GET_ITEM(grads_list.get(), i);
      roots.push_back(edge_of(root, "tensors", i));
      // A view that was made without history wants a gradient by its base alone.
      CHECK(!is_tensor(root) || tensor_of(root)->requires_grad || !roots.back().node->variable,
            RuntimeError, "element {} of tensors does not require grad and does not have a grad_fn",
            i);
      if (is_tensor(grad)) {
        root_grads.push_back(tensor_of(grad));
      } else {
        CHECK(grad == Py_None && is_tensor(root), TypeError,
              "element {} of gradients tuple is not a Tensor or None", i);
        CHECK(tensor_of(root).numel() == 1, RuntimeError,
              "grad can be implicitly created only for scalar outputs");
        root_grads.push_back(ones_like(tensor_of(root)));
      }
    }
    const Py_ssize_t n_inputs = PySequence_Fast_GET_SIZE(inputs_list.get());
    for (Py_ssize_t i = 0; i < n_inputs; ++i) {
      PyObject* input = PySequence_Fast_GET_ITEM(inputs_list.get(), i);
      CHECK(!is_tensor(input) || tensor_of(input).requires_grad(), RuntimeError,
            "One of the differentiated Tensors does not require grad");
      wanted.push_back(edge_of(input, "inputs", i));
      if (accumulate && is_tensor(input)) retain_grad(tensor_of(input));  // if it is no leaf
    }
    BackwardOptions options;
    options.keep_graph = keep;
    options.create_graph = create;
    options.allow_unused = allow_unused;
    options.accumulate = accumulate;
    std::vector<Tensor> results;
    run_nested([&] {
      results = run_backward(roots, std::move(root_grads), wanted, options);
      roots.clear();
    });
    if (accumulate) Py_RETURN_NONE;
    Object tuple = check(PyTuple_New(n_inputs));
    for (Py_ssize_t i = 0; i < n_inputs; ++i)
      PyTuple_SET_ITEM(tuple.get(), i, check(wrap(std::move(results[i]))).release());
    return tuple.release();
  });
}

PyObject* queue(PyObject*, PyObject* callable) {
  return guarded([&]() -> PyObject* {
    queue_callback([hook = hold(callable)] {
      const GilAcquire gil;
      check(PyObject_CallNoArgs(held(hook)));
    });
    Py_RETURN_NONE;
  });
}
PyObject* task_id(PyObject*, PyObject*) { return PyLong_FromLongLong(current_pass()); }
PyObject* current_node(PyObject*, PyObject*) {
  return guarded([] { return wrap_node(NodePtr(running_node)); });
}
PyObject* will_execute(PyObject*, PyObject* object) {
  const NodePtr node = node_of(object);
  return PyBool_FromLong(node && pass_will_run(*node));
}
PyObject* is_checkpoint_valid(PyObject*, PyObject*) {
  return PyBool_FromLong(pass_fills_all_leaves());
}

PyObject* increment_version(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) {
    PyErr_Format(PyExc_TypeError, "increment_version expects a Tensor, not %s",
                 Py_TYPE(tensor)->tp_name);
    return nullptr;
  }
  tensor_of(tensor).bump_version("increment_version");
  Py_RETURN_NONE;
}
// Takes a write back that nobody shall have seen.
PyObject* set_version(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  unsigned int version = 0;
  if (!PyArg_ParseTuple(args, "OI", &tensor, &version)) return nullptr;
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(tensor), TypeError, "expected a Tensor, not {}", Py_TYPE(tensor)->tp_name);
    tensor_of(tensor).shared_version()->version = version;
    Py_RETURN_NONE;
  });
}
// The node that gradients of a tensor go to, a leaf's accumulator included.
PyObject* edge_node(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(tensor), TypeError, "expected a Tensor, not {}", Py_TYPE(tensor)->tp_name);
    const Edge edge = gradient_edge(tensor_of(tensor));
    Object node = check(wrap_node(edge.node));
    return Py_BuildValue("(OI)", node.get(), edge.input);
  });
}

// --- Modes ---------------------------------------------------------------------------------------

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_state.grad_enabled); }
PyObject* set_grad_enabled(PyObject*, PyObject* value) {
  if (!PyBool_Check(value)) {
    PyErr_Format(PyExc_TypeError,
                 "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                 Py_TYPE(value)->tp_name);
    return nullptr;
  }
  grad_state.grad_enabled = value == Py_True;
  Py_RETURN_NONE;
}
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(inference_mode()); }
PyObject* set_inference(PyObject*, PyObject* value) {
  making_inference_tensors = PyObject_IsTrue(value) == 1;
  if (making_inference_tensors) grad_state.grad_enabled = false;
  Py_RETURN_NONE;
}

// --- Saved-tensor hooks --------------------------------------------------------------------------

thread_local std::vector<std::unique_ptr<SavedHooks>> hooks_stack;
thread_local std::string hooks_disabled;
thread_local bool hooks_are_disabled = false;

PyObject* push_saved_hooks(PyObject*, PyObject* args) {
  PyObject *pack = nullptr, *unpack = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  if (hooks_are_disabled) {
    PyErr_SetString(PyExc_RuntimeError, hooks_disabled.c_str());
    return nullptr;
  }
  hooks_stack.push_back(std::make_unique<SavedHooks>(hooks_from(pack, unpack)));
  saved_hooks = hooks_stack.back().get();
  Py_RETURN_NONE;
}
PyObject* pop_saved_hooks(PyObject*, PyObject*) {
  if (!hooks_stack.empty()) hooks_stack.pop_back();
  saved_hooks = hooks_stack.empty() ? nullptr : hooks_stack.back().get();
  Py_RETURN_NONE;
}
PyObject* disable_saved_hooks(PyObject*, PyObject* message) {
  const char* text = PyUnicode_AsUTF8(message);
  if (!text) return nullptr;
  if (!hooks_stack.empty()) {
    PyErr_SetString(PyExc_RuntimeError, text);
    return nullptr;
  }
  hooks_disabled = text;
  hooks_are_disabled = true;
  Py_RETURN_NONE;
}
PyObject* enable_saved_hooks(PyObject*, PyObject*) {
  hooks_are_disabled = false;
  Py_RETURN_NONE;
}
PyObject* saved_hooks_message(PyObject*, PyObject*) {
  if (!hooks_are_disabled) Py_RETURN_NONE;
  return PyUnicode_FromString(hooks_disabled.c_str());
}

// --- Anomaly mode --------------------------------------------------------------------------------

std::string python_stack() {
  const GilAcquire gil;
  Object module(PyImport_ImportModule("traceback"));
  Object lines(module ? PyObject_CallMethod(module.get(), "format_stack", nullptr) : nullptr);
  Object empty(PyUnicode_FromString(""));
  Object text(lines ? PyUnicode_Join(empty.get(), lines.get()) : nullptr);
  if (!text) {
    PyErr_Clear();
    return "";
  }
  return text_of(text.get());
}

void report_anomaly(const Node& node) {
  const GilAcquire gil;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  std::string text = "Error detected in " + node.name() + ". ";
  const NodeExtras* extras = node.maybe_extras();
  if (extras && !extras->forward_trace.empty()) {
    text += "Traceback of forward call that caused the error:\n" + extras->forward_trace;
  } else {
    text +=
        "No forward pass information available. Enable detect anomaly during forward pass for more "
        "information.";
  }
  for (const Node* parent = extras ? extras->parent.get() : nullptr; parent;) {
    text += "\n\nPrevious calculation was induced by " + parent->name() + ".";
    const NodeExtras* more = parent->maybe_extras();
    if (more && !more->forward_trace.empty())
      text += " Traceback of forward call that induced the previous calculation:\n" +
              more->forward_trace;
    parent = more ? more->parent.get() : nullptr;
  }
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

PyObject* set_anomaly(PyObject*, PyObject* args) {
  int enabled = 0, check_nan = 1;
  if (!PyArg_ParseTuple(args, "p|p", &enabled, &check_nan)) return nullptr;
  anomaly_mode = {enabled != 0, check_nan != 0, python_stack, report_anomaly};
  Py_RETURN_NONE;
}
PyObject* is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(anomaly_mode.enabled); }
PyObject* is_anomaly_nan(PyObject*, PyObject*) { return PyBool_FromLong(anomaly_mode.check_nan); }

// The number that the next node of this thread will have.
PyObject* next_sequence(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Node::peek_sequence());
}

PyMethodDef functions[] = {
    {"_engine_run_backward", run, METH_VARARGS, nullptr},
    {"_queue_callback", queue, METH_O, nullptr},
    {"_current_graph_task_id", task_id, METH_NOARGS, nullptr},
    {"_current_autograd_node", current_node, METH_NOARGS, nullptr},
    {"_get_sequence_nr", next_sequence, METH_NOARGS, nullptr},
    {"_will_engine_execute_node", will_execute, METH_O, nullptr},
    {"_is_checkpoint_valid", is_checkpoint_valid, METH_NOARGS, nullptr},
    {"_increment_version", increment_version, METH_O, nullptr},
    {"_set_version", set_version, METH_VARARGS, nullptr},
    {"_gradient_edge", edge_node, METH_O, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether ops are recorded for backward."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS, "Whether inference mode is on."},
    {"_set_inference_mode", set_inference, METH_O, nullptr},
    {"_push_saved_tensors_default_hooks", push_saved_hooks, METH_VARARGS, nullptr},
    {"_pop_saved_tensors_default_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
    {"_saved_tensors_hooks_disable", disable_saved_hooks, METH_O, nullptr},
    {"_saved_tensors_hooks_enable", enable_saved_hooks, METH_NOARGS, nullptr},
    {"_saved_tensors_hooks_get_disabled_error_message", saved_hooks_message, METH_NOARGS, nullptr},
    {"set_anomaly_enabled", set_anomaly, METH_VARARGS, nullptr},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, nullptr},
    {"is_anomaly_check_nan_enabled", is_anomaly_nan, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_engine(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
