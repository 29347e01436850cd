// Sampling of images at given places on CUDA. In each dimension a place has a few taps: inputs,
// their weights, and how the weights change with the place; a sample is the sum over all
// combinations of taps. A thread takes a place; gradients of images are added atomically.
#include <limits>

#include "flambeau/cuda/deterministic.h"
#include "flambeau/cuda/loops.cuh"
#include "flambeau/kernels/vision.h"

namespace flambeau::cuda {
namespace {

// The taps of one dimension; an index of -1 lies outside, where everything is zero.
template <class T, int Count>
struct Taps {
  int index[Count];
  T weight[Count], slope[Count];
  __device__ void set(int k, int64_t at, int64_t size, T w, T s) {
    index[k] = at >= 0 && at < size ? static_cast<int>(at) : -1;
    weight[k] = w;
    slope[k] = s;
  }
};

// A coordinate and its derivative by the one it was made from.
template <class T>
struct Place {
  T at, slope;
};

template <class T>
__device__ Place<T> reflected(T x, T low, T span) {
  if (span <= T(0)) return {T(0), T(0)};
  const T offset = x - low, length = ::fabs(offset);
  const T flips = ::floor(length / span), rest = length - flips * span;
  const T direction = offset < T(0) ? T(-1) : T(1);
  const bool forward = ::fmod(flips, T(2)) == T(0);
  return {forward ? rest + low : span - rest + low, forward ? direction : -direction};
}

template <class T>
__device__ Place<T> padded(Place<T> place, int64_t size, SampleOptions how) {
  if (how.padding == SamplePadding::zeros) return place;
  if (how.padding == SamplePadding::reflection) {
    const T low = how.align_corners ? T(0) : T(-0.5);
    const T span = static_cast<T>(how.align_corners ? size - 1 : size);
    const Place<T> mirror = reflected(place.at, low, span);
    place = {mirror.at, place.slope * mirror.slope};
  }
  const T last = static_cast<T>(size - 1);
  if (place.at <= T(0)) return {T(0), T(0)};
  if (place.at >= last) return {last, T(0)};
  return place;
}

template <class T>
__device__ Place<T> unnormalized(T x, int64_t size, bool align_corners) {
  const T slope = static_cast<T>(align_corners ? size - 1 : size) / T(2);
  const T at =
      align_corners ? (x + T(1)) * slope : ((x + T(1)) * static_cast<T>(size) - T(1)) / T(2);
  // What is no number or too large for an index lies outside.
  return {::fabs(at) < T(1e9) ? at : T(-100), slope};
}

// Keys' cubic convolution and its slope at distance x, with a = -0.75.
template <class T>
__device__ Place<T> cubic(T x) {
  constexpr T a = T(-0.75);
  const T d = ::fabs(x), sign = x < T(0) ? T(-1) : T(1);
  if (d <= T(1)) {
    return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d * sign};
  }
  return {((a * d - 5 * a) * d + 8 * a) * d - 4 * a, ((3 * a * d - 10 * a) * d + 8 * a) * sign};
}

// One tap is the nearest, two are linear, four cubic.
template <class T, int Count>
__device__ Taps<T, Count> taps_at(T x, int64_t size, SampleOptions how) {
  Taps<T, Count> taps;
  const Place<T> raw = unnormalized(x, size, how.align_corners);
  if constexpr (Count == 4) {
    const T low = ::floor(raw.at);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const T step = static_cast<T>(k - 1);
      const Place<T> place = padded(Place<T>{low + step, T(1)}, size, how);
      const Place<T> weight = cubic(raw.at - low - step);
      taps.set(k, static_cast<int64_t>(place.at), size, weight.at, weight.slope * raw.slope);
    }
  } else {
    const Place<T> place = padded(raw, size, how);
    if constexpr (Count == 1) {
      taps.set(0, static_cast<int64_t>(::nearbyint(place.at)), size, T(1), T(0));
    } else {
      const T low = ::floor(place.at), rest = place.at - low;
      taps.set(0, static_cast<int64_t>(low), size, T(1) - rest, -place.slope);
      taps.set(1, static_cast<int64_t>(low) + 1, size, rest, place.slope);
    }
  }
  return taps;
}

struct Shape {
  int64_t samples, channels, sizes[3], places;  // sizes: the last dimension first
  __device__ int64_t plane() const { return sizes[0] * sizes[1] * sizes[2]; }
};

// Calls body(offset in a channel, weight, slopes) for all combinations of taps that lie inside.
template <class T, int Rank, int Count>
struct Combined {
  Taps<T, Count> taps[Rank];

