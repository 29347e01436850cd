// Sampling of images at given points on CUDA. A thread takes a point; gradients of images are added
// atomically.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/runtime/deterministic.h"
#include "flambeau/kernels/grid_sample.h"

namespace flambeau::cuda {
namespace {

template <class T, int Rank, int Count>
__global__ void __launch_bounds__(block_size)
    sample_kernel(const T* x, const T* grid, T* out, SampleShape shape, SampleOptions how,
                  int64_t channels_each) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= shape.samples * shape.points) return;
  const PlacedTaps<T, Rank, Count> taps(grid + i * Rank, shape.sizes, how);
  const int64_t n = i / shape.points, plane = shape.plane();
  const T* from = x + n * shape.channels * plane;
  T* to = out + n * shape.channels * shape.points + i % shape.points;
  const int64_t first = blockIdx.y * channels_each;
  const int64_t last = min(first + channels_each, shape.channels);
  for (int64_t c = first; c < last; ++c) {
    T sum(0);
    taps.for_each(shape.sizes, [&](int64_t offset, T weight, const T(&)[Rank]) {
      sum += weight * from[c * plane + offset];
    });
    to[c * shape.points] = sum;
  }
}

template <class T, int Rank, int Count>
__global__ void __launch_bounds__(block_size)
    gradient_kernel(const T* grad, const T* x, const T* grid, T* grad_x, T* grad_grid,
                    SampleShape shape, SampleOptions how) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= shape.samples * shape.points) return;
  const PlacedTaps<T, Rank, Count> taps(grid + i * Rank, shape.sizes, how);
  const int64_t n = i / shape.points, plane = shape.plane();
  const T* from = grad + n * shape.channels * shape.points + i % shape.points;
  T slopes[Rank] = {};
  for (int64_t c = 0; c < shape.channels; ++c) {
    const T g = from[c * shape.points];
    const int64_t channel = (n * shape.channels + c) * plane;
    taps.for_each(shape.sizes, [&](int64_t offset, T weight, const T(&slope)[Rank]) {
      if (grad_x) atomicAdd(grad_x + channel + offset, weight * g);
      if (!grad_grid) return;
      const T value = x[channel + offset] * g;
#pragma unroll
      for (int d = 0; d < Rank; ++d) slopes[d] += slope[d] * value;
    });
  }
  if (!grad_grid) return;
#pragma unroll
  for (int d = 0; d < Rank; ++d) grad_grid[i * Rank + d] = slopes[d];
}

void grid_sample_kernel(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how) {
  const DeviceGuard guard(x.device().index);
  const SampleShape shape(x, grid);
  constexpr int64_t channels_each = 16;
  const dim3 blocks(blocks_for(shape.samples * shape.points, block_size),
                    blocks_for(shape.channels, channels_each));
  with_sampling("grid_sampler", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    launch("grid_sampler", sample_kernel<T, rank(), taps()>, blocks, block_size, x.data<T>(),
           grid.data<T>(), out.data<T>(), shape, how, channels_each);
  });
}
KERNEL_FOR(grid_sample, grid_sample_kernel)

void grid_sample_backward_kernel(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                 const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how) {
  const DeviceGuard guard(x.device().index);
  const SampleShape shape(x, grid);
  const int64_t points = shape.samples * shape.points;
  if (points == 0) return;
  if (grad_x.defined()) {
    alert_not_deterministic(grid.sizes()[2] == 3 ? "grid_sampler_3d_backward_cuda"
                                                 : "grid_sampler_2d_backward_cuda");
  }
  with_sampling("grid_sampler_backward", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    launch("grid_sampler_backward", gradient_kernel<T, rank(), taps()>,
           blocks_for(points, block_size), block_size, grad.data<T>(), x.data<T>(), grid.data<T>(),
           grad_x.defined() ? grad_x.data<T>() : nullptr,
           grad_grid.defined() ? grad_grid.data<T>() : nullptr, shape, how);
  });
}
KERNEL_FOR(grid_sample_backward, grid_sample_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
