#include "flambeau/tensor/accelerator.h"

#include "flambeau/base/check.h"
#include "flambeau/tensor/backend.h"

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

void set_accelerator(DeviceType type, Accelerator* accelerator) {
  accelerators[static_cast<int>(type)] = accelerator;
}

}  // namespace flambeau
