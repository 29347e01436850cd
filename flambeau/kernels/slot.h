// A kernel slot: a name, a C++ type, and one implementation a device. This is the whole dispatcher.
// Backends fill slots when their library is loaded; calling an empty one raises a sentence.
#pragma once

#include <array>

#include "flambeau/base/check.h"
#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/device.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// No kernel ever sees a sparse tensor (Note [Sparse tensors]) or one whose memory it cannot reach.
template <class T>
void check_kernel_argument(const char*, DeviceType, const T&) {}
inline void check_kernel_argument(const char* op, DeviceType device, const Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor->pending & Pending::valueless) [[unlikely]]
    refuse_sparse(op, tensor);
  if (tensor.device_type() != device) [[unlikely]]
    refuse_devices(op, device, tensor.device());
}
inline void check_kernel_argument(const char* op, DeviceType device,
                                  const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) check_kernel_argument(op, device, tensor);
}

template <class Signature>
class Slot;

template <class... Args>
class Slot<void(Args...)> {
 public:
  using Kernel = void (*)(Args...);

  constexpr explicit Slot(const char* name) : name_(name) {}

  // On the meta device there is nothing to compute: the op around the call is the shape rule.
  void operator()(DeviceType device, Args... args) const {
    if (device == DeviceType::meta) return;
    Kernel kernel = kernels_[static_cast<int>(device)];
    if (!kernel) [[unlikely]]
      kernel = missing(device);
    (check_kernel_argument(name_, device, args), ...);
    kernel(static_cast<Args>(args)...);
  }

  void fill(DeviceType device, Kernel kernel) { kernels_[static_cast<int>(device)] = kernel; }

  [[nodiscard]] bool filled(DeviceType device) const {
    return kernels_[static_cast<int>(device)] != nullptr;
  }
  [[nodiscard]] const char* name() const { return name_; }

 private:
  [[gnu::cold, gnu::noinline]] Kernel missing(DeviceType device) const {
    load_backend(device);  // the tensor may have been made by somebody else's allocator
    Kernel kernel = kernels_[static_cast<int>(device)];
    CHECK(kernel, NotImplementedError, "{}: not implemented for device '{}'", name_, device);
    return kernel;
  }

  const char* name_;
  std::array<Kernel, device_type_count> kernels_{};
};

// SLOT(softmax, void(const Tensor& input, const Tensor& out, int64_t dim)) in namespace kernels.
#define SLOT(name, ...) inline constinit ::flambeau::Slot<__VA_ARGS__> name{#name};

}  // namespace flambeau
