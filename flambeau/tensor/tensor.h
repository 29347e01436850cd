// Tensor: a handle to {storage, offset, sizes, strides, dtype} and, where somebody asked for
// gradients, autograd's record. Copying a handle shares the tensor; ops are free functions (see
// ops/ops.h). Nothing here computes.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "flambeau/base/intrusive_ptr.h"
#include "flambeau/tensor/device.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/int_span.h"
#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/storage.h"

namespace flambeau {

class Tensor;
struct TensorImpl;

enum class MemoryFormat : uint8_t {
  contiguous,
  preserve,
  channels_last,
  channels_last_3d,
  // As C++ programs call them.
  Contiguous = contiguous,
  Preserve = preserve,
  ChannelsLast = channels_last,
  ChannelsLast3d = channels_last_3d
};
enum class Layout : uint8_t {
  strided,
  sparse_coo,
  sparse_csr,
  sparse_csc,
  sparse_bsr,
  sparse_bsc,
  Strided = strided,
  Sparse = sparse_coo,
  SparseCsr = sparse_csr,
  SparseCsc = sparse_csc,
  SparseBsr = sparse_bsr,
  SparseBsc = sparse_bsc
};

// Counts writes. Shared by a tensor and its views, so that autograd notices when a value that it
// saved has been overwritten, and can say by whom.
struct VersionCounter : RefCounted {
  std::atomic<uint32_t> version{0};
  std::atomic<const char*> writer{nullptr};
};

// What autograd hangs on a tensor; defined one layer up (autograd/meta.h).
struct AutogradBase {
  virtual ~AutogradBase() = default;
};

// How a view came to be, which decides whether a write through it may be recorded.
enum class ViewOrigin : uint8_t { normal, no_grad, multiple_outputs, custom_function, inference };

// What a tensor's values still need to have done to what lies in memory, as bits.
struct Pending {
  static constexpr uint8_t nothing = 0, conj = 1, neg = 2;
  static constexpr uint8_t sparse = 4;      // nothing lies in the storage: see tensor/sparse.h
  static constexpr uint8_t misaligned = 8;  // see Note [Misaligned elements]
  static constexpr uint8_t batched = 16;    // the samples of a batch: see tensor/batched.h
  static constexpr uint8_t valueless = sparse | batched;
  static constexpr uint8_t layered = batched;  // a layer answers for it: see ops/redirect.h
  // What a copy does away with.
  static constexpr uint8_t resolvable = conj | neg | misaligned;
};

// What a sparse tensor is made of (tensor/sparse.h).
struct SparseParts;
struct DeleteParts {
  void operator()(SparseParts* parts) const;
};

struct TensorImpl : RefCounted {
  StoragePtr storage;
  int64_t offset = 0;  // in elements
  int64_t numel = 0;
  Dims sizes;
  Dims strides;
  DType dtype = DType::float32;
  Device device;
  bool contiguous = true;
  bool requires_grad = false;  // a leaf that wants a gradient, or a result with history
  bool inference = false;      // made in inference mode: no version, no history
  uint8_t pending = Pending::nothing;
  Layout layout = Layout::strided;
  ViewOrigin view_origin = ViewOrigin::normal;
  uint8_t level = 0;                     // of a batched tensor: see tensor/batched.h
  uint32_t view_version = 0;             // of a view: the version its history describes
  IntrusivePtr<VersionCounter> version;  // made when first needed
  IntrusivePtr<TensorImpl> view_base;    // the tensor whose history this view belongs to
  std::unique_ptr<AutogradBase> autograd;
  std::unique_ptr<SparseParts, DeleteParts> parts;  // of a sparse tensor
  IntrusivePtr<TensorImpl> behind;                  // of a batched tensor: all samples
  // The one Python object of this tensor. Borrowed, unless the object outlived its last Python
  // reference because it carries state (attributes, a subclass): then the tensor owns it.
  void* python = nullptr;
  bool owns_python = false;

