// Kernels of embedding: rows by index, and their gradient. In the gradient each thread owns a range
// of rows of the table, so that results do not depend on the number of threads.
#include <algorithm>
#include <cstring>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Indices of either dtype.
struct Indices {
  explicit Indices(const Tensor& indices)
      : wide(indices.dtype() == DType::int64 ? indices.data<int64_t>() : nullptr),
        narrow(indices.dtype() == DType::int64 ? nullptr : indices.data<int32_t>()) {}
  int64_t operator[](int64_t i) const { return wide ? wide[i] : narrow[i]; }
  const int64_t* wide;
  const int32_t* narrow;
};

void embedding_kernel(const Tensor& weight, const Tensor& indices, const Tensor& out) {
  const Indices at(indices);
  const int64_t rows = weight.sizes()[0];
  const auto bytes = static_cast<int64_t>(weight.sizes()[1] * weight.item_size());
  const char* from = static_cast<const char*>(weight.raw());
  char* to = static_cast<char*>(out.raw());
  parallel_for(0, indices.numel(), default_grain * 4 / std::max<int64_t>(bytes, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const int64_t row = at[i];
                   CHECK(row >= 0 && row < rows, IndexError,
                         "index out of range in self (embedding: index {} of a table of {} rows)",
                         row, rows);
                   if (bytes > 0) std::memcpy(to + i * bytes, from + row * bytes, bytes);
                 }
               });
}
KERNEL_FOR(embedding, embedding_kernel)

template <class T>
void embedding_backward_typed(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                              bool scale_by_frequency, const Tensor& grad_weight) {
  using C = ComputeType<T>;
  const Indices at(indices);
  const int64_t rows = grad_weight.sizes()[0], width = grad_weight.sizes()[1],
                count = indices.numel();
  std::vector<int64_t> frequency(scale_by_frequency ? rows : 0);
  for (int64_t i = 0; i < count && scale_by_frequency; ++i) {
    const int64_t row = at[i];  // which may be another by now than it was in the forward pass
    if (row >= 0 && row < rows) ++frequency[row];
  }
  const T* g = grad.data<T>();
  T* out = grad_weight.data<T>();
  parallel_for(
      0, rows, default_grain / std::max<int64_t>(width, 1) + 1, [&](int64_t first, int64_t last) {
        std::fill(out + first * width, out + last * width, T());
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = at[i];
          if (row < first || row >= last || row == padding_idx) continue;
          const C factor = scale_by_frequency ? C(1) / static_cast<C>(frequency[row]) : C(1);
          T* to = out + row * width;
          const T* from = g + i * width;
          for (int64_t j = 0; j < width; ++j) {
            to[j] = static_cast<T>(static_cast<C>(to[j]) + static_cast<C>(from[j]) * factor);
          }
        }
      });
}

void embedding_backward_kernel(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                               bool scale_by_frequency, const Tensor& grad_weight) {
  dispatch<dtypes::FloatingComplex>("embedding_backward", grad.dtype(), [&](auto tag) {
    embedding_backward_typed<typename decltype(tag)::type>(grad, indices, padding_idx,
                                                           scale_by_frequency, grad_weight);
  });
}
KERNEL_FOR(embedding_backward, embedding_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
