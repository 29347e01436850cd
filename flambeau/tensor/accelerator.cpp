#include "flambeau/tensor/accelerator.h"

#include "flambeau/base/check.h"
#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau {
namespace {
constinit Accelerator* accelerators[device_type_count] = {};
}  // namespace

Accelerator& accelerator(DeviceType type) {
  load_backend(type);
  Accelerator* found = accelerators[static_cast<int>(type)];
  CHECK(found, RuntimeError, "device type '{}' has no streams", type);
  return *found;
}

constinit thread_local bool uses_side_streams = false;

int64_t current_stream_id(Device device) {
  if (!uses_side_streams || !device.is_cuda()) return 0;
  return accelerator(device.type).current_stream(device.index).id;
}

void set_accelerator(DeviceType type, Accelerator* accelerator) {
  accelerators[static_cast<int>(type)] = accelerator;
}

}  // namespace flambeau
