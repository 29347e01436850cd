// Streams, events, memory and properties of CUDA devices, as functions that the package
// flambeau.cuda makes its classes of. A stream is a tuple (device, id, handle); an event a capsule.
#include "flambeau/tensor/accelerator.h"

#include <mutex>
#include <string_view>

#include "flambeau/kernels/math_mode.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/storage.h"
#include "python/src/binding.h"
#include "python/src/device_graph.h"

namespace flambeau::python {
namespace {

constexpr DeviceType type = DeviceType::cuda;
constexpr const char* event_capsule = "flambeau.Event";

PyObject* none() { return Py_NewRef(Py_None); }

template <class Body>
void without_gil(const Body& body) {
  const GilRelease released(true);
  body();
}

// The device index that a call is given: -1, the default, for the current device.
bool index_from(PyObject* args, const char* format, int& index) {
  index = -1;
  return PyArg_ParseTuple(args, format, &index) != 0;
}

PyObject* wrap_stream(const Stream& stream) {
  return Py_BuildValue("(iLK)", static_cast<int>(stream.device.index),
                       static_cast<long long>(stream.id),
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream.handle)));
}
Stream stream_from(PyObject* tuple) {
  int index = 0;
  long long id = 0;
  unsigned long long handle = 0;
  if (!PyArg_ParseTuple(tuple, "iLK", &index, &id, &handle)) throw PythonError();
  return {Device(type, index), id, reinterpret_cast<void*>(static_cast<uintptr_t>(handle))};
}
Event& event_from(PyObject* capsule) {
  void* event = PyCapsule_GetPointer(capsule, event_capsule);
  if (!event) throw PythonError();
  return *static_cast<Event*>(event);
}

// --- Devices -------------------------------------------------------------------------------------

PyObject* current_device(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLong(device_runtime(type).current_device()); });
}
PyObject* set_device(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "i:set_device", index)) return nullptr;
    device_runtime(type).set_device(index);
    return none();
  });
}
PyObject* synchronize(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:synchronize", index)) return nullptr;
    without_gil([&] { device_runtime(type).synchronize(index); });
    return none();
  });
}
PyObject* properties(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:get_device_properties", index)) return nullptr;
    const DeviceProperties p = accelerator(type).properties(index);
    return Py_BuildValue(
        "{s:s,s:s,s:i,s:i,s:n,s:i,s:n,s:n,s:i,s:i,s:i,s:O,s:O}", "name", p.name.c_str(), "uuid",
        p.uuid.c_str(), "major", p.major, "minor", p.minor, "total_memory",
        static_cast<Py_ssize_t>(p.total_memory), "multi_processor_count", p.multi_processor_count,
        "L2_cache_size", static_cast<Py_ssize_t>(p.l2_cache_size), "shared_memory_per_block",
        static_cast<Py_ssize_t>(p.shared_memory_per_block), "warp_size", p.warp_size,
        "max_threads_per_multi_processor", p.max_threads_per_multi_processor,
        "regs_per_multiprocessor", p.regs_per_multiprocessor, "is_integrated",
        p.is_integrated ? Py_True : Py_False, "is_multi_gpu_board",
        p.is_multi_gpu_board ? Py_True : Py_False);
  });
}

// --- Streams -------------------------------------------------------------------------------------

PyObject* current_stream(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:current_stream", index)) return nullptr;
    return wrap_stream(accelerator(type).current_stream(index));
  });
}
PyObject* default_stream(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:default_stream", index)) return nullptr;
    return wrap_stream(accelerator(type).default_stream(index));
  });
}
PyObject* new_stream(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1, priority = 0;
    if (!PyArg_ParseTuple(args, "ii:Stream", &index, &priority)) return nullptr;
    return wrap_stream(accelerator(type).new_stream(index, priority));
  });
}
PyObject* external_stream(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = -1;
    unsigned long long handle = 0;
    if (!PyArg_ParseTuple(args, "iK:ExternalStream", &index, &handle)) return nullptr;
    return wrap_stream(accelerator(type).stream_of_handle(
        index, reinterpret_cast<void*>(static_cast<uintptr_t>(handle))));
  });
}
PyObject* set_stream(PyObject*, PyObject* stream) {
  return guarded([&] {
    accelerator(type).set_current_stream(stream_from(stream));
    return none();
  });
}
PyObject* stream_query(PyObject*, PyObject* stream) {
  return guarded(
      [&] { return PyBool_FromLong(accelerator(type).stream_done(stream_from(stream))); });
}
PyObject* stream_synchronize(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    const Stream stream = stream_from(object);
    without_gil([&] { accelerator(type).wait_for_stream(stream); });
    return none();
  });
}

