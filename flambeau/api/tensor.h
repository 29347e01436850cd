// What stands behind the class of the printed header (flambeau/torch.h), which includes this:
// members that need it whole, and operators.
#pragma once

#include <iterator>

#include "flambeau/api/check_macros.h"
#include "flambeau/api/context.h"
#include "flambeau/api/dispatch.h"
#include "flambeau/api/factories.h"
#include "flambeau/api/guards.h"
#include "flambeau/api/indexing.h"
#include "flambeau/api/irange.h"
#include "flambeau/api/printing.h"
#include "flambeau/api/tensor_type.h"
#include "flambeau/torch.h"

namespace flambeau::torch {
namespace detail {

inline std::vector<Tensor> list(std::vector<flambeau::Tensor> tensors) {
  return {std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())};
}
// A tensor of the printed class is one of the core, and nothing more.
inline Tensor& written(const flambeau::Tensor& tensor) {
  return const_cast<Tensor&>(static_cast<const Tensor&>(tensor));
}

}  // namespace detail

inline Tensor TensorBase::operator[](int64_t index) const {
  return static_cast<const torch::Tensor*>(this)->select(0, index);
}
inline torch::Tensor TensorBase::operator[](const Scalar& index) const {
  return (*this)[detail::index_from(index)];
}
inline torch::Tensor TensorBase::operator[](const TensorBase& index) const {
  return (*this)[detail::index_from(index)];
}
inline torch::Tensor TensorBase::index(ArrayRef<TensorIndex> indices) const {
  return detail::pick(*this, indices);
}
inline torch::Tensor TensorBase::index(std::initializer_list<TensorIndex> indices) const {
  return detail::pick(*this, indices);
}
inline torch::Tensor& TensorBase::index_put_(ArrayRef<TensorIndex> indices,
                                             const Operand& values) const {
  return detail::put(*this, indices, values), detail::written(*this);
}
inline torch::Tensor& TensorBase::index_put_(std::initializer_list<TensorIndex> indices,
                                             const Operand& values) const {
  return detail::put(*this, indices, values), detail::written(*this);
}
inline torch::Tensor TensorBase::index(const ITensorListRef& indices) const {
  return detail::pick(*this, indices);
}
inline torch::Tensor& TensorBase::index_put_(const ITensorListRef& indices, const Operand& values,
                                             bool accumulate) const {
  return detail::put(*this, indices, values, accumulate), detail::written(*this);
}
inline torch::Tensor TensorBase::slice(int64_t dim, std::optional<int64_t> start,
                                       std::optional<int64_t> end, int64_t step) const {
  return _slice(*static_cast<const torch::Tensor*>(this), dim, start, end, step);
}
inline torch::Tensor TensorBase::nonzero() const {
  return static_cast<const torch::Tensor*>(this)->argwhere();
}
inline std::vector<torch::Tensor> TensorBase::nonzero_numpy() const {
  return where(*static_cast<const torch::Tensor*>(this));
}
inline Scalar TensorBase::item() const { return detail::item_of(*this); }

inline torch::Tensor TensorBase::to(const TensorOptions& options, bool, bool copy,
                                    Format format) const {
  return detail::convert(*this, options, copy, format);
}
inline torch::Tensor TensorBase::to(ScalarType dtype, bool, bool copy, Format format) const {
  return detail::convert(*this, dtype, copy, format);
}
inline torch::Tensor TensorBase::to(TypeMeta dtype, bool, bool copy, Format format) const {
  return detail::convert(*this, dtype, copy, format);
}
inline torch::Tensor TensorBase::to(const torch::Device& device, ScalarType dtype, bool, bool copy,
                                    Format format) const {
  return detail::convert(*this, TensorOptions(device).dtype(dtype), copy, format);
}
inline torch::Tensor TensorBase::to(const TensorBase& other, bool, bool copy, Format format) const {
  return detail::convert(*this, other.options(), copy, format);
}
inline torch::Tensor TensorBase::to(std::optional<ScalarType> dtype, std::optional<Layout> layout,
                                    std::optional<torch::Device> device,
                                    std::optional<bool> pin_memory, bool, bool copy,
                                    Format format) const {
  TensorOptions options = TensorOptions().dtype(dtype).layout(layout).pinned_memory(pin_memory);
  if (device) options.set_device(*device);
  return detail::convert(*this, options, copy, format);
}
inline torch::Tensor TensorBase::toType(ScalarType dtype) const { return to(dtype); }
inline torch::Tensor TensorBase::toBackend(Backend backend) const {
  return to(backendToDeviceType(backend));
}
inline torch::Tensor TensorBase::meta() const { return to(kMeta); }
inline torch::Tensor TensorBase::pin_memory() const { return detail::pinned(*this); }
inline torch::Tensor TensorBase::__and__(const Operand& other) const {
  return static_cast<const torch::Tensor*>(this)->bitwise_and(other);
}
inline torch::Tensor TensorBase::__or__(const Operand& other) const {
  return static_cast<const torch::Tensor*>(this)->bitwise_or(other);
}
inline torch::Tensor TensorBase::__xor__(const Operand& other) const {
  return static_cast<const torch::Tensor*>(this)->bitwise_xor(other);
}
inline torch::Tensor TensorBase::numpy_T() const {
  std::vector<int64_t> dims;
  for (int64_t i = dim(); i-- > 0;) dims.push_back(i);
  return static_cast<const torch::Tensor*>(this)->permute(dims);
}
inline torch::Tensor TensorBase::matrix_H() const {
  return static_cast<const torch::Tensor*>(this)->adjoint();
}
inline torch::Tensor TensorBase::mT() const {
  return static_cast<const torch::Tensor*>(this)->transpose(-2, -1);
}
inline torch::Tensor TensorBase::mH() const {
  return static_cast<const torch::Tensor*>(this)->adjoint();
}

