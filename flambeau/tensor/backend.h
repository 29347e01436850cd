// Kernels live in libraries of their own: one for each instruction set of the CPU, of which the
// best is loaded together with this library, and one for each other device, loaded on the first use
// of that device and never at import.
#pragma once

#include <string>

#include "flambeau/tensor/device.h"

namespace flambeau {

// Loads the library that fills the slots of this device type. Raises RuntimeError saying what is
// missing if there is none. Cheap when loaded already.
void load_backend(DeviceType type);
bool backend_available(DeviceType type);  // the same question without an exception
bool backend_loaded(DeviceType type);     // already; loads nothing

// For backends: the library `file`, beside this one, becomes the backend of the device; or why none
// can. load_backend tells what failed.
bool open_backend(DeviceType type, const std::string& file);
void refuse_backend(DeviceType type, std::string failure);

// What a backend tells about its devices; the CPU and meta backends have one each.
struct DeviceRuntime {
  int (*device_count)();
  int (*current_device)();
  void (*set_device)(int index);
  void (*synchronize)(int index);
};
const DeviceRuntime& device_runtime(DeviceType type);
void set_device_runtime(DeviceType type, const DeviceRuntime* runtime);

}  // namespace flambeau
