#include "flambeau/api/factories.h"

#include <cstring>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::torch::detail {
namespace {

std::string joined(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " ") + std::to_string(size);
  return text;
}

}  // namespace

TensorDataContainer::TensorDataContainer() : sizes_{0}, dtype_(default_dtype()) {}

TensorDataContainer::TensorDataContainer(std::initializer_list<TensorDataContainer> items)
    : dtype_(items.begin()->dtype_) {
  const TensorDataContainer& first = *items.begin();
  sizes_.push_back(static_cast<int64_t>(items.size()));
  sizes_.insert(sizes_.end(), first.sizes_.begin(), first.sizes_.end());
  for (const TensorDataContainer& item : items) {
    CHECK(item.sizes_ == first.sizes_, RuntimeError,
          "Expected all sub-lists to have sizes: {} (e.g. {}), but got sub-list {} with sizes: {}",
          joined(first.sizes_), first.text(), item.text(), joined(item.sizes_));
    CHECK(item.dtype_ == first.dtype_, RuntimeError,
          "Expected all elements of the tensor to have the same scalar type: {}, but got element "
          "of scalar type: {}",
          dtype_legacy_name(first.dtype_), dtype_legacy_name(item.dtype_));
    numbers_.insert(numbers_.end(), item.numbers_.begin(), item.numbers_.end());
  }
}

TensorDataContainer::TensorDataContainer(ScalarType dtype, const void* values, size_t size)
    : sizes_{static_cast<int64_t>(size)},
      dtype_(dtype),
      tensor_(make_tensor(static_cast<int64_t>(size), dtype, flambeau::Device())) {
  if (size) std::memcpy(tensor_.raw(), values, size * item_size(dtype));
}

std::string TensorDataContainer::text() const {
  size_t next = 0;
  const std::function<std::string(size_t)> level = [&](size_t dim) {
    if (dim == sizes_.size()) return to_text(numbers_[next++]);
    std::string list = "{";
    for (int64_t i = 0; i < sizes_[dim]; ++i) list += (i ? ", " : "") + level(dim + 1);
    return list + "}";
  };
  return level(0);
}

flambeau::Tensor TensorDataContainer::made(const TensorOptions& options) const {
  const bool is_int = dtype_ == kInt || dtype_ == kLong;
  const bool is_real = dtype_ == kFloat || dtype_ == kDouble;
  const ScalarType natural = is_int ? kLong : is_real ? default_dtype() : dtype_;
  const ScalarType dtype = options.has_dtype() ? ScalarType(options.dtype()) : natural;
  flambeau::Tensor result;
  {
    const NoGrad off;
    if (tensor_.defined()) {
      CHECK(!is_complex(dtype_) || is_complex(dtype), RuntimeError,
            "can not do torch::tensor(complex, dtype=non-complex) because complex can not be "
            "casted to real number without loss of information");
      result = flambeau::to(tensor_, dtype);
    } else {
      result = make_tensor(sizes_, dtype, flambeau::Device());
      dispatch<dtypes::AllStored>("tensor", dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = result.data<T>();
        for (const flambeau::Scalar& number : numbers_) *to++ = torch::Scalar(number).to<T>();
      });
    }
    if (options.has_device() && !options.device().is_cpu())
      result = flambeau::to(result, options.device());
  }
  if (options.requires_grad()) set_requires_grad(result, true);
  return result;
}

flambeau::Tensor over_blob(void* data, IntArrayRef sizes, const OptionalIntArrayRef& strides,
                           int64_t offset, Deleter deleter, const TensorOptions& options) {
  const flambeau::Device device = options.device();
  const Dims steps = strides ? IntSpan(*strides).dims() : contiguous_strides(sizes);
  CHECK(steps.size() == sizes.size(), RuntimeError,
        "from_blob: sizes {} and strides {} differ in their number", IntSpan(sizes),
        IntSpan(steps));
  int64_t last = offset;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    empty |= sizes[d] == 0;
    last += (sizes[d] - 1) * steps[d];
  }
  const size_t bytes = empty ? 0 : static_cast<size_t>(last + 1) * item_size(options.dtype());
  const auto release = [deleter = std::move(deleter), data] {
    if (deleter) deleter(data);
  };
  StoragePtr storage(new flambeau::Storage(data, bytes, device, release));
  flambeau::Tensor result = make_over(std::move(storage), sizes, steps, offset, options.dtype());
  if (options.requires_grad()) set_requires_grad(result, true);
  return result;
}

}  // namespace flambeau::torch::detail
