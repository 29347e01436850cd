// What torch::Tensor has that is no op; its ops are printed from the registry (flambeau/torch.h).
// What needs that class whole is below it, in tensor.h. An undefined tensor has no elements; what
// there is no answer to raises.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "flambeau/api/accessor.h"
#include "flambeau/api/op.h"
#include "flambeau/api/storage.h"
#include "flambeau/autograd/node.h"

namespace flambeau::torch {

class Tensor;
class DeprecatedTypeProperties;
enum class Backend : uint8_t;
struct TensorIndex;
using TensorList = ArrayRef<Tensor>;

// Converts to and from the tensor of the core, of which it is a handle as well. (`Tensor` alone is
// that one's name in here.)
class TensorBase : public flambeau::Tensor {
 public:
  TensorBase() = default;
  TensorBase(flambeau::Tensor tensor) : flambeau::Tensor(std::move(tensor)) {}  // NOLINT
  TensorBase(const TensorBase&) = default;
  TensorBase(TensorBase&&) = default;
  TensorBase& operator=(const TensorBase&) = default;
  TensorBase& operator=(TensorBase&&) = default;

  // --- Shape -------------------------------------------------------------------------------------
  [[nodiscard]] int64_t dim() const { return static_cast<int64_t>(sizes().size()); }
  [[nodiscard]] int64_t ndimension() const { return dim(); }
  [[nodiscard]] int64_t numel() const { return defined() ? impl()->numel : 0; }
  [[nodiscard]] IntArrayRef sizes() const { return defined() ? impl()->sizes : no_sizes(); }
  [[nodiscard]] IntArrayRef strides() const {
    return known("strides() called on an undefined Tensor").strides;
  }
  [[nodiscard]] IntArrayRef sym_sizes() const { return sizes(); }
  [[nodiscard]] IntArrayRef sym_strides() const { return strides(); }
  [[nodiscard]] int64_t size(int64_t dim) const {
    return defined() ? flambeau::Tensor::size(dim) : 0;
  }
  [[nodiscard]] int64_t sym_size(int64_t dim) const { return size(dim); }
  [[nodiscard]] int64_t sym_numel() const { return numel(); }
  [[nodiscard]] int64_t stride(int64_t dim) const {
    return static_cast<void>(strides()), flambeau::Tensor::stride(dim);
  }
  [[nodiscard]] int64_t storage_offset() const { return defined() ? impl()->offset : 0; }
  [[nodiscard]] bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return !defined() || flambeau::Tensor::is_contiguous(format);
  }
  [[nodiscard]] bool is_non_overlapping_and_dense() const;
  [[nodiscard]] MemoryFormat suggest_memory_format(bool exact = false) const;

  // --- Elements ----------------------------------------------------------------------------------
  [[nodiscard]] TypeMeta dtype() const { return defined() ? impl()->dtype : DType::Undefined; }
  [[nodiscard]] ScalarType scalar_type() const { return dtype(); }
  [[nodiscard]] size_t itemsize() const {
    return flambeau::item_size(
        known("Cannot report itemsize of Tensor that doesn't have initialized dtype").dtype);
  }
  [[nodiscard]] int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  [[nodiscard]] size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  [[nodiscard]] bool is_floating_point() const { return isFloatingType(dtype()); }
  [[nodiscard]] bool is_complex() const { return isComplexType(dtype()); }
  [[nodiscard]] bool is_signed() const { return isSignedType(dtype()); }
  [[nodiscard]] TensorOptions options() const;
  [[nodiscard]] const DeprecatedTypeProperties& type() const;
  [[nodiscard]] std::string toString() const;  // CPUFloatType

