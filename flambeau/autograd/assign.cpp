#include "flambeau/autograd/assign.h"

#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

void assign_grad(const Tensor& tensor, const Tensor& grad) {
  if (!grad.defined()) return set_grad(tensor, Tensor());
  CHECK(!grad.is_same(tensor), RuntimeError, "can't assign Variable as its own grad");
  const std::optional<DType> wanted = grad_dtype(tensor);
  CHECK(!wanted || grad.dtype() == *wanted, RuntimeError,
        "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The "
        "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
        "the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype.",
        grad.dtype(), *wanted);
  CHECK(grad.device().type == tensor.device().type, RuntimeError,
        "assigned grad has data located on a different device: expected {}, got {}",
        tensor.device(), grad.device());
  CHECK(grad.sizes() == tensor.sizes(), RuntimeError,
        "assigned grad has data of a different size: expected {}, got {}", tensor.sizes(),
        grad.sizes());
  set_grad(tensor, grad);
}

void assign_data(const Tensor& tensor, const Tensor& source) {
  CHECK(!(tensor.requires_grad() && !is_differentiable(source.dtype())), RuntimeError,
        "data set to a tensor that requires gradients must be floating point or complex dtype");
  CHECK(source.device().type == tensor.device().type || !source.device().is_meta(), RuntimeError,
        "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
        "incompatible tensor type: {} and {}",
        tensor.device(), source.device());
  CHECK(source.is_sparse() == tensor.is_sparse(), RuntimeError,
        "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
        "incompatible tensor type: only one of them is sparse");
  TensorImpl& impl = *tensor.impl();
  if (source->inference && !impl.inference) {  // keeps the version that it has had so far
    static_cast<void>(tensor.shared_version());
    impl.inference = true;
  }
  impl.storage = source.storage();
  impl.pending = source->pending;
  impl.offset = source.offset();
  impl.dtype = source.dtype();
  impl.device = source.device();
  set_geometry(impl, source.sizes(), source.strides());
  if (tensor.is_sparse() || source.is_sparse()) [[unlikely]]
    share_parts(impl, *source.impl());
}

}  // namespace flambeau