// --- Events --------------------------------------------------------------------------------------

void destroy_event(PyObject* capsule) {
  auto* event = static_cast<Event*>(PyCapsule_GetPointer(capsule, event_capsule));
  if (event->handle) accelerator(type).destroy_event(*event);
  delete event;
}
PyObject* wrapped(std::unique_ptr<Event> event) {
  PyObject* capsule = PyCapsule_New(event.get(), event_capsule, destroy_event);
  if (capsule) static_cast<void>(event.release());  // the capsule has it now
  return capsule;
}
PyObject* new_event(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int timed = 0, blocking = 0, shared = 0;
    if (!PyArg_ParseTuple(args, "ppp:new_event", &timed, &blocking, &shared)) return nullptr;
    auto event = std::make_unique<Event>();
    event->timed = timed;
    event->blocking = blocking;
    event->shared = shared;
    return wrapped(std::move(event));
  });
}
PyObject* event_name(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* event = nullptr;
    int device = 0;
    if (!PyArg_ParseTuple(args, "Oi:ipc_handle", &event, &device)) return nullptr;
    const std::string name = accelerator(type).event_name(event_from(event), device);
    return PyBytes_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  });
}
PyObject* open_event(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int device = 0;
    const char* name = nullptr;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "iy#:from_ipc_handle", &device, &name, &size)) return nullptr;
    const std::string given(name, static_cast<size_t>(size));
    return wrapped(std::make_unique<Event>(accelerator(type).open_event(device, given)));
  });
}
PyObject* event_record(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *event = nullptr, *stream = nullptr;
    if (!PyArg_ParseTuple(args, "OO!:record", &event, &PyTuple_Type, &stream)) return nullptr;
    accelerator(type).record_event(event_from(event), stream_from(stream));
    return none();
  });
}
PyObject* event_wait(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *event = nullptr, *stream = nullptr;
    if (!PyArg_ParseTuple(args, "OO!:wait", &event, &PyTuple_Type, &stream)) return nullptr;
    accelerator(type).stream_waits(stream_from(stream), event_from(event));
    return none();
  });
}
PyObject* event_query(PyObject*, PyObject* event) {
  return guarded([&] { return PyBool_FromLong(accelerator(type).event_done(event_from(event))); });
}
PyObject* event_synchronize(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    const Event& event = event_from(object);
    without_gil([&] { accelerator(type).wait_for_event(event); });
    return none();
  });
}
PyObject* event_elapsed(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *start = nullptr, *end = nullptr;
    if (!PyArg_ParseTuple(args, "OO:elapsed_time", &start, &end)) return nullptr;
    return PyFloat_FromDouble(accelerator(type).elapsed_ms(event_from(start), event_from(end)));
  });
}
PyObject* event_handle(PyObject*, PyObject* event) {
  return guarded([&] { return PyLong_FromVoidPtr(event_from(event).handle); });
}

// --- Memory --------------------------------------------------------------------------------------

PyObject* reset_peaks(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:reset_peak_memory_stats", index)) return nullptr;
    accelerator(type).reset_peaks(index);
    return none();
  });
}
PyObject* memory_info(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:mem_get_info", index)) return nullptr;
    size_t free = 0, total = 0;
    accelerator(type).memory_info(index, free, total);
    return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(free), static_cast<Py_ssize_t>(total));
  });
}
PyObject* empty_cache(PyObject*, PyObject*) {
  return guarded([] {
    allocator(type).release_cached();
    return none();
  });
}
PyObject* empty_host_cache(PyObject*, PyObject*) {
  return guarded([] {
    accelerator(type).pinned_allocator().release_cached();
    return none();
  });
}
PyObject* record_stream(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor = nullptr, *stream = nullptr;
    if (!PyArg_ParseTuple(args, "O!O!:record_stream", tensor_type, &tensor, &PyTuple_Type, &stream))
      return nullptr;
    accelerator(type).record_stream(tensor_of(tensor).storage()->data(), stream_from(stream));
    return none();
  });
}
PyObject* pinned(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    CHECK(PyObject_TypeCheck(tensor, tensor_type), TypeError, "pin_memory() takes a tensor");
    return wrap(pin_memory(tensor_of(tensor)));
  });
}
PyObject* tensor_is_pinned(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    CHECK(PyObject_TypeCheck(tensor, tensor_type), TypeError, "is_pinned() takes a tensor");
    return PyBool_FromLong(is_pinned(tensor_of(tensor)));
  });
}
PyObject* device_generator(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int index = 0;
    if (!index_from(args, "|i:default_generator", index)) return nullptr;
    return wrap_generator(default_generator(Device(type, index)).get());
  });
}

