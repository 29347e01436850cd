// The one way to start a kernel: on the current stream of the device, checked, with the name of the
// op in the error.
#pragma once

#include <type_traits>

#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"

namespace flambeau::cuda {

constexpr int block_size = 256;

// A grid's first dimension; more blocks than it may have are an error, not fewer blocks.
inline unsigned blocks_for(int64_t items, int64_t per_block) {
  const int64_t blocks = (items + per_block - 1) / per_block;
  CHECK(blocks <= INT32_MAX, RuntimeError, "{}: {} blocks are too many for one CUDA kernel",
        op_name(current_op), blocks);
  return static_cast<unsigned>(blocks);
}

// `arguments` point to the kernel's arguments (launch.cpp).
void start_kernel(const char* op, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                  void** arguments);

// The device must be current: ops hold a DeviceGuard.
template <class... Params>
void launch_with_shared(const char* op, void (*kernel)(Params...), dim3 grid, dim3 block,
                        size_t shared_bytes, const std::type_identity_t<Params>&... args) {
  const void* arguments[] = {&args...};
  start_kernel(op, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
               const_cast<void**>(arguments));
}
template <class... Params>
void launch(const char* op, void (*kernel)(Params...), dim3 grid, dim3 block,
            const std::type_identity_t<Params>&... args) {
  launch_with_shared(op, kernel, grid, block, 0, args...);
}

}  // namespace flambeau::cuda