  __device__ Combined(const T* place, const Shape& shape, SampleOptions how) {
#pragma unroll
    for (int d = 0; d < Rank; ++d) taps[d] = taps_at<T, Count>(place[d], shape.sizes[d], how);
  }
  template <class Body>
  __device__ void for_each(const Shape& shape, const Body& body) const {
    constexpr int all = Rank == 1 ? Count : Rank == 2 ? Count * Count : Count * Count * Count;
#pragma unroll
    for (int k = 0; k < all; ++k) {
      const int chosen[3] = {k % Count, k / Count % Count, k / Count / Count};
      int64_t offset = 0;
      T weight(1), slope[Rank];
      bool inside = true;
#pragma unroll
      for (int d = Rank - 1; d >= 0; --d) {
        const int index = taps[d].index[chosen[d]];
        inside = inside && index >= 0;
        offset = offset * shape.sizes[d] + index;
        weight *= taps[d].weight[chosen[d]];
        slope[d] = T(1);
#pragma unroll
        for (int other = 0; other < Rank; ++other) {
          slope[d] *=
              other == d ? taps[other].slope[chosen[other]] : taps[other].weight[chosen[other]];
        }
      }
      if (inside) body(offset, weight, slope);
    }
  }
};

template <class T, int Rank, int Count>
__global__ void __launch_bounds__(block_size)
    sample_kernel(const T* x, const T* grid, T* out, Shape shape, SampleOptions how,
                  int64_t channels_each) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= shape.samples * shape.places) return;
  const Combined<T, Rank, Count> taps(grid + i * Rank, shape, how);
  const int64_t n = i / shape.places, plane = shape.plane();
  const T* from = x + n * shape.channels * plane;
  T* to = out + n * shape.channels * shape.places + i % shape.places;
  const int64_t first = blockIdx.y * channels_each;
  const int64_t last = min(first + channels_each, shape.channels);
  for (int64_t c = first; c < last; ++c) {
    T sum(0);
    taps.for_each(shape, [&](int64_t offset, T weight, const T(&)[Rank]) {
      sum += weight * from[c * plane + offset];
    });
    to[c * shape.places] = sum;
  }
}

template <class T, int Rank, int Count>
__global__ void __launch_bounds__(block_size)
    gradient_kernel(const T* grad, const T* x, const T* grid, T* grad_x, T* grad_grid, Shape shape,
                    SampleOptions how) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= shape.samples * shape.places) return;
  const Combined<T, Rank, Count> taps(grid + i * Rank, shape, how);
  const int64_t n = i / shape.places, plane = shape.plane();
  const T* from = grad + n * shape.channels * shape.places + i % shape.places;
  T slopes[Rank] = {};
  for (int64_t c = 0; c < shape.channels; ++c) {
    const T g = from[c * shape.places];
    const int64_t channel = (n * shape.channels + c) * plane;
    taps.for_each(shape, [&](int64_t offset, T weight, const T(&slope)[Rank]) {
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

Shape shape_of(const Tensor& x, const Tensor& grid) {
  const IntSpan s = x.sizes();
  return {s[0], s[1], {s[4], s[3], s[2]}, grid.sizes()[1]};
}

// Calls body(type tag, rank, taps) with integral constants.
template <class Body>
void with_kind(const char* op, const Tensor& x, const Tensor& grid, SampleMode mode,
               const Body& body) {
  dispatch<DType::float32 | DType::float64>(op, x.dtype(), [&](auto tag) {
    const auto with_rank = [&](auto rank) {
      if (mode == SampleMode::nearest) return body(tag, rank, std::integral_constant<int, 1>());
      if (mode == SampleMode::bilinear) return body(tag, rank, std::integral_constant<int, 2>());
      // Cubic sampling is for images only.
      if constexpr (rank() < 3) body(tag, rank, std::integral_constant<int, 4>());
    };
    switch (grid.sizes()[2]) {
      case 1: return with_rank(std::integral_constant<int, 1>());
      case 2: return with_rank(std::integral_constant<int, 2>());
      default: return with_rank(std::integral_constant<int, 3>());
    }
  });
}

void grid_sample_kernel(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how) {
  const DeviceGuard guard(x.device().index);
  const Shape shape = shape_of(x, grid);
  constexpr int64_t channels_each = 16;
  const dim3 blocks(blocks_for(shape.samples * shape.places, block_size),
                    blocks_for(shape.channels, channels_each));
  with_kind("grid_sampler", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    launch("grid_sampler", sample_kernel<T, rank(), taps()>, blocks, block_size, x.data<T>(),
           grid.data<T>(), out.data<T>(), shape, how, channels_each);
  });
}
KERNEL_FOR(grid_sample, grid_sample_kernel)

void grid_sample_backward_kernel(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                 const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how) {
  const DeviceGuard guard(x.device().index);
  const Shape shape = shape_of(x, grid);
  const int64_t places = shape.samples * shape.places;
  if (places == 0) return;
  if (grad_x.defined()) {
    alert_not_deterministic(grid.sizes()[2] == 3 ? "grid_sampler_3d_backward_cuda"
                                                 : "grid_sampler_2d_backward_cuda");
  }
  with_kind("grid_sampler_backward", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    launch("grid_sampler_backward", gradient_kernel<T, rank(), taps()>,
           blocks_for(places, block_size), block_size, grad.data<T>(), x.data<T>(), grid.data<T>(),
           grad_x.defined() ? grad_x.data<T>() : nullptr,
           grad_grid.defined() ? grad_grid.data<T>() : nullptr, shape, how);
  });
}
KERNEL_FOR(grid_sample_backward, grid_sample_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
