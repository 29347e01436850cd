#include "flambeau/tensor/sparse.h"

#include "flambeau/base/check.h"
#include "flambeau/tensor/batched.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

const SparseParts& parts_of(const Tensor& sparse) {
  CHECK(sparse.defined() && sparse->parts, RuntimeError, "expected a sparse tensor, but got {}",
        sparse.defined() ? "a dense one" : "none");
  return *sparse->parts;
}

void DeleteParts::operator()(SparseParts* parts) const { delete parts; }

namespace {

Tensor sparse_over(Layout layout, const Tensor& values, IntSpan size) {
  checked_numel(size);
  Tensor tensor = make_tensor({0}, values.dtype(), values.device());
  TensorImpl& impl = *tensor.impl();
  set_geometry(impl, size, Dims(size.size(), 0));
  impl.contiguous = false;
  impl.layout = layout;
  impl.pending = Pending::sparse;
  impl.parts.reset(new SparseParts);
  return tensor;
}

// Parts have no history of their own, and keep their sizes when the tensor that they were given by
// is resized: there must stay as many values as indices.
Tensor plain_part(const Tensor& part) { return make_alias(part); }

}  // namespace

Tensor (*detach_wrapped)(const Tensor& wrapped) = nullptr;

Tensor make_wrapped(IntSpan sizes, IntSpan strides, int64_t offset, DType dtype, Device device) {
  checked_numel(sizes);
  Tensor tensor = make_tensor({0}, dtype, device);
  TensorImpl& impl = *tensor.impl();
  set_geometry(impl, sizes, strides);
  impl.offset = offset;
  impl.pending = Pending::sparse | Dispatched::mark;
  return tensor;
}

Tensor make_coo(const Tensor& indices, const Tensor& values, IntSpan size, bool coalesced) {
  Tensor tensor = sparse_over(Layout::sparse_coo, values, size);
  const bool single = values.size(0) < 2;  // has nothing to put in order
  *tensor->parts = {plain_part(indices), {}, plain_part(values), coalesced || single};
  return tensor;
}

Tensor make_compressed(Layout layout, const Tensor& starts, const Tensor& plain,
                       const Tensor& values, IntSpan size) {
  Tensor tensor = sparse_over(layout, values, size);
  *tensor->parts = {plain_part(starts), plain_part(plain), plain_part(values), true};
  return tensor;
}

void share_parts(TensorImpl& to, const TensorImpl& from) {
  to.layout = from.layout;
  to.pending = from.pending;
  to.contiguous = from.contiguous;
  to.parts.reset(from.parts ? new SparseParts(*from.parts) : nullptr);
}

void assign_sparse(const Tensor& tensor, const Tensor& source) {
  TensorImpl& impl = *tensor.impl();
  set_geometry(impl, source.sizes(), source.strides());
  impl.dtype = source.dtype();
  impl.device = source.device();
  share_parts(impl, *source.impl());
}

int64_t sparse_dim(const Tensor& tensor) {
  if (!tensor.is_sparse()) return 0;
  return is_coo(tensor) ? parts_of(tensor).indices.size(0) : 2;
}

int64_t dense_dim(const Tensor& tensor) {
  if (!tensor.is_sparse()) return tensor.dim();
  const SparseParts& parts = parts_of(tensor);
  if (is_coo(tensor)) return parts.values.dim() - 1;
  const int64_t batch = parts.indices.dim() - 1;
  return tensor.dim() - 2 - batch;
}

int64_t stored_count(const Tensor& sparse) {
  const SparseParts& parts = parts_of(sparse);
  return is_coo(sparse) ? parts.values.size(0) : parts.plain.size(-1);
}

void check_has_storage(const Tensor& tensor) {
  CHECK(!tensor.is_sparse(), RuntimeError,
        "Cannot access data pointer of Tensor that doesn't have storage");
}

void check_strided(const char* what, const Tensor& tensor) {
  constexpr const char* names[] = {"CSR", "CSC", "BSR", "BSC"};
  CHECK(!is_compressed(tensor), RuntimeError, "Sparse {} tensors do not have {}",
        names[static_cast<int>(tensor.layout()) - 2], what);
}

const char* layout_word(Layout layout) {
  constexpr const char* words[] = {"Strided",   "Sparse",    "SparseCsr",
                                   "SparseCsc", "SparseBsr", "SparseBsc"};
  return words[static_cast<int>(layout)];
}

std::string sparse_refusal(std::string_view op, const Tensor& tensor) {
  if (tensor->pending & Pending::batched) {
    return "vmap: " + std::string(op) +
           " reads the values of a sample, of which a function inside vmap has none: it sees the "
           "samples of a batch as one tensor.";
  }
  if (is_wrapped(tensor)) {
    return "Could not run 'aten::" + std::string(op) +
           "' on a tensor that has no values of its own: the class that wraps them answers for ops "
           "by __torch_dispatch__, which was not asked here.";
  }
  const char* kind = is_coo(tensor) ? "Sparse" : "SparseCsr";
  const char* device = tensor.device().is_cuda()   ? "CUDA"
                       : tensor.device().is_meta() ? "Meta"
                                                   : "CPU";
  return "Could not run 'aten::" + std::string(op) + "' with arguments from the '" + kind + device +
         "' backend. The op is not implemented for tensors of this layout; Tensor.to_dense() makes "
         "a dense one.";
}

void refuse_sparse(std::string_view op, const Tensor& tensor) {
  CHECK(!is_batched(tensor), SampleError, "{}", sparse_refusal(op, tensor));
  fail<NotImplementedError>("{}", sparse_refusal(op, tensor));
}

}  // namespace flambeau
