// The extension module flambeau._C.
#include "python/src/binding.h"
#include "python/src/interop.h"

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

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  using namespace flambeau::python;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  const bool ready = add_errors(module) && add_small_types(module) && add_overrides(module) &&
                     add_tensor_type(module) && add_generator(module) && add_nodes(module) &&
                     add_functions(module) && add_engine(module) && add_construct(module) &&
                     add_interop(module) && add_dlpack(module) && add_runtime(module) &&
                     add_accelerator(module) && add_ops(module) && add_registry(module) &&
                     add_module_base(module);
  if (!ready) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
