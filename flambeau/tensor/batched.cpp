#include "flambeau/tensor/batched.h"

#include "flambeau/base/check.h"

namespace flambeau {

Tensor make_batched(const Tensor& behind, int level) {
  CHECK(behind.dim() > 0, RuntimeError, "vmap: a tensor of no dimensions has no samples");
  Tensor tensor = make_tensor({0}, behind.dtype(), behind.device());
  TensorImpl& impl = *tensor.impl();
  impl.behind = behind.ptr();
  impl.level = static_cast<uint8_t>(level);
  refresh_batched(tensor);
  return tensor;
}

void refresh_batched(const Tensor& batched) {
  TensorImpl& impl = *batched.impl();
  const Tensor samples(impl.behind);
  set_geometry(impl, samples.sizes().from(1), samples.strides().from(1));
  impl.dtype = samples.dtype();
  impl.requires_grad = samples.requires_grad();
  impl.inference = samples->inference;
  impl.pending = Pending::batched | (samples->pending & (Pending::conj | Pending::neg));
}

}  // namespace flambeau
