// What nodes have saved, as Python sees it: `node._saved_self`, `node._raw_saved_self`, and
// SavedTensor, on which hooks can be put.
//
// Note [Names of what is saved]
// The rules of an op capture tensors, not names. An output is called `result`; an input has the
// name of the op's argument whose gradient goes where the tensor came from. What wants no gradient
// takes the first name that is left over: integers one that speaks of indices.
#include <algorithm>
#include <map>
#include <set>

#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/saved.h"
#include "python/src/node.h"

namespace flambeau::python {
namespace {

constexpr const char* freed_values =
    "Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
    "time or if you need to access saved tensors after calling backward.";

bool speaks_of_indices(const std::string& name) {
  static const std::set<std::string> names{"index", "indices", "condition", "mask", "target"};
  return names.contains(name);
}

// The names of the tensors that an op takes, its first one called self as a method calls it.
std::vector<std::string> tensor_arguments(std::string op) {
  op = op.substr(0, op.find('.'));
  for (const OpDef* def : all_ops()) {
    std::string_view rest(def->signature);
    if (rest.substr(0, rest.find('(')) != op) continue;
    std::vector<std::string> names;
    rest.remove_prefix(op.size() + 1);
    for (int i = 0; i < def->arity; ++i) {
      if (rest.starts_with("*, ")) rest.remove_prefix(3);
      const size_t end = rest.find_first_of("=,)");
      const bool is_tensor = def->kinds[i] == Kind::tensor || def->kinds[i] == Kind::operand;
      const std::string name(rest.substr(0, end));
      if (is_tensor) names.push_back(name == "input" ? "self" : name);
      const size_t comma = rest.find(", ", end);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 2);
    }
    return names;
  }
  return {"self", "other"};
}

class Names {
 public:
  explicit Names(const Node& node) : node_(node), arguments_(tensor_arguments(node.op())) {}

  [[nodiscard]] bool is_argument(const std::string& name) const {
    return std::ranges::find(arguments_, name) != arguments_.end();
  }

  // Two rules that keep the same tensor both keep it under its name.
  std::string of(const Saved& saved) {
    if (saved.is_output()) return of_output(saved.output());
    std::string name = of_input(saved.unchecked());
    used_.emplace(name, saved.unchecked());
    return name;
  }

 private:
  static std::string of_output(uint32_t number) {
    return number == 0 ? "result" : "result" + std::to_string(number);
  }

  std::string of_input(const Tensor& tensor) {
    if (!tensor.defined()) return left_over([](const std::string&) { return true; }, "self");
    if (const Edge edge = gradient_edge(tensor)) {
      for (size_t i = 0; i < node_.edges.size(); ++i) {
        const Edge& other = node_.edges[i];
        if (other.node != edge.node || other.input != edge.input) continue;
        std::string name = of_edge(i);
        if (!used_.contains(name)) return name;
      }
    }
    for (const auto& [name, known] : used_) {
      if (known.defined() && known.is_same(tensor)) return name;
    }
    if (!is_differentiable(tensor.dtype())) return left_over(speaks_of_indices, "indices");
    for (size_t i = 0; i < node_.edges.size(); ++i) {
      if (!node_.edges[i] && !used_.contains(of_edge(i))) return of_edge(i);
    }
    return left_over([](const std::string& name) { return !speaks_of_indices(name); }, "result1");
  }

  [[nodiscard]] std::string of_edge(size_t i) const {
    if (node_.edges.size() == arguments_.size()) return arguments_[i];
    std::vector<std::string> values;
    for (const std::string& name : arguments_) {
      if (!speaks_of_indices(name)) values.push_back(name);
    }
    return i < values.size() ? values[i] : "input" + std::to_string(i);
  }

  template <class Fits>
  std::string left_over(const Fits& fits, const char* otherwise) const {
    for (const std::string& name : arguments_) {
      if (fits(name) && !used_.contains(name)) return name;
    }
    return otherwise;
  }

  const Node& node_;
  std::vector<std::string> arguments_;
  std::map<std::string, Tensor> used_;
};

using Found = std::map<std::string, std::vector<Saved*>>;

Found saved_of(Node& node) {
  Found found;
  if (node.released() || node.variable || node.name().starts_with("torch::")) return found;
  Names names(node);
  for (Saved* saved : find_saved(node)) {
    if (saved->defined()) found[names.of(*saved)].push_back(saved);
  }
  return found;
}

// --- SavedTensor ---------------------------------------------------------------------------------

struct SavedObject {
  PyObject_HEAD NodePtr node;
  PyObject* context;  // of a custom function, which it is part of then; otherwise of the node
  std::vector<Saved*> parts;  // the same tensor, once for each rule that keeps it
};
PyTypeObject* saved_type = nullptr;

void saved_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<SavedObject*>(self);
  object->node.~NodePtr();
  object->parts.~vector();
  Py_XDECREF(object->context);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* saved_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Trying to create a SavedTensor object from Python is forbidden.");
  return nullptr;
}