// set_math_mode(name, value): what torch.backends lets a program choose. See MathMode.
PyObject* set_math_mode(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* name = nullptr;
    int value = 0;
    if (!PyArg_ParseTuple(args, "sp:_set_math_mode", &name, &value)) return nullptr;
    const std::string_view which = name;
    std::atomic<bool>* mode = which == "matmul_tf32"         ? &math_mode.matmul_tf32
                              : which == "conv_tf32"         ? &math_mode.conv_tf32
                              : which == "rnn_tf32"          ? &math_mode.rnn_tf32
                              : which == "conv_benchmark"    ? &math_mode.conv_benchmark
                              : which == "deterministic"     ? &math_mode.deterministic
                              : which == "attention_formula" ? &math_mode.attention_formula
                              : which == "deterministic_warn_only"
                                  ? &math_mode.deterministic_warn_only
                              : which == "fills_uninitialized" ? &math_mode.fills_uninitialized
                                                               : nullptr;
    CHECK(mode, ValueError, "there is no math mode '{}'", which);
    mode->store(value != 0);
    return none();
  });
}

PyMethodDef functions[] = {{"_set_math_mode", set_math_mode, METH_VARARGS, nullptr},
                           {"_cuda_current_device", current_device, METH_NOARGS, nullptr},
                           {"_cuda_set_device", set_device, METH_VARARGS, nullptr},
                           {"_cuda_synchronize", synchronize, METH_VARARGS, nullptr},
                           {"_cuda_properties", properties, METH_VARARGS, nullptr},
                           {"_cuda_current_stream", current_stream, METH_VARARGS, nullptr},
                           {"_cuda_default_stream", default_stream, METH_VARARGS, nullptr},
                           {"_cuda_new_stream", new_stream, METH_VARARGS, nullptr},
                           {"_cuda_external_stream", external_stream, METH_VARARGS, nullptr},
                           {"_cuda_set_stream", set_stream, METH_O, nullptr},
                           {"_cuda_stream_query", stream_query, METH_O, nullptr},
                           {"_cuda_stream_synchronize", stream_synchronize, METH_O, nullptr},
                           {"_cuda_new_event", new_event, METH_VARARGS, nullptr},
                           {"_cuda_event_name", event_name, METH_VARARGS, nullptr},
                           {"_cuda_open_event", open_event, METH_VARARGS, nullptr},
                           {"_cuda_event_record", event_record, METH_VARARGS, nullptr},
                           {"_cuda_event_wait", event_wait, METH_VARARGS, nullptr},
                           {"_cuda_event_query", event_query, METH_O, nullptr},
                           {"_cuda_event_synchronize", event_synchronize, METH_O, nullptr},
                           {"_cuda_event_elapsed", event_elapsed, METH_VARARGS, nullptr},
                           {"_cuda_event_handle", event_handle, METH_O, nullptr},
                           {"_cuda_reset_peaks", reset_peaks, METH_VARARGS, nullptr},
                           {"_cuda_memory_info", memory_info, METH_VARARGS, nullptr},
                           {"_cuda_empty_cache", empty_cache, METH_NOARGS, nullptr},
                           {"_cuda_empty_host_cache", empty_host_cache, METH_NOARGS, nullptr},
                           {"_cuda_record_stream", record_stream, METH_VARARGS, nullptr},
                           {"_pin_memory", pinned, METH_O, nullptr},
                           {"_is_pinned", tensor_is_pinned, METH_O, nullptr},
                           {"_cuda_default_generator", device_generator, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_accelerator(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && add_device_graph(module);
}

}  // namespace flambeau::python
