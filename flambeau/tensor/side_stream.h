// Whether this thread works in streams other than the default one. Nearly always it does not, and
// whoever would have to care about streams looks here first.
#pragma once

#include <cstdint>

#include "flambeau/tensor/device.h"

namespace flambeau {

extern constinit thread_local bool uses_side_streams;  // set by the backend

// The id of the device's current stream; 0 for the default one.
int64_t current_stream_id(Device device);

}  // namespace flambeau
