// Captured graphs, memory pools and pictures of the allocator of CUDA devices, as functions that
// the package flambeau.cuda makes its classes of. A graph is a capsule; a pool a pair of numbers.
#include "python/src/device_graph.h"

#include <memory>

#include "flambeau/base/current_op.h"
#include "flambeau/tensor/accelerator.h"
#include "flambeau/tensor/storage.h"
#include "flambeau/tensor/vendor_library.h"

namespace flambeau::python {
namespace {

constexpr DeviceType type = DeviceType::cuda;
constexpr const char* graph_capsule = "flambeau.DeviceGraph";

PyObject* none() { return Py_NewRef(Py_None); }

PyObject* wrap_pool(PoolId pool) {
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(pool.capture),
                       static_cast<unsigned long long>(pool.user));
}
PoolId pool_from(unsigned long long capture, unsigned long long user) { return {capture, user}; }

DeviceGraph& graph_from(PyObject* capsule) {
  void* graph = PyCapsule_GetPointer(capsule, graph_capsule);
  if (!graph) throw PythonError();
  return *static_cast<DeviceGraph*>(graph);
}

// --- Graphs --------------------------------------------------------------------------------------

void destroy_graph(PyObject* capsule) {
  delete static_cast<DeviceGraph*>(PyCapsule_GetPointer(capsule, graph_capsule));
}

PyObject* new_graph(PyObject*, PyObject* keep) {
  return guarded([&]() -> PyObject* {
    std::unique_ptr<DeviceGraph> graph = accelerator(type).new_graph(PyObject_IsTrue(keep) == 1);
    PyObject* capsule = PyCapsule_New(graph.get(), graph_capsule, destroy_graph);
    if (capsule) static_cast<void>(graph.release());
    return capsule;
  });
}
PyObject* graph_begin(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* graph = nullptr;
    unsigned long long capture = 0, user = 0;
    const char* mode = nullptr;
    if (!PyArg_ParseTuple(args, "O(KK)s:capture_begin", &graph, &capture, &user, &mode))
      return nullptr;
    graph_from(graph).begin(pool_from(capture, user), mode);
    return none();
  });
}
PyObject* graph_end(PyObject*, PyObject* graph) {
  return guarded([&] { return PyLong_FromSize_t(graph_from(graph).end()); });
}
PyObject* graph_instantiate(PyObject*, PyObject* graph) {
  return guarded([&] {
    graph_from(graph).instantiate();
    return none();
  });
}
PyObject* graph_replay(PyObject*, PyObject* graph) {
  return guarded([&] {
    graph_from(graph).replay();
    return none();
  });
}
PyObject* graph_reset(PyObject*, PyObject* graph) {
  return guarded([&] {
    graph_from(graph).reset();
    return none();
  });
}
PyObject* graph_pool(PyObject*, PyObject* graph) {
  return guarded([&] { return wrap_pool(graph_from(graph).pool()); });
}
PyObject* graph_keep(PyObject*, PyObject* graph) {
  return guarded([&] {
    graph_from(graph).keep_for_dump();
    return none();
  });
}
PyObject* graph_dump(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* graph = nullptr;
    const char* path = nullptr;
    if (!PyArg_ParseTuple(args, "Os:debug_dump", &graph, &path)) return nullptr;
    graph_from(graph).dump(path);
    return none();
  });
}
PyObject* graph_raw(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* graph = nullptr;
    int executable = 0;
    if (!PyArg_ParseTuple(args, "Op:raw_cuda_graph", &graph, &executable)) return nullptr;
    return PyLong_FromVoidPtr(graph_from(graph).raw(executable != 0));
  });
}
PyObject* graph_register(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *graph = nullptr, *object = nullptr;
    if (!PyArg_ParseTuple(args, "OO:register_generator_state", &graph, &object)) return nullptr;
    Generator* generator = generator_from(object);
    CHECK(generator, TypeError, "register_generator_state(): expected a torch.Generator");
    graph_from(graph).register_generator(*generator);
    return none();
  });
}
PyObject* is_capturing(PyObject*, PyObject*) {
  return guarded([] { return PyBool_FromLong(accelerator(type).is_capturing()); });
}

// --- Pools ---------------------------------------------------------------------------------------

PyObject* new_pool(PyObject*, PyObject* for_capture) {
  return guarded(
      [&] { return wrap_pool(accelerator(type).new_pool(PyObject_IsTrue(for_capture) == 1)); });
}

