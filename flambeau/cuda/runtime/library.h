// A library of NVIDIA's that is loaded when it is first needed, and its functions by name. They are
// described where they are used, so that building needs no header of it.
#pragma once

#include <dlfcn.h>

#include "flambeau/base/check.h"
#include "flambeau/tensor/vendor_library.h"

namespace flambeau::cuda {

class Library {
 public:
  // `file` is found through the run path of this library, which counts only for its own calls:
  // NVIDIA's Python package, or the system's toolkit. Without it, RuntimeError says which package
  // has it. Libraries that load parts of themselves want to be seen by these: RTLD_GLOBAL.
  Library(const char* name, const char* file, const char* package, int seen = RTLD_LOCAL)
      : name_(name) {
    library_ = dlopen(file, RTLD_NOW | seen);
    if (!library_) library_ = open_vendor_library(file);
    CHECK(library_, RuntimeError,
          "This operation needs {}, and {} was not found. Install NVIDIA's package {}, or {} with "
          "the CUDA toolkit.",
          name, file, package, name);
  }

  template <class Function>
  void take(Function& function, const char* symbol) const {
    void* found = dlsym(library_, symbol);
    CHECK(found, RuntimeError, "The {} library that was found is too old: it has no {}", name_,
          symbol);
    function = reinterpret_cast<Function>(found);
  }

 private:
  const char* name_;
  void* library_;
};

}  // namespace flambeau::cuda
