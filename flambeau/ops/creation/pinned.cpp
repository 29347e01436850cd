#include "flambeau/ops/creation/pinned.h"

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/accelerator.h"
#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

bool is_pinned(const Tensor& tensor) {
  // Memory is pinned through the device's library: as long as it is not loaded, none is.
  return tensor.device().is_cpu() && tensor.storage()->data() && backend_loaded(DeviceType::cuda) &&
         accelerator(DeviceType::cuda).is_pinned(tensor.storage()->data());
}

Tensor pin_memory(const Tensor& tensor) {
  if (tensor.device().is_meta() || is_pinned(tensor)) return tensor;
  CHECK(tensor.device().is_cpu(), RuntimeError,
        "cannot pin '{}': only dense CPU tensors can be pinned", tensor.device());
  const Dims strides = preserved_strides(tensor);
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.item_size();
  auto storage = make_intrusive<Storage>(bytes, tensor.device(),
                                         accelerator(DeviceType::cuda).pinned_allocator());
  Tensor copy = make_over(std::move(storage), tensor.sizes(), strides, 0, tensor.dtype());
  return copy_(copy, tensor);
}

Tensor sent_to(const Tensor& made, Device device) {
  if (device.type != DeviceType::cuda || made.numel() == 0) return to(made, device);
  const NoGrad off;
  return copy_(make_tensor(made.sizes(), made.dtype(), device), pin_memory(contiguous(made)), true);
}

Tensor finished(Tensor tensor, const Options& options) {
  if (options.pin_memory) tensor = pin_memory(tensor);
  if (options.requires_grad) set_requires_grad(tensor, true);
  return tensor;
}

}  // namespace flambeau
