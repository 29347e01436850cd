// The extension module flambeau._C.
#include "flambeau/tensor/backend.h"
#include "python/src/binding.h"
#include "python/src/files.h"
#include "python/src/interop.h"
#include "python/src/profiler.h"
#include "python/src/warnings.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "flambeau._C",
                          "The core of Flambeau.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

// A processor without the instructions that the kernels need is best told of at once.
bool cpu_is_usable() {
  try {
    flambeau::load_backend(flambeau::DeviceType::cpu);
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
    return false;
  }
}

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  using namespace flambeau::python;
  if (!cpu_is_usable()) return nullptr;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  const bool ready = add_errors(module) && add_small_types(module) && add_overrides(module) &&
                     add_tensor_type(module) && add_dispatch(module) && add_generator(module) &&
                     add_nodes(module) && add_functions(module) && add_engine(module) &&
                     add_construct(module) && add_interop(module) && add_dlpack(module) &&
                     add_runtime(module) && add_accelerator(module) && add_ops(module) &&
                     add_registry(module) && add_module_base(module) && add_profiler(module) &&
                     add_warnings(module) && add_autocast(module) && add_vmap(module) &&
                     add_files(module) && add_tensor_api(module) && add_library(module);
  if (!ready) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