  TensorImpl() = default;
  ~TensorImpl();
  static void destroy(TensorImpl* impl);
};

// In inference mode new tensors are marked: they never take part in a graph. Set with the mode.
inline thread_local constinit bool making_inference_tensors = false;

// Called when a tensor that owns its Python object dies; set by the binding.
extern void (*release_python_object)(void* object);

// Raises NotImplementedError: `op` has no form for tensors of this layout.
[[noreturn, gnu::cold]] void refuse_sparse(std::string_view op, const Tensor& tensor);

// Raises RuntimeError: a kernel reads elements of another dtype than the tensor has.
[[noreturn, gnu::cold]] void refuse_elements(DType wanted, const Tensor& tensor);

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}

  [[nodiscard]] bool defined() const { return static_cast<bool>(impl_); }
  [[nodiscard]] bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  [[nodiscard]] TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* operator->() const { return impl_.get(); }
  [[nodiscard]] IntrusivePtr<TensorImpl>& ptr() { return impl_; }
  [[nodiscard]] const IntrusivePtr<TensorImpl>& ptr() const { return impl_; }
  void reset() { impl_ = nullptr; }

  [[nodiscard]] int64_t dim() const { return static_cast<int64_t>(impl_->sizes.size()); }
  [[nodiscard]] IntSpan sizes() const { return impl_->sizes; }
  [[nodiscard]] IntSpan strides() const { return impl_->strides; }
  [[nodiscard]] int64_t size(int64_t dim) const;    // negative dims count from the end
  [[nodiscard]] int64_t stride(int64_t dim) const;  // likewise
  [[nodiscard]] int64_t numel() const { return impl_->numel; }
  [[nodiscard]] int64_t offset() const { return impl_->offset; }
  [[nodiscard]] DType dtype() const { return impl_->dtype; }
  [[nodiscard]] Device device() const { return impl_->device; }
  [[nodiscard]] DeviceType device_type() const { return impl_->device.type; }
  [[nodiscard]] size_t item_size() const { return flambeau::item_size(impl_->dtype); }
  [[nodiscard]] const StoragePtr& storage() const { return impl_->storage; }
  [[nodiscard]] bool is_contiguous() const { return impl_->contiguous; }
  [[nodiscard]] bool is_contiguous(MemoryFormat format) const;
  [[nodiscard]] Layout layout() const { return impl_->layout; }
  [[nodiscard]] bool is_sparse() const { return impl_->pending & Pending::sparse; }  // any layout
  [[nodiscard]] bool is_complex() const { return flambeau::is_complex(impl_->dtype); }
  [[nodiscard]] bool is_floating() const { return flambeau::is_floating(impl_->dtype); }
  [[nodiscard]] bool requires_grad() const {
    return impl_->requires_grad || (impl_->view_base && impl_->view_base->requires_grad);
  }

  // The first element; null for meta tensors. Sparse and batched tensors have none, and nor has one
  // whose storage was resized to nothing: they raise.
  [[nodiscard]] void* raw() const {
    if (!impl_->storage) [[unlikely]]
      refuse_sparse("raw", *this);
    char* base = static_cast<char*>(impl_->storage->data());
    if (!base) [[unlikely]]
      return without_memory();
    // In words that may wrap: a tensor of no elements can have any offset.
    const uint64_t bytes = static_cast<uint64_t>(impl_->offset) * item_size();
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) + bytes);
  }
  // The same, as elements of type T: those of its dtype, or integers of their size for kernels that
  // only move them. A kernel that is given another dtype than it reads raises here.
  template <class T>
  [[nodiscard]] T* data() const {
    if (!readable_as<T>.has(dtype())) [[unlikely]]
      refuse_elements(dtype_of<T>, *this);
    return static_cast<T*>(raw());
  }

  [[nodiscard]] uint32_t version() const {
    return impl_->version ? impl_->version->version.load(std::memory_order_relaxed) : 0;
  }
  // Says that `op` has overwritten the data. Every in-place op calls this once.
  void bump_version(const char* op) const;
  // The counter itself, for views and saved values to share.
  [[nodiscard]] const IntrusivePtr<VersionCounter>& shared_version() const;

 private:
  void* without_memory() const;  // null, or an error if there are elements
  IntrusivePtr<TensorImpl> impl_;
};

// --- Making tensors (no autograd, uninitialised) ---------------------------------------------

// A new contiguous tensor. Sizes must be non-negative; the byte count is checked arithmetic.
Tensor make_tensor(IntSpan sizes, DType dtype, Device device);
// The same with the given strides (in elements, non-negative); storage covers what they reach.
Tensor make_strided(IntSpan sizes, IntSpan strides, DType dtype, Device device);
// A tensor over given storage; sizes, strides and offset must stay inside it (checked).
Tensor make_over(StoragePtr storage, IntSpan sizes, IntSpan strides, int64_t offset, DType dtype);
// Another window on the storage of `base`. Shares its version counter; no history. Not checked:
// callers compute geometry from a valid tensor. A sparse tensor has no other window than itself.
Tensor make_alias(const Tensor& base, IntSpan sizes, IntSpan strides, int64_t offset);
inline Tensor make_alias(const Tensor& base) {
  return make_alias(base, base.sizes(), base.strides(), base.offset());
}
StoragePtr make_storage(size_t bytes, Device device);
// Resizes in place, growing the storage when needed. Used by out= and resize_.
void resize_tensor(const Tensor& tensor, IntSpan sizes, IntSpan strides);

void set_geometry(TensorImpl& impl, IntSpan sizes, IntSpan strides);  // and numel, contiguous

}  // namespace flambeau
