// Backends other than the CPU live in libraries of their own, loaded on the first use of their
// device and never at import.
#pragma once

#include "flambeau/tensor/device.h"

namespace flambeau {

// Loads the library that fills the slots of this device type. Raises RuntimeError saying what is
// missing if there is none. Cheap when loaded already.
void load_backend(DeviceType type);
bool backend_available(DeviceType type);  // the same question without an exception
bool backend_loaded(DeviceType type);     // already; loads nothing

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
