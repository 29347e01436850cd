// vmap from Python: entering and leaving its levels, and tensors as samples of a batch. What is
// computed with them is the core's (flambeau/ops/layers/vmap.h).
#include "flambeau/ops/layers/vmap.h"

#include "flambeau/base/check.h"
#include "flambeau/tensor/batched.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

Randomness randomness_of(std::string_view word) {
  if (word == "same") return Randomness::same;
  return word == "different" ? Randomness::different : Randomness::error;
}
const char* word_of(Randomness randomness) {
  if (randomness == Randomness::same) return "same";
  return randomness == Randomness::different ? "different" : "error";
}

PyObject* increment_nesting(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    long long size = 0;
    const char* word = nullptr;
    if (!PyArg_ParseTuple(args, "Ls", &size, &word)) return nullptr;
    return PyLong_FromLong(enter_vmap(size, randomness_of(word)));
  });
}
PyObject* decrement_nesting(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    leave_vmap();
    return PyLong_FromLong(current_vmap_level());
  });
}
PyObject* current_level(PyObject*, PyObject*) { return PyLong_FromLong(current_vmap_level()); }
PyObject* set_level(PyObject*, PyObject* number) {
  return guarded([&]() -> PyObject* {
    const long level = PyLong_AsLong(number);
    if (level < 0 && PyErr_Occurred()) return nullptr;
    return PyLong_FromLong(set_vmap_level(static_cast<int>(level)));
  });
}
PyObject* describe_level(PyObject*, PyObject* number) {
  return guarded([&]() -> PyObject* {
    const long number_ = PyLong_AsLong(number);
    if (number_ < 0 && PyErr_Occurred()) return nullptr;
    const VmapLevel& level = vmap_level(static_cast<int>(number_));
    return Py_BuildValue("(Ls)", static_cast<long long>(level.size), word_of(level.randomness));
  });
}

PyObject* outer_level(PyObject*, PyObject* number) {
  return guarded([&]() -> PyObject* {
    const long level = PyLong_AsLong(number);
    if (level < 0 && PyErr_Occurred()) return nullptr;
    return PyLong_FromLong(vmap_level(static_cast<int>(level)).outer);
  });
}

PyObject* add_dim(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor = nullptr;
    long long dim = 0;
    int level = 0;
    if (!PyArg_ParseTuple(args, "O!Li", tensor_type, &tensor, &dim, &level)) return nullptr;
    return wrap(add_batch_dim(tensor_of(tensor), dim, level));
  });
}
PyObject* remove_dim(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor = nullptr;
    long long size = 0, dim = 0;
    int level = 0;
    if (!PyArg_ParseTuple(args, "O!iLL", tensor_type, &tensor, &level, &size, &dim)) return nullptr;
    return wrap(remove_batch_dim(tensor_of(tensor), level, size, dim));
  });
}

PyObject* is_batched_tensor(PyObject*, PyObject* object) {
  return PyBool_FromLong(is_tensor(object) && is_batched(tensor_of(object)));
}
PyObject* level_of(PyObject*, PyObject* object) {
  const bool batched = is_tensor(object) && is_batched(tensor_of(object));
  return PyLong_FromLong(batched ? tensor_of(object)->level : -1);
}
PyObject* unwrapped(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(object);
    return is_batched(tensor) ? wrap(behind(tensor)) : Py_NewRef(object);
  });
}
PyObject* whole(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* { return wrap(whole_batch(tensor_of(object))); });
}
PyObject* samples(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* { return wrap(as_samples(tensor_of(object))); });
}

PyObject* fallbacks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object counts = check(PyDict_New());
    for (const auto& [op, count] : vmap_fallbacks()) {
      const Object number = check(PyLong_FromLongLong(count));
      if (PyDict_SetItemString(counts.get(), op.c_str(), number.get()) < 0) return nullptr;
    }
    return counts.release();
  });
}
PyObject* set_warning(PyObject*, PyObject* enabled) {
  return PyBool_FromLong(set_vmap_fallback_warning(enabled == Py_True));
}

PyMethodDef functions[] = {
    {"_vmap_increment_nesting", increment_nesting, METH_VARARGS,
     "Enters a level, of a size and a randomness; gives its number."},
    {"_vmap_decrement_nesting", decrement_nesting, METH_NOARGS, "Leaves the innermost level."},
    {"_vmap_level", current_level, METH_NOARGS, "The number of the innermost level; 0 outside."},
    {"_vmap_set_level", set_level, METH_O, "Goes to a level; gives the one before."},
    {"_vmap_describe_level", describe_level, METH_O, "The size and the randomness of a level."},
    {"_vmap_outer_level", outer_level, METH_O, "The level that a level was entered from."},
    {"_add_batch_dim", add_dim, METH_VARARGS, "One sample, of those along a dimension."},
    {"_remove_batch_dim", remove_dim, METH_VARARGS, "All samples, along a dimension."},
    {"is_batchedtensor", is_batched_tensor, METH_O, "Whether this is a sample of a batch."},
    {"maybe_get_level", level_of, METH_O, "The level of a sample; -1 for other tensors."},
    {"get_unwrapped", unwrapped, METH_O, "All samples of the innermost level."},
    {"_whole_batch", whole, METH_O, "All samples of all levels that are entered."},
    {"_as_samples", samples, METH_O, "The sample of what _whole_batch gives."},
    {"_vmap_fallbacks", fallbacks, METH_NOARGS, "How often an op was called for each sample."},
    {"_set_vmap_fallback_warning_enabled", set_warning, METH_O, "Whether such ops warn."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_vmap(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
