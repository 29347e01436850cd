#include "flambeau/tensor/backend.h"

#include <dlfcn.h>

#include <mutex>
#include <string>

#include "flambeau/base/check.h"

namespace flambeau {
namespace {

constinit const DeviceRuntime* runtimes[device_type_count] = {};
std::mutex loading;
bool cuda_loaded = false;
std::string cuda_failure;

const DeviceRuntime one_device = {[] { return 1; }, [] { return 0; }, [](int) {}, [](int) {}};

std::string folder_of_this_library() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&load_backend), &info)) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

// The library's static initialisers fill the slots.
bool try_load_cuda() {
  const std::lock_guard lock(loading);
  if (cuda_loaded) return true;
  if (!cuda_failure.empty()) return false;
  const std::string path = folder_of_this_library() + "/libflambeau_cuda.so";
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    cuda_loaded = true;
  } else {
    cuda_failure = dlerror();
  }
  return cuda_loaded;
}

}  // namespace

void load_backend(DeviceType type) {
  if (type != DeviceType::cuda || try_load_cuda()) return;
  fail<RuntimeError>(
      "Torch not compiled with CUDA enabled: the CUDA backend could not be loaded ({})",
      cuda_failure);
}

bool backend_loaded(DeviceType type) {
  const std::lock_guard lock(loading);
  return type != DeviceType::cuda || cuda_loaded;
}

bool backend_available(DeviceType type) { return type != DeviceType::cuda || try_load_cuda(); }

const DeviceRuntime& device_runtime(DeviceType type) {
  if (type != DeviceType::cuda) return one_device;
  load_backend(type);
  return *runtimes[static_cast<int>(type)];
}

void set_device_runtime(DeviceType type, const DeviceRuntime* runtime) {
  runtimes[static_cast<int>(type)] = runtime;
}

}  // namespace flambeau
