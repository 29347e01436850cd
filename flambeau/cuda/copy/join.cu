// CUDA kernels that join tensors and cut triangles.
#include "flambeau/kernels/join.h"

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/elementwise.h"

namespace flambeau::cuda {
namespace {

// Each tensor is one copy of (rows, its part of a row).
void cat_kernel(const std::vector<Tensor>& tensors, const Tensor& out, int64_t rows, int64_t) {
  if (out.numel() == 0) return;
  const auto item = static_cast<int64_t>(out.item_size());
  const int64_t whole = out.numel() / rows * item;
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const int64_t part = tensor.numel() / rows;
    TensorIter iter;
    iter.count = 2;
    iter.outputs = 1;
    iter.device = out.device();
    iter.numel = tensor.numel();
    iter.ndim = rows == 1 || part * item == whole ? 1 : 2;
    iter.shape[0] = iter.ndim == 1 ? iter.numel : part;
    iter.shape[1] = rows;
    for (int k = 0; k < 2; ++k) {
      iter.dtypes[k] = out.dtype();
      iter.is_number[k] = false;
      iter.strides[k][0] = item;
    }
    iter.strides[0][1] = whole;
    iter.strides[1][1] = part * item;
    iter.data[0] = static_cast<char*>(out.raw()) + start;
    iter.data[1] = static_cast<char*>(tensor.raw());
    kernels::copy(DeviceType::cuda, iter);
    start += part * item;
  }
}
KERNEL_FOR(cat, cat_kernel)

template <class T>
__global__ void __launch_bounds__(block_size)
    triangle_kernel(const T* in, T* out, int64_t numel, int64_t height, int64_t columns,
                    int64_t diagonal, bool upper) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  const int64_t row = e / columns % height, column = e % columns;
  const bool keep = upper ? column - row >= diagonal : column - row <= diagonal;
  out[e] = keep ? in[e] : T();
}

void cut_triangle(const Tensor& input, const Tensor& out, int64_t diagonal, bool upper) {
  if (input.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const int64_t height = input.sizes()[input.dim() - 2], columns = input.sizes()[input.dim() - 1];
  dispatch_size(input.item_size(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    launch(upper ? "triu" : "tril", triangle_kernel<T>, blocks_for(input.numel(), block_size),
           block_size, static_cast<const T*>(input.raw()), static_cast<T*>(out.raw()),
           input.numel(), height, columns, diagonal, upper);
  });
}
KERNEL_FOR(triangle, cut_triangle)

}  // namespace
}  // namespace flambeau::cuda
