// The profiler as Python sees it: start, stop, and spans that users name.
#include "python/src/profiler.h"

#include "flambeau/base/profiler.h"
#include "flambeau/tensor/accelerator.h"

namespace flambeau::python {
namespace {

PyObject* start(PyObject*, PyObject*) {
  start_profiling();
  Py_RETURN_NONE;
}

Object shapes_of(const ProfiledSpan& span) {
  Object list = check(PyList_New(0));
  for (const std::vector<int64_t>& shape : span.shapes) {
    Object sizes = check(PyList_New(0));
    for (const int64_t size : shape) {
      Object number = check(PyLong_FromLongLong(size));
      if (PyList_Append(sizes.get(), number.get()) < 0) throw PythonError();
    }
    if (PyList_Append(list.get(), sizes.get()) < 0) throw PythonError();
  }
  return list;
}

// Each span as (name, kind, begin, end, thread, bytes, shapes).
PyObject* stop(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Object list = check(PyList_New(0));
    for (const ProfiledSpan& span : stop_profiling()) {
      const Object shapes = shapes_of(span);
      Object row =
          check(Py_BuildValue("(siLLKLO)", span.name.c_str(), static_cast<int>(span.kind),
                              static_cast<long long>(span.begin), static_cast<long long>(span.end),
                              static_cast<unsigned long long>(span.thread),
                              static_cast<long long>(span.bytes), shapes.get()));
      if (PyList_Append(list.get(), row.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

constexpr const char* span_name = "flambeau.span";

void drop_span(PyObject* capsule) {
  delete static_cast<Span*>(PyCapsule_GetPointer(capsule, span_name));
}

// The span lasts until the object that is returned dies.
PyObject* open_span(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PythonError();
    auto span = std::make_unique<Span>(SpanKind::user, text);
    PyObject* capsule = PyCapsule_New(span.get(), span_name, drop_span);
    if (capsule) (void)span.release();
    return capsule;
  });
}

PyObject* start_device(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    accelerator(DeviceType::cuda).start_trace();
    Py_RETURN_NONE;
  });
}

// Each span as (name, kind, begin, end, device, stream, bytes, when it was asked for, thread).
PyObject* stop_device(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    std::vector<DeviceSpan> spans;
    {
      const GilRelease released(true);
      spans = accelerator(DeviceType::cuda).stop_trace();
    }
    Object list = check(PyList_New(0));
    for (const DeviceSpan& s : spans) {
      Object row = check(
          Py_BuildValue("(ssLLiLLLK)", s.name.c_str(), s.kind, static_cast<long long>(s.begin),
                        static_cast<long long>(s.end), s.device, static_cast<long long>(s.stream),
                        static_cast<long long>(s.bytes), static_cast<long long>(s.asked),
                        static_cast<unsigned long long>(s.thread)));
      if (PyList_Append(list.get(), row.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

PyObject* is_profiling(PyObject*, PyObject*) { return PyBool_FromLong(profiling()); }

PyMethodDef functions[] = {
    {"_profiler_start", start, METH_NOARGS, "Begins to record spans, without any from before."},
    {"_profiler_stop", stop, METH_NOARGS,
     "Ends recording; the spans as (name, kind, begin, end, thread, bytes, shapes)."},
    {"_profiler_span", open_span, METH_O, "A span of the given name, until the result dies."},
    {"_profiler_start_device", start_device, METH_NOARGS,
     "Begins to record what runs on CUDA devices."},
    {"_profiler_stop_device", stop_device, METH_NOARGS,
     "Waits for the device and ends recording; what ran as (name, kind, begin, end, device, "
     "stream, bytes, asked, thread)."},
    {"_profiler_enabled", is_profiling, METH_NOARGS, "Whether spans are being recorded."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_profiler(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
