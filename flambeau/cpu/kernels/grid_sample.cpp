// Sampling of images at given places on the CPU.
#include <algorithm>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/grid_sample.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// The taps of a place that lie inside, listed once for all channels.
template <class T, int Rank, int Count>
struct ListedTaps {
  struct Entry {
    int64_t offset;
    T weight, slope[Rank];
  };
  Entry entry[PlacedTaps<T, Rank, Count>::most];
  int count = 0;

  ListedTaps(const T* place, const SampleShape& shape, SampleOptions how) {
    const PlacedTaps<T, Rank, Count> taps(place, shape.sizes, how);
    taps.for_each(shape.sizes, [&](int64_t offset, T weight, const T(&slope)[Rank]) {
      entry[count].offset = offset;
      entry[count].weight = weight;
      std::copy(slope, slope + Rank, entry[count].slope);
      ++count;
    });
  }
};

template <class T, int Rank, int Count>
void sample_places(const T* x, const T* grid, T* out, const SampleShape& shape, SampleOptions how,
                   int64_t first, int64_t last) {
  const int64_t channels = shape.channels, places = shape.places, plane = shape.plane();
  for (int64_t i = first; i < last; ++i) {
    const ListedTaps<T, Rank, Count> taps(grid + i * Rank, shape, how);
    const int64_t n = i / places;
    const T* from = x + n * channels * plane;
    T* to = out + n * channels * places + i % places;
    for (int64_t c = 0; c < channels; ++c) {
      T sum = 0;
      for (int k = 0; k < taps.count; ++k)
        sum += taps.entry[k].weight * from[c * plane + taps.entry[k].offset];
      to[c * places] = sum;
    }
  }
}

void grid_sample_kernel(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how) {
  const SampleShape shape(x, grid);
  const int64_t grain = default_grain / 32 / std::max<int64_t>(shape.channels, 1) + 1;
  with_sampling("grid_sampler", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    parallel_for(0, shape.samples * shape.places, grain, [&](int64_t first, int64_t last) {
      sample_places<T, rank(), taps()>(x.data<T>(), grid.data<T>(), out.data<T>(), shape, how,
                                       first, last);
    });
  });
}
KERNEL_FOR(grid_sample, grid_sample_kernel)

// The gradients of sample n; either may be null.
template <class T, int Rank, int Count>
void backward_sample(const T* grad, const T* x, const T* grid, T* grad_x, T* grad_grid,
                     const SampleShape& shape, SampleOptions how, int64_t n) {
  const int64_t channels = shape.channels, places = shape.places, plane = shape.plane();
  for (int64_t i = 0; i < places; ++i) {
    const int64_t at_grid = (n * places + i) * Rank;
    const ListedTaps<T, Rank, Count> taps(grid + at_grid, shape, how);
    T slopes[Rank] = {};
    for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
      const T g = grad[c * places + i];
      for (int k = 0; k < taps.count; ++k) {
        const auto& entry = taps.entry[k];
        const int64_t at = c * plane + entry.offset;
        if (grad_x) grad_x[at] += entry.weight * g;
        for (int d = 0; d < Rank; ++d) slopes[d] += entry.slope[d] * x[at] * g;
      }
    }
    if (grad_grid) std::copy(slopes, slopes + Rank, grad_grid + at_grid);
  }
}

void grid_sample_backward_kernel(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                 const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how) {
  const SampleShape shape(x, grid);
  with_sampling("grid_sampler_backward", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    // A sample is one task: places add to the same elements of its gradient.
    parallel_for(0, shape.samples, 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        backward_sample<T, rank(), taps()>(grad.data<T>(), x.data<T>(), grid.data<T>(),
                                           grad_x.defined() ? grad_x.data<T>() : nullptr,
                                           grad_grid.defined() ? grad_grid.data<T>() : nullptr,
                                           shape, how, n);
      }
    });
  });
}
KERNEL_FOR(grid_sample_backward, grid_sample_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