// Calls body(device, pool) with what the call was given.
template <class Body>
PyObject* with_pool(PyObject* args, const Body& body) {
  return guarded([&]() -> PyObject* {
    int device = -1;
    unsigned long long capture = 0, user = 0;
    if (!PyArg_ParseTuple(args, "i(KK)", &device, &capture, &user)) return nullptr;
    return body(device, pool_from(capture, user));
  });
}
PyObject* retain_pool(PyObject*, PyObject* args) {
  return with_pool(args, [](int device, PoolId pool) {
    accelerator(type).retain_pool(device, pool);
    return none();
  });
}
PyObject* release_pool(PyObject*, PyObject* args) {
  return with_pool(args, [](int device, PoolId pool) {
    accelerator(type).release_pool(device, pool);
    return none();
  });
}
PyObject* pool_users(PyObject*, PyObject* args) {
  return with_pool(args, [](int device, PoolId pool) {
    return PyLong_FromLongLong(accelerator(type).pool_users(device, pool));
  });
}
PyObject* use_pool(PyObject*, PyObject* args) {
  return with_pool(args, [](int device, PoolId pool) {
    accelerator(type).use_pool(device, pool);
    return none();
  });
}
PyObject* leave_pool(PyObject*, PyObject* args) {
  return with_pool(args, [](int device, PoolId pool) {
    accelerator(type).leave_pool(device, pool);
    return none();
  });
}

// --- Memory --------------------------------------------------------------------------------------

PyObject* wrap_op(const char* op) {
  if (!op) return none();
  const std::string_view name = op_name(op);
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

template <class Items, class Wrap>
PyObject* wrap_list(const Items& items, const Wrap& wrap_item) {
  Object list = check(PyList_New(0));
  for (const auto& item : items) {
    const Object wrapped = check(wrap_item(item));
    if (PyList_Append(list.get(), wrapped.get()) < 0) throw PythonError();
  }
  return list.release();
}

PyObject* wrap_block(const BlockInfo& block) {
  return Py_BuildValue(
      "{s:K,s:n,s:n,s:s,s:N}", "address", static_cast<unsigned long long>(block.address), "size",
      static_cast<Py_ssize_t>(block.size), "requested_size",
      static_cast<Py_ssize_t>(block.requested_size), "state", block.state, "op", wrap_op(block.op));
}

PyObject* wrap_segment(const SegmentInfo& segment) {
  const auto size = [](size_t bytes) { return static_cast<Py_ssize_t>(bytes); };
  return Py_BuildValue(
      "{s:i,s:K,s:K,s:n,s:n,s:n,s:n,s:s,s:N,s:O,s:N}", "device", segment.device, "address",
      static_cast<unsigned long long>(segment.address), "stream",
      static_cast<unsigned long long>(segment.stream), "total_size", size(segment.total_size),
      "allocated_size", size(segment.allocated_size), "active_size", size(segment.active_size),
      "requested_size", size(segment.requested_size), "segment_type",
      segment.small ? "small" : "large", "segment_pool_id", wrap_pool(segment.pool),
      "is_expandable", segment.expandable ? Py_True : Py_False, "blocks",
      wrap_list(segment.blocks, wrap_block));
}

PyObject* wrap_event(const MemoryEvent& event) {
  constexpr const char* kinds[] = {"alloc", "free_completed", "segment_map", "segment_unmap"};
  return Py_BuildValue("{s:s,s:K,s:n,s:K,s:L,s:N}", "action", kinds[event.kind], "addr",
                       static_cast<unsigned long long>(event.address), "size",
                       static_cast<Py_ssize_t>(event.size), "stream",
                       static_cast<unsigned long long>(event.stream), "time_us",
                       static_cast<long long>(event.microseconds), "op", wrap_op(event.op));
}

bool index_from(PyObject* args, int& index) {
  index = -1;
  return PyArg_ParseTuple(args, "|i", &index) != 0;
}

PyObject* memory_snapshot(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    if (!index_from(args, index)) return nullptr;
    return wrap_list(accelerator(type).memory_snapshot(index), wrap_segment);
  });
}
PyObject* memory_history(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    if (!index_from(args, index)) return nullptr;
    return wrap_list(accelerator(type).memory_history(index), wrap_event);
  });
}
PyObject* record_history(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    Py_ssize_t entries = 0;
    if (!PyArg_ParseTuple(args, "in:_record_memory_history", &index, &entries)) return nullptr;
    accelerator(type).record_history(index, static_cast<size_t>(entries));
    return none();
  });
}
PyObject* set_memory_limit(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    Py_ssize_t bytes = 0;
    if (!PyArg_ParseTuple(args, "in:set_per_process_memory_fraction", &index, &bytes))
      return nullptr;
    accelerator(type).set_memory_limit(index, static_cast<size_t>(bytes));
    return none();
  });
}
PyObject* memory_limit(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    if (!index_from(args, index)) return nullptr;
    return PyLong_FromSize_t(accelerator(type).memory_limit(index));
  });
}
PyObject* reset_accumulated(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    if (!index_from(args, index)) return nullptr;
    accelerator(type).reset_accumulated(index);
    return none();
  });
}
PyObject* allocate(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    Py_ssize_t bytes = 0;
    if (!PyArg_ParseTuple(args, "in:caching_allocator_alloc", &index, &bytes)) return nullptr;
    CHECK(bytes >= 0, ValueError, "caching_allocator_alloc: size must not be negative, got {}",
          bytes);
    return PyLong_FromVoidPtr(
        allocator(type).allocate(static_cast<size_t>(bytes), Device(type, index)));
  });
}
PyObject* deallocate(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    unsigned long long address = 0;
    if (!PyArg_ParseTuple(args, "iK:caching_allocator_delete", &index, &address)) return nullptr;
    allocator(type).free(reinterpret_cast<void*>(static_cast<uintptr_t>(address)), 0,
                         Device(type, index));
    return none();
  });
}