PyObject* saved_register_hooks(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    CHECK(PyTuple_GET_SIZE(args) == 2, TypeError,
          "register_hooks(): incompatible function arguments: expected two callables, got {} "
          "arguments",
          PyTuple_GET_SIZE(args));
    PyObject *pack = PyTuple_GET_ITEM(args, 0), *unpack = PyTuple_GET_ITEM(args, 1);
    CHECK(PyCallable_Check(pack) && PyCallable_Check(unpack), TypeError,
          "register_hooks(): incompatible function arguments: expected two callables, got {} and "
          "{}",
          Py_TYPE(pack)->tp_name, Py_TYPE(unpack)->tp_name);
    const auto* object = reinterpret_cast<SavedObject*>(self);
    const bool is_live =
        object->context ? context_keeps_saved(object->context) : !object->node->released();
    CHECK(is_live, RuntimeError,
          "Calling register_hooks on a saved tensor after it has been freed. {}", freed_values);
    CHECK(!object->parts.empty() && object->parts[0]->defined(), RuntimeError,
          "Calling register_hooks on a saved tensor with value None is forbidden");
    CHECK(!object->parts[0]->is_packed(), RuntimeError,
          "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only "
          "one pair of hooks is allowed at a time.");
    for (Saved* saved : object->parts) saved->pack(hooks_from(pack, unpack));
    Py_RETURN_NONE;
  });
}

}  // namespace

SavedHooks hooks_from(PyObject* pack, PyObject* unpack) {
  SavedHooks hooks;
  hooks.pack = [hook = hold(pack)](const Tensor& tensor) -> std::shared_ptr<void> {
    const GilAcquire gil;
    Object argument = check(wrap(tensor));
    Object packed = check(PyObject_CallOneArg(held(hook), argument.get()));
    return hold(packed.get());
  };
  hooks.unpack = [hook = hold(unpack)](const std::shared_ptr<void>& packed) -> Tensor {
    const GilAcquire gil;
    Object value = check(PyObject_CallOneArg(held(hook), held(packed)));
    CHECK(is_tensor(value.get()), TypeError,
          "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
          Py_TYPE(value.get())->tp_name);
    return tensor_of(value.get());
  };
  return hooks;
}

PyObject* wrap_saved(const NodePtr& node, std::vector<Saved*> parts, PyObject* context) {
  auto* object = PyObject_New(SavedObject, saved_type);
  if (!object) return nullptr;
  new (&object->node) NodePtr(node);
  object->context = Py_XNewRef(context);
  new (&object->parts) std::vector<Saved*>(std::move(parts));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* node_saved_attribute(const NodePtr& node, const std::string& attribute) {
  constexpr std::string_view plain = "_saved_", raw = "_raw_saved_";
  const bool is_raw = attribute.starts_with(raw);
  std::string name = attribute.substr(is_raw ? raw.size() : plain.size());
  if (name == "input") name = "self";
  const bool known = name == "result" || Names(*node).is_argument(name);
  CHECK(is_raw || !known || !node->released(), RuntimeError,
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). {}",
        freed_values);
  const Found found = saved_of(*node);
  const auto at = found.find(name);
  // An argument that the op saves for another one's gradient, which nobody wants.
  const bool is_none = at == found.end() && known && (node->released() || !found.empty());
  if (at == found.end() && !is_none) {
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'", node->name().c_str(),
                 attribute.c_str());
    throw PythonError();
  }
  if (is_raw) return wrap_saved(node, is_none ? std::vector<Saved*>() : at->second);
  if (is_none) Py_RETURN_NONE;
  return wrap(read_saved(*node, *at->second[0]));
}

PyObject* node_dir(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object names = check(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
    Object list = check(PySequence_List(names.get()));
    for (const auto& [name, saved] : saved_of(*node_of(self))) {
      for (const char* start : {"_saved_", "_raw_saved_"}) {
        Object text = check(PyUnicode_FromString((start + name).c_str()));
        if (PyList_Append(list.get(), text.get()) < 0) throw PythonError();
      }
    }
    return list.release();
  });
}

bool add_saved(PyObject* module) {
  static PyMethodDef methods[] = {
      {"register_hooks", saved_register_hooks, METH_VARARGS,
       "Gives the tensor to pack_hook, and keeps what that returns until unpack_hook is asked for "
       "the tensor."},
      {nullptr, nullptr, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(saved_new)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec{"torch._C._autograd.SavedTensor", sizeof(SavedObject), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT), slots};
  saved_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return saved_type &&
         PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(saved_type)) == 0;
}

}  // namespace flambeau::python