inline const torch::Tensor& TensorBase::set_requires_grad(bool requires_grad) const {
  return requires_grad_(requires_grad);
}
inline torch::Tensor& TensorBase::requires_grad_(bool requires_grad) const {
  return detail::want_gradient(*this, requires_grad), detail::written(*this);
}
inline const torch::Tensor& TensorBase::grad() const {
  return detail::written(detail::gradient_of(*this));
}
inline torch::Tensor& TensorBase::mutable_grad() const {
  return detail::written(detail::mutable_gradient_of(*this));
}
inline torch::Tensor TensorBase::_base() const { return detail::base_of(*this); }
inline torch::Tensor TensorBase::data() const { return detail::without_history(*this, false); }
inline torch::Tensor TensorBase::variable_data() const { return data(); }
inline torch::Tensor TensorBase::tensor_data() const {
  return detail::without_history(*this, true);
}
template <class Hook>
unsigned TensorBase::register_hook(Hook&& hook) const {
  return detail::add_hook(*this,
                          [hook = std::forward<Hook>(hook)](
                              const flambeau::Tensor& gradient) mutable -> flambeau::Tensor {
                            if constexpr (std::is_void_v<decltype(hook(torch::Tensor(gradient)))>) {
                              return hook(torch::Tensor(gradient)), flambeau::Tensor();
                            } else {
                              return hook(torch::Tensor(gradient));
                            }
                          });
}
inline void TensorBase::backward(const OptionalTensor& gradient, std::optional<bool> retain_graph,
                                 bool create_graph, std::optional<TensorList> inputs) const {
  std::vector<flambeau::Tensor> leaves;
  if (inputs) leaves.assign(inputs->begin(), inputs->end());
  with_autograd();
  detail::run_backward({*this}, {gradient.get()}, inputs ? &leaves : nullptr, retain_graph,
                       create_graph);
}

inline torch::Tensor Generator::get_state() const { return detail::state_of(*this); }

inline Tensor operator-(const Tensor& a) { return a.neg(); }
inline Tensor operator~(const Tensor& a) { return a.bitwise_not(); }
// The number of `3 < x` and the like stands on the other side.
#define FLAMBEAU_OPERATOR(symbol, name, reflected)                                       \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { return name(a, b); } \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return reflected; }
#define FLAMBEAU_IN_PLACE(symbol, name)                                                  \
  inline Tensor& operator symbol(const Tensor& a, const Tensor& b) { return a.name(b); } \
  inline Tensor& operator symbol(const Tensor& a, const Scalar& b) { return a.name(b); }
FLAMBEAU_OPERATOR(+, add, add(a, b))
FLAMBEAU_OPERATOR(-, sub, sub(a, b))
FLAMBEAU_OPERATOR(*, mul, mul(a, b))
FLAMBEAU_OPERATOR(/, div, div(a, b))
FLAMBEAU_OPERATOR(%, remainder, remainder(a, b))
FLAMBEAU_OPERATOR(&, bitwise_and, bitwise_and(b, a))
FLAMBEAU_OPERATOR(|, bitwise_or, bitwise_or(b, a))
FLAMBEAU_OPERATOR(^, bitwise_xor, bitwise_xor(b, a))
FLAMBEAU_OPERATOR(<, lt, gt(b, a))
FLAMBEAU_OPERATOR(<=, le, ge(b, a))
FLAMBEAU_OPERATOR(>, gt, lt(b, a))
FLAMBEAU_OPERATOR(>=, ge, le(b, a))
FLAMBEAU_OPERATOR(==, eq, eq(b, a))
FLAMBEAU_OPERATOR(!=, ne, ne(b, a))
FLAMBEAU_IN_PLACE(+=, add_)
FLAMBEAU_IN_PLACE(-=, sub_)
FLAMBEAU_IN_PLACE(*=, mul_)
FLAMBEAU_IN_PLACE(/=, div_)
FLAMBEAU_IN_PLACE(&=, bitwise_and_)
FLAMBEAU_IN_PLACE(|=, bitwise_or_)
FLAMBEAU_IN_PLACE(^=, bitwise_xor_)
#undef FLAMBEAU_OPERATOR
#undef FLAMBEAU_IN_PLACE

inline Tensor tensor(const detail::TensorDataContainer& data, const TensorOptions& options = {}) {
  return data.made(options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return detail::over_blob(data, sizes, {}, 0, {}, options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                        const TensorOptions& options = {}) {
  return detail::over_blob(data, sizes, strides, 0, {}, options);
}
template <class Deleter>
requires std::is_invocable_v<Deleter&, void*> Tensor from_blob(void* data, IntArrayRef sizes,
                                                               Deleter&& deleter,
                                                               const TensorOptions& options = {}) {
  return detail::over_blob(data, sizes, {}, 0, std::forward<Deleter>(deleter), options);
}
template <class Deleter>
requires std::is_invocable_v<Deleter&, void*> Tensor from_blob(void* data, IntArrayRef sizes,
                                                               IntArrayRef strides,
                                                               Deleter&& deleter,
                                                               const TensorOptions& options = {}) {
  return detail::over_blob(data, sizes, strides, 0, std::forward<Deleter>(deleter), options);
}
template <class Deleter>
requires std::is_invocable_v<Deleter&, void*> Tensor from_blob(void* data, IntArrayRef sizes,
                                                               IntArrayRef strides,
                                                               int64_t storage_offset,
                                                               Deleter&& deleter,
                                                               const TensorOptions& options = {}) {
  return detail::over_blob(data, sizes, strides, storage_offset, std::forward<Deleter>(deleter),
                           options);
}

}  // namespace flambeau::torch

#include "flambeau/api/functions.h"
