#include "flambeau/tensor/tensor.h"

#include <algorithm>

#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

void (*release_python_object)(void* object) = nullptr;

TensorImpl::~TensorImpl() = default;

void TensorImpl::destroy(TensorImpl* impl) {
  if (impl->owns_python) {
    release_python_object(impl->python);
    if (!impl->owns_python) return;  // Python still needs it
  }
  delete impl;
}

int64_t Tensor::size(int64_t dim) const {
  CHECK(this->dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions", dim);
  return impl_->sizes[wrap_dim(dim, this->dim())];
}

int64_t Tensor::stride(int64_t dim) const {
  CHECK(this->dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions", dim);
  return impl_->strides[wrap_dim(dim, this->dim())];
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  switch (format) {
    case MemoryFormat::channels_last: {
      if (dim() != 4) return false;
      int64_t step = 1;
      for (const int d : {1, 3, 2, 0}) {
        if (impl_->sizes[d] != 1) {
          if (impl_->strides[d] != step) return numel() == 0;
          step *= impl_->sizes[d];
        }
      }
      return true;
    }
    case MemoryFormat::channels_last_3d: {
      if (dim() != 5) return false;
      int64_t step = 1;
      for (const int d : {1, 4, 3, 2, 0}) {
        if (impl_->sizes[d] != 1) {
          if (impl_->strides[d] != step) return numel() == 0;
          step *= impl_->sizes[d];
        }
      }
      return true;
    }
    default: return impl_->contiguous;
  }
}

const IntrusivePtr<VersionCounter>& Tensor::shared_version() const {
  if (!impl_->version) impl_->version = make_intrusive<VersionCounter>();
  return impl_->version;
}

void Tensor::bump_version(const char* op) const {
  if (impl_->inference && !impl_->version) [[unlikely]] {  // the write has been done
    CHECK(making_inference_tensors, RuntimeError,
          "{}: Inplace update to inference tensor outside InferenceMode is not allowed. You can "
          "make a clone to get a normal tensor before doing inplace update.",
          op);
    return;
  }
  const auto& counter = shared_version();
  counter->version.fetch_add(1, std::memory_order_relaxed);
  counter->writer.store(op, std::memory_order_relaxed);
}

void* Tensor::without_memory() const {
  if (impl_->pending & Pending::batched) refuse_sparse("data", *this);
  CHECK(numel() == 0 || device().is_meta(), RuntimeError,
        "The tensor of shape {} has a non-zero number of elements, but its data is not allocated: "
        "its storage was resized to 0 bytes",
        sizes());
  return nullptr;
}

void refuse_elements(DType wanted, const Tensor& tensor) {
  fail<RuntimeError>("expected scalar type {} but found {}, in a tensor of shape {}",
                     dtype_legacy_name(wanted), dtype_legacy_name(tensor.dtype()), tensor.sizes());
}

void set_geometry(TensorImpl& impl, IntSpan sizes, IntSpan strides) {
  impl.sizes = sizes.dims();
  impl.strides = strides.dims();  // from here on, for the spans may have been of its own
  uint64_t numel = 1;             // wraps only on the way to a size of zero: others were checked
  for (const int64_t size : impl.sizes) numel *= static_cast<uint64_t>(size);
  impl.numel = static_cast<int64_t>(numel);
  impl.contiguous = is_contiguous_geometry(impl.sizes, impl.strides);
}

StoragePtr make_storage(size_t bytes, Device device) {
  Allocator& owner = allocator(device.type);
  if (device.is_cuda() && device.index < 0) {
    device.index = static_cast<int8_t>(device_runtime(device.type).current_device());
  }
  if (device.is_cpu()) device.index = -1;  // there is one: cpu:0 is cpu
  return make_intrusive<Storage>(bytes, device, owner);
}

namespace {

void check_rank(IntSpan sizes) {
  CHECK(sizes.size() <= max_dims, RuntimeError, "a tensor can have at most {} dimensions, got {}",
        max_dims, sizes.size());
}

Tensor tensor_on(StoragePtr storage, DType dtype) {
  Tensor tensor(make_intrusive<TensorImpl>());
  tensor->device = storage->device();
  tensor->storage = std::move(storage);
  tensor->dtype = dtype;
  tensor->inference = making_inference_tensors;
  return tensor;
}

}  // namespace

Tensor make_tensor(IntSpan sizes, DType dtype, Device device) {
  check_rank(sizes);
  const size_t bytes = checked_bytes(sizes, dtype);
  Tensor tensor = tensor_on(make_storage(bytes, device), dtype);
  TensorImpl& impl = *tensor.impl();
  impl.sizes = sizes.dims();
  impl.strides.resize(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    impl.strides[i] = step;
    CHECK(!__builtin_mul_overflow(step, std::max<int64_t>(sizes[i], 1), &step), RuntimeError,
          "Stride calculation overflowed with sizes {}", sizes);
  }
  impl.numel = static_cast<int64_t>(bytes / item_size(dtype));
  return tensor;
}

Tensor make_strided(IntSpan sizes, IntSpan strides, DType dtype, Device device) {
  check_rank(sizes);
  CHECK(sizes.size() == strides.size(), RuntimeError,
        "dimensionality of sizes ({}) must match dimensionality of strides ({})", sizes.size(),
        strides.size());
  checked_numel(sizes);
  for (const int64_t stride : strides) {
    CHECK(stride >= 0, RuntimeError, "negative strides are not supported, got strides {}", strides);
  }
  const size_t bytes = checked_bytes(storage_extent(sizes, strides), dtype);
  Tensor tensor = tensor_on(make_storage(bytes, device), dtype);
  set_geometry(*tensor.impl(), sizes, strides);
  return tensor;
}

Tensor make_over(StoragePtr storage, IntSpan sizes, IntSpan strides, int64_t offset, DType dtype) {
  check_rank(sizes);
  CHECK(sizes.size() == strides.size(), RuntimeError,
        "mismatch in length of strides and shape: {} and {}", strides, sizes);
  checked_numel(sizes);
  CHECK(offset >= 0, RuntimeError, "Tensor: invalid storage offset {}", offset);
  for (const int64_t stride : strides) {
    CHECK(stride >= 0, RuntimeError,
          "as_strided: Negative strides are not supported at the moment, got strides: {}", strides);
  }
  const int64_t extent = storage_extent(sizes, strides);
  const size_t have = storage->bytes();
  int64_t last = 0, need = 0;
  const bool overflow = __builtin_add_overflow(extent, offset, &last) ||
                        __builtin_mul_overflow(last, static_cast<int64_t>(item_size(dtype)), &need);
  CHECK(extent == 0 || (!overflow && static_cast<size_t>(need) <= have), RuntimeError,
        "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage "
        "size of {} are out of bounds for storage of size {}",
        sizes, strides, offset, item_size(dtype),
        overflow ? std::string("too many") : to_text(need), have);
  Tensor tensor = tensor_on(std::move(storage), dtype);
  tensor->offset = offset;
  set_geometry(*tensor.impl(), sizes, strides);
  return tensor;
}

// Writes to the one are writes to the other.
static Tensor shared_counter(Tensor alias, const Tensor& base) {
  if (!base->inference) alias->version = base.shared_version();
  return alias;
}

Tensor make_alias(const Tensor& base, IntSpan sizes, IntSpan strides, int64_t offset) {
  if (base->pending & Pending::valueless) [[unlikely]] {
    if (base->pending & Pending::batched) refuse_sparse("as_strided", base);
    if (is_wrapped(base) && sizes == base.sizes() && strides == base.strides())
      return shared_counter(detach_wrapped(base), base);
    CHECK(sizes == base.sizes() && !is_wrapped(base), NotImplementedError, "{}",
          sparse_refusal("as_strided", base));
  }
  Tensor tensor(make_intrusive<TensorImpl>());
  TensorImpl& impl = *tensor.impl();
  impl.storage = base.storage();
  impl.device = base.device();
  impl.dtype = base.dtype();
  impl.offset = offset;
  impl.inference = base->inference;
  impl.pending = base->pending & ~Dispatched::mark;
  set_geometry(impl, sizes, strides);
  if (base->parts) [[unlikely]]
    share_parts(impl, *base.impl());
  if (!base->inference) impl.version = base.shared_version();
  return tensor;
}

void resize_tensor(const Tensor& tensor, IntSpan sizes, IntSpan strides) {
  if (tensor->pending & Pending::valueless) [[unlikely]]
    refuse_sparse("resize_", tensor);
  check_rank(sizes);
  checked_bytes(sizes, tensor.dtype());
  for (const int64_t stride : strides)  // contiguous_strides() ends there where it overflows
    CHECK(stride != INT64_MAX, RuntimeError, "Stride calculation overflowed with sizes {}", sizes);
  if (checked_numel(sizes) > 0) {
    int64_t extent = 0;
    CHECK(!__builtin_add_overflow(storage_extent(sizes, strides), tensor.offset(), &extent),
          RuntimeError, "resize_: sizes {} at offset {} are too large", sizes, tensor.offset());
    const size_t need = checked_bytes(extent, tensor.dtype());
    if (need > tensor.storage()->bytes()) tensor.storage()->resize(need);
  }
  set_geometry(*tensor.impl(), sizes, strides);
}

}  // namespace flambeau