PyObject* wrap_numbers(const MemoryNumbers& numbers) {
  Object result = check(PyDict_New());
  for (const auto& [name, value] : numbers) {
    const Object number = check(PyLong_FromLongLong(value));
    if (PyDict_SetItemString(result.get(), name.c_str(), number.get()) < 0) throw PythonError();
  }
  return result.release();
}
PyObject* memory_statistics(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    if (!index_from(args, index)) return nullptr;
    return wrap_numbers(accelerator(type).memory_statistics(index));
  });
}
PyObject* host_statistics(PyObject*, PyObject*) {
  return guarded([] { return wrap_numbers(accelerator(type).host_memory_statistics()); });
}
PyObject* reset_host_statistics(PyObject*, PyObject* peaks) {
  return guarded([&] {
    accelerator(type).reset_host_memory_statistics(PyObject_IsTrue(peaks) == 1);
    return none();
  });
}

// --- Tools ---------------------------------------------------------------------------------------

// Calls body(text) with the one string that the call was given.
template <class Body>
PyObject* with_text(PyObject* object, const Body& body) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(object);
    if (!text) return nullptr;
    return body(text);
  });
}
PyObject* range_push(PyObject*, PyObject* text) {
  return with_text(text,
                   [](const char* t) { return PyLong_FromLong(accelerator(type).range_push(t)); });
}
PyObject* range_pop(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLong(accelerator(type).range_pop()); });
}
PyObject* range_start(PyObject*, PyObject* text) {
  return with_text(text, [](const char* t) {
    return PyLong_FromUnsignedLongLong(accelerator(type).range_start(t));
  });
}
PyObject* range_end(PyObject*, PyObject* id) {
  return guarded([&] {
    accelerator(type).range_end(PyLong_AsUnsignedLongLongMask(id));
    return none();
  });
}
PyObject* mark(PyObject*, PyObject* text) {
  return with_text(text, [](const char* t) {
    accelerator(type).mark(t);
    return none();
  });
}
PyObject* profile(PyObject*, PyObject* on) {
  return guarded([&] {
    accelerator(type).profile(PyObject_IsTrue(on) == 1);
    return none();
  });
}
PyObject* spin(PyObject*, PyObject* cycles) {
  return guarded([&]() -> PyObject* {
    const long long count = PyLong_AsLongLong(cycles);
    if (count == -1 && PyErr_Occurred()) return nullptr;
    accelerator(type).spin(count);
    return none();
  });
}
PyObject* can_access_peer(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int device = -1, peer = -1;
    if (!PyArg_ParseTuple(args, "ii:can_device_access_peer", &device, &peer)) return nullptr;
    return PyBool_FromLong(accelerator(type).can_access_peer(device, peer));
  });
}
PyObject* architectures(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(accelerator(type).architectures().c_str()); });
}
PyObject* set_sync_mode(PyObject*, PyObject* mode) {
  return guarded([&]() -> PyObject* {
    const long value = PyLong_AsLong(mode);
    if (value == -1 && PyErr_Occurred()) return nullptr;
    accelerator(type).set_sync_mode(static_cast<int>(value), [](const char* message) {
      const GilAcquire gil;
      if (PyErr_WarnEx(PyExc_UserWarning, message, 1) < 0) throw PythonError();
    });
    return none();
  });
}
PyObject* sync_mode(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLong(accelerator(type).sync_mode()); });
}