  [[nodiscard]] Device device() const { return known("tensor does not have a device").device; }
  [[nodiscard]] DeviceType device_type() const { return device().type(); }
  [[nodiscard]] DeviceIndex get_device() const { return device().index(); }
  [[nodiscard]] bool is_cpu() const { return is_on(kCPU); }
  [[nodiscard]] bool is_cuda() const { return is_on(kCUDA); }
  [[nodiscard]] bool is_meta() const { return is_on(kMeta); }
  [[nodiscard]] bool is_mps() const { return false; }
  [[nodiscard]] bool is_xla() const { return false; }
  [[nodiscard]] bool is_xpu() const { return false; }
  [[nodiscard]] bool is_hip() const { return false; }
  [[nodiscard]] bool is_vulkan() const { return false; }
  [[nodiscard]] bool is_mkldnn() const { return false; }
  [[nodiscard]] Layout layout() const { return defined() ? impl()->layout : Layout::Strided; }
  [[nodiscard]] bool is_sparse() const { return defined() && impl()->layout == Layout::Sparse; }
  [[nodiscard]] bool is_sparse_csr() const {
    return defined() && impl()->layout == Layout::SparseCsr;
  }
  [[nodiscard]] bool is_quantized() const { return false; }
  [[nodiscard]] bool is_nested() const { return false; }
  [[nodiscard]] bool is_inference() const { return defined() && impl()->inference; }
  [[nodiscard]] bool is_conj() const { return defined() && impl()->pending & Pending::conj; }
  [[nodiscard]] bool is_neg() const { return defined() && impl()->pending & Pending::neg; }

  [[nodiscard]] bool has_storage() const { return defined() && impl()->storage; }
  [[nodiscard]] Storage storage() const;
  [[nodiscard]] bool is_alias_of(const TensorBase& other) const {
    return storage().is_alias_of(other.storage());
  }
  [[nodiscard]] size_t use_count() const { return defined() ? impl()->use_count() : 0; }
  [[nodiscard]] TensorImpl* unsafeGetTensorImpl() const { return impl(); }
  [[nodiscard]] const IntrusivePtr<TensorImpl>& getIntrusivePtr() const { return ptr(); }

