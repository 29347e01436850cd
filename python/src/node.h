// Graph nodes as Python objects; shared by the engine's and the custom functions' binding.
#pragma once

#include "flambeau/autograd/node.h"
#include "flambeau/autograd/saved.h"
#include "python/src/binding.h"

namespace flambeau::python {

struct PyNode {
  PyObject_HEAD NodePtr node;
};
extern PyTypeObject* node_type;

// The node behind a node object or a custom function's context; null if it is neither, or gone.
NodePtr node_of(PyObject* object);
NodePtr node_of_context(PyObject* object);

// Attributes and methods that nodes and contexts have in common.
PyObject* node_name(PyObject* self, PyObject*);
PyObject* node_next_functions(PyObject* self, void*);
PyObject* node_register_hook(PyObject* self, PyObject* hook);
PyObject* node_register_prehook(PyObject* self, PyObject* hook);
PyObject* node_sequence(PyObject* self, PyObject*);
PyObject* node_input_metadata(PyObject* self, void*);

// A Python callable held by C++: released under the GIL wherever it dies.
std::shared_ptr<void> hold(PyObject* object);
inline PyObject* held(const std::shared_ptr<void>& holder) {
  return static_cast<PyObject*>(holder.get());
}

// What nodes have saved (saved.cpp): by name, the names, and as objects that hooks can be put on.
PyObject* node_saved_attribute(const NodePtr& node, const std::string& attribute);
PyObject* node_dir(PyObject* self, PyObject*);
PyObject* wrap_saved(const NodePtr& node, std::vector<Saved*> parts, PyObject* context = nullptr);
bool context_keeps_saved(PyObject* context);  // what a custom function saved has not been freed
// Two Python callables as hooks on saved tensors.
SavedHooks hooks_from(PyObject* pack, PyObject* unpack);
bool add_saved(PyObject* module);

PyObject* grads_tuple(const Grads& grads);
// Reads back what a hook returned in place of gradients.
void replace_grads(PyObject* result, Grads& grads, const char* what);

}  // namespace flambeau::python