PyObject* set_folders(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    const Object items = check(PySequence_Fast(list, "expected a list of folders"));
    std::vector<std::string> folders;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      const char* text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items.get(), i));
      if (!text) return nullptr;
      folders.emplace_back(text);
    }
    set_vendor_folders(std::move(folders));
    return none();
  });
}

PyMethodDef functions[] = {{"_cuda_new_graph", new_graph, METH_O, nullptr},
                           {"_cuda_graph_begin", graph_begin, METH_VARARGS, nullptr},
                           {"_cuda_graph_end", graph_end, METH_O, nullptr},
                           {"_cuda_graph_instantiate", graph_instantiate, METH_O, nullptr},
                           {"_cuda_graph_replay", graph_replay, METH_O, nullptr},
                           {"_cuda_graph_reset", graph_reset, METH_O, nullptr},
                           {"_cuda_graph_pool", graph_pool, METH_O, nullptr},
                           {"_cuda_graph_keep", graph_keep, METH_O, nullptr},
                           {"_cuda_graph_dump", graph_dump, METH_VARARGS, nullptr},
                           {"_cuda_graph_raw", graph_raw, METH_VARARGS, nullptr},
                           {"_cuda_graph_register", graph_register, METH_VARARGS, nullptr},
                           {"_cuda_is_capturing", is_capturing, METH_NOARGS, nullptr},
                           {"_cuda_new_pool", new_pool, METH_O, nullptr},
                           {"_cuda_retain_pool", retain_pool, METH_VARARGS, nullptr},
                           {"_cuda_release_pool", release_pool, METH_VARARGS, nullptr},
                           {"_cuda_pool_users", pool_users, METH_VARARGS, nullptr},
                           {"_cuda_use_pool", use_pool, METH_VARARGS, nullptr},
                           {"_cuda_leave_pool", leave_pool, METH_VARARGS, nullptr},
                           {"_cuda_memory_snapshot", memory_snapshot, METH_VARARGS, nullptr},
                           {"_cuda_memory_history", memory_history, METH_VARARGS, nullptr},
                           {"_cuda_record_history", record_history, METH_VARARGS, nullptr},
                           {"_cuda_set_memory_limit", set_memory_limit, METH_VARARGS, nullptr},
                           {"_cuda_memory_limit", memory_limit, METH_VARARGS, nullptr},
                           {"_cuda_reset_accumulated", reset_accumulated, METH_VARARGS, nullptr},
                           {"_cuda_memory_statistics", memory_statistics, METH_VARARGS, nullptr},
                           {"_cuda_host_statistics", host_statistics, METH_NOARGS, nullptr},
                           {"_cuda_reset_host_statistics", reset_host_statistics, METH_O, nullptr},
                           {"_cuda_range_push", range_push, METH_O, nullptr},
                           {"_cuda_range_pop", range_pop, METH_NOARGS, nullptr},
                           {"_cuda_range_start", range_start, METH_O, nullptr},
                           {"_cuda_range_end", range_end, METH_O, nullptr},
                           {"_cuda_mark", mark, METH_O, nullptr},
                           {"_cuda_profile", profile, METH_O, nullptr},
                           {"_cuda_sleep", spin, METH_O, nullptr},
                           {"_cuda_can_access_peer", can_access_peer, METH_VARARGS, nullptr},
                           {"_cuda_architectures", architectures, METH_NOARGS, nullptr},
                           {"_cuda_set_sync_mode", set_sync_mode, METH_O, nullptr},
                           {"_cuda_sync_mode", sync_mode, METH_NOARGS, nullptr},
                           {"_set_vendor_folders", set_folders, METH_O, nullptr},
                           {"_cuda_allocate", allocate, METH_VARARGS, nullptr},
                           {"_cuda_deallocate", deallocate, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_device_graph(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