  [[nodiscard]] void* data_ptr() const {
    static_cast<void>(known("Cannot access data pointer of Tensor that doesn't have storage"));
    return raw();
  }
  [[nodiscard]] void* mutable_data_ptr() const { return data_ptr(); }
  [[nodiscard]] const void* const_data_ptr() const { return data_ptr(); }
  template <class T>
  [[nodiscard]] T* data_ptr() const {
    return static_cast<T*>(data_as(CppTypeToScalarType<std::remove_const_t<T>>::value));
  }
  template <class T>
  [[nodiscard]] T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  [[nodiscard]] const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  [[nodiscard]] T* data() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  [[nodiscard]] TensorAccessor<T, N> accessor() const {
    check_dims(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits,
            class index_t = int64_t>
  [[nodiscard]] GenericPackedTensorAccessor<T, N, PtrTraits, index_t> generic_packed_accessor()
      const {
    check_dims(N);
    if constexpr (sizeof(index_t) < 8) check_int_indices();
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits>
  [[nodiscard]] PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const {
    return generic_packed_accessor<T, N, PtrTraits, int32_t>();
  }
  template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits>
  [[nodiscard]] PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const {
    return generic_packed_accessor<T, N, PtrTraits, int64_t>();
  }
  template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits,
            class index_t = int64_t>
  [[nodiscard]] GenericPackedTensorAccessor<T, N, PtrTraits, index_t> packed_accessor() const {
    return generic_packed_accessor<T, N, PtrTraits, index_t>();
  }
  [[nodiscard]] Scalar item() const;
  template <class T>
  [[nodiscard]] T item() const {
    return item().template to<T>();
  }

  [[nodiscard]] torch::Tensor operator[](int64_t index) const;
  [[nodiscard]] torch::Tensor operator[](const Scalar& index) const;
  [[nodiscard]] torch::Tensor operator[](const TensorBase& index) const;
  [[nodiscard]] torch::Tensor index(ArrayRef<TensorIndex> indices) const;
  [[nodiscard]] torch::Tensor index(std::initializer_list<TensorIndex> indices) const;
  torch::Tensor& index_put_(ArrayRef<TensorIndex> indices, const Operand& values) const;
  torch::Tensor& index_put_(std::initializer_list<TensorIndex> indices,
                            const Operand& values) const;
  // Each dimension by a tensor; an undefined one stands for all of it.
  [[nodiscard]] torch::Tensor index(const ITensorListRef& indices) const;
  torch::Tensor& index_put_(const ITensorListRef& indices, const Operand& values,
                            bool accumulate = false) const;
  [[nodiscard]] torch::Tensor nonzero() const;
  [[nodiscard]] std::vector<torch::Tensor> nonzero_numpy() const;  // an index per dimension
  [[nodiscard]] torch::Tensor slice(int64_t dim = 0, std::optional<int64_t> start = {},
                                    std::optional<int64_t> end = {}, int64_t step = 1) const;

  // --- Elsewhere ---------------------------------------------------------------------------------
  using Format = std::optional<MemoryFormat>;
  [[nodiscard]] torch::Tensor to(const TensorOptions& options = {}, bool non_blocking = false,
                                 bool copy = false, Format format = {}) const;
  [[nodiscard]] torch::Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false,
                                 Format format = {}) const;
  [[nodiscard]] torch::Tensor to(TypeMeta dtype, bool non_blocking = false, bool copy = false,
                                 Format format = {}) const;
  [[nodiscard]] torch::Tensor to(const Device& device, ScalarType dtype, bool non_blocking = false,
                                 bool copy = false, Format format = {}) const;
  [[nodiscard]] torch::Tensor to(const TensorBase& other, bool non_blocking = false,
                                 bool copy = false, Format format = {}) const;
  [[nodiscard]] torch::Tensor to(std::optional<ScalarType> dtype, std::optional<Layout> layout,
                                 std::optional<Device> device, std::optional<bool> pin_memory,
                                 bool non_blocking, bool copy, Format format) const;
  [[nodiscard]] torch::Tensor toType(ScalarType dtype) const;
  [[nodiscard]] torch::Tensor toBackend(Backend backend) const;
  [[nodiscard]] torch::Tensor meta() const;
  [[nodiscard]] torch::Tensor pin_memory() const;
  [[nodiscard]] bool is_pinned() const;
  [[nodiscard]] torch::Tensor __and__(const Operand& other) const;
  [[nodiscard]] torch::Tensor __or__(const Operand& other) const;
  [[nodiscard]] torch::Tensor __xor__(const Operand& other) const;
  [[nodiscard]] torch::Tensor numpy_T() const;
  [[nodiscard]] torch::Tensor matrix_H() const;
  [[nodiscard]] torch::Tensor mT() const;  // of the last two dimensions
  [[nodiscard]] torch::Tensor mH() const;

  // --- Gradients ---------------------------------------------------------------------------------
  [[nodiscard]] bool requires_grad() const {
    return defined() && flambeau::Tensor::requires_grad();
  }
  const torch::Tensor& set_requires_grad(bool requires_grad) const;
  torch::Tensor& requires_grad_(bool requires_grad = true) const;
  [[nodiscard]] bool is_leaf() const;
  [[nodiscard]] const torch::Tensor& grad() const;  // undefined if there is none
  [[nodiscard]] torch::Tensor& mutable_grad() const;
  [[nodiscard]] IntrusivePtr<Node> grad_fn() const;
  [[nodiscard]] int64_t output_nr() const;
  [[nodiscard]] int64_t _version() const { return defined() ? version() : 0; }
  [[nodiscard]] bool is_view() const { return defined() && impl()->view_base; }
  [[nodiscard]] torch::Tensor _base() const;
  [[nodiscard]] std::string name() const { return {}; }
  void retain_grad() const;
  [[nodiscard]] bool retains_grad() const;
  // The hook is given the gradient, and may give another one for it.
  template <class Hook>
  unsigned register_hook(Hook&& hook) const;
  void remove_hook(unsigned key) const;
  // Takes over the values of another tensor, outside of what autograd watches.
  void set_data(const flambeau::Tensor& source) const;
  // The values without history.
  [[nodiscard]] torch::Tensor data() const;
  [[nodiscard]] torch::Tensor variable_data() const;
  [[nodiscard]] torch::Tensor tensor_data() const;
  // Adds the gradients of this tensor to those of the leaves it was computed from, or of `inputs`.
  void backward(const OptionalTensor& gradient = {}, std::optional<bool> retain_graph = {},
                bool create_graph = false, std::optional<TensorList> inputs = {}) const;

  void print() const;

  // Raises where nothing can be asked about gradients.
  void with_autograd() const {
    static_cast<void>(known("cannot call get_autograd_meta() on undefined tensor"));
  }

 private:
  static IntSpan no_sizes();
  // The tensor, or an error that says what was asked of an undefined one.
  [[nodiscard]] const TensorImpl& known(const char* what) const {
    if (!defined()) [[unlikely]]
      refuse(what);
    return *impl();
  }
  [[noreturn]] static void refuse(const char* what);
  [[nodiscard]] bool is_on(DeviceType type) const {
    return defined() && impl()->device.type == type;
  }
  [[nodiscard]] void* data_as(ScalarType dtype) const;
  void check_dims(size_t dims) const;
  void check_int_indices() const;
};

namespace detail {

// What members that give a tensor of the printed class are made of.
flambeau::Tensor convert(const TensorBase& tensor, const TensorOptions& options, bool copy,
                         std::optional<MemoryFormat> format);
flambeau::Tensor pick(const TensorBase& tensor, ArrayRef<TensorIndex> indices);
void put(const TensorBase& tensor, ArrayRef<TensorIndex> indices, const Operand& values);
flambeau::Tensor pick(const TensorBase& tensor, const ITensorListRef& indices);
void put(const TensorBase& tensor, const ITensorListRef& indices, const Operand& values,
         bool accumulate);
const flambeau::Tensor& gradient_of(const TensorBase& tensor);
flambeau::Tensor& mutable_gradient_of(const TensorBase& tensor);
flambeau::Tensor pinned(const TensorBase& tensor);
flambeau::Tensor base_of(const TensorBase& tensor);
flambeau::Tensor without_history(const TensorBase& tensor, bool shares_version);
void want_gradient(const TensorBase& tensor, bool wants);
void zero_gradient(const flambeau::Tensor& tensor, bool set_to_none);
unsigned add_hook(const TensorBase& tensor,
                  std::function<flambeau::Tensor(const flambeau::Tensor&)> hook);
// Accumulates into `inputs`, or all leaves without any, or gives the gradients of the inputs back.
std::vector<flambeau::Tensor> run_backward(const std::vector<flambeau::Tensor>& outputs,
                                           const std::vector<flambeau::Tensor>& grads,
                                           const std::vector<flambeau::Tensor>* inputs,
                                           std::optional<bool> retain_graph, bool create_graph,
                                           bool accumulate = true, bool allow_unused = false);
Scalar item_of(const TensorBase& tensor);
int64_t index_from(const Scalar& index);
int64_t index_from(const TensorBase& index);

std::vector<Tensor> list(std::vector<flambeau::Tensor> tensors);
template <class Tuple>
Tuple tuple(std::vector<flambeau::Tensor> tensors) {
  return [&]<size_t... I>(std::index_sequence<I...>) { return Tuple(std::move(tensors.at(I))...); }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
}
Tensor& written(const flambeau::Tensor& tensor);  // as in-place forms give what they wrote to

}  // namespace detail
}  // namespace flambeau::torch
