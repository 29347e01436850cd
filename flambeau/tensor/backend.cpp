#include "flambeau/tensor/backend.h"

#include <dlfcn.h>

#include <mutex>
#include <string>
#include <utility>

#include "flambeau/base/check.h"
#include "flambeau/tensor/vendor_library.h"

namespace flambeau {
namespace {

constinit const DeviceRuntime* runtimes[device_type_count] = {};

struct Library {
  bool loaded = false;
  std::string failure;
};
constinit std::mutex loading;

// Static initialisers of other files come here, perhaps before those of this one.
Library& library_of(DeviceType type) {
  static Library libraries[device_type_count];
  return libraries[static_cast<int>(type)];
}

const DeviceRuntime one_device = {[] { return 1; }, [] { return 0; }, [](int) {}, [](int) {}};

std::string folder_of_this_library() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&load_backend), &info)) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// The CPU's library was opened, or refused, when this one was loaded.
bool try_load(DeviceType type) {
  if (type >= DeviceType::meta) return type == DeviceType::meta;
  if (type == DeviceType::cuda) return open_backend(type, "libflambeau_cuda.so");
  const std::lock_guard lock(loading);
  return library_of(type).loaded;
}

}  // namespace

namespace {

// The library that a failure to load another says is missing; empty if it says something else.
std::string missing_library(const std::string& failure) {
  const size_t at = failure.find(": cannot open shared object file");
  return at == std::string::npos ? "" : failure.substr(0, at);
}

// Loads `path`, and before it the libraries it needs that are not where the system looks. Returns
// what failed; nothing if all went well.
std::string load_with_vendors(const std::string& path) {
  for (std::string last;;) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return "";
    std::string failure = dlerror();
    const std::string missing = missing_library(failure);
    if (missing.empty() || missing == path || missing == last) return failure;
    if (!open_vendor_library(missing.c_str())) return failure;
    last = missing;
  }
}

}  // namespace

bool open_backend(DeviceType type, const std::string& file) {
  const std::lock_guard lock(loading);
  Library& library = library_of(type);
  if (library.loaded || !library.failure.empty()) return library.loaded;
  const std::string path = folder_of_this_library() + "/" + file;
  library.failure = load_with_vendors(path);
  library.loaded = library.failure.empty();  // static initialisers have filled the slots
  return library.loaded;
}

void refuse_backend(DeviceType type, std::string failure) {
  const std::lock_guard lock(loading);
  library_of(type).failure = std::move(failure);
}

void load_backend(DeviceType type) {
  CHECK(static_cast<int>(type) < device_type_count, NotImplementedError,
        "not linked with support for {} devices", type);
  if (try_load(type)) return;
  const std::string& failure = library_of(type).failure;
  if (type == DeviceType::cpu) fail<RuntimeError>("the CPU kernels cannot be loaded: {}", failure);
  const std::string missing = missing_library(failure);
  CHECK(missing.find("libflambeau") == std::string::npos, RuntimeError,
        "Torch not compiled with CUDA enabled: this build has no CUDA library");
  CHECK(missing.empty(), RuntimeError,
        "CUDA cannot be used: {} was not found. Install NVIDIA's libraries with `pip install "
        "flambeau[cuda]`, or the CUDA toolkit",
        missing);
  fail<RuntimeError>("CUDA cannot be used: {}", failure);
}

bool backend_loaded(DeviceType type) {
  if (type >= DeviceType::meta) return type == DeviceType::meta;
  const std::lock_guard lock(loading);
  return library_of(type).loaded;
}

bool backend_available(DeviceType type) { return try_load(type); }

const DeviceRuntime& device_runtime(DeviceType type) {
  if (type != DeviceType::cuda) return one_device;
  load_backend(type);
  return *runtimes[static_cast<int>(type)];
}

void set_device_runtime(DeviceType type, const DeviceRuntime* runtime) {
  runtimes[static_cast<int>(type)] = runtime;
}

}  // namespace flambeau
