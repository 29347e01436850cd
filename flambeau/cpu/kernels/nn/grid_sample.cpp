// Sampling of images at given points on the CPU.
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

  // The elements of a plane, weighted. Most points have all their taps inside.
  [[nodiscard]] T sum(const T* plane) const {
    constexpr int all = PlacedTaps<T, Rank, Count>::most;
    T total = 0;
    if (count == all) {
#pragma GCC unroll 8
      for (int k = 0; k < all; ++k) total += entry[k].weight * plane[entry[k].offset];
    } else {
      for (int k = 0; k < count; ++k) total += entry[k].weight * plane[entry[k].offset];
    }
    return total;
  }

  void list(const T* place, const SampleShape& shape, SampleOptions how) {
    const PlacedTaps<T, Rank, Count> taps(place, shape.sizes, how);
    count = 0;
    taps.for_each(shape.sizes, [&](int64_t offset, T weight, const T(&slope)[Rank]) {
      entry[count].offset = offset;
      entry[count].weight = weight;
      std::copy(slope, slope + Rank, entry[count].slope);
      ++count;
    });
  }
};

// Calls body(taps of some points of one sample, first of them, how many): all of them are taken in
// one channel before the next, so that neighbours find what they read near by.
template <class T, int Rank, int Count, class Body>
void for_points(const T* grid, const SampleShape& shape, SampleOptions how, int64_t first,
                int64_t last, const Body& body) {
  constexpr int64_t most = Rank == 3 && Count == 4 ? 8 : 32;
  ListedTaps<T, Rank, Count> taps[most];
  for (int64_t i = first; i < last;) {
    const int64_t left = shape.points - i % shape.points;  // of this sample
    const int64_t count = std::min({most, last - i, left});
    for (int64_t k = 0; k < count; ++k) taps[k].list(grid + (i + k) * Rank, shape, how);
    body(taps, i, count);
    i += count;
  }
}

template <class T, int Rank, int Count>
void sample_points(const T* x, const T* grid, T* out, const SampleShape& shape, SampleOptions how,
                   int64_t first, int64_t last) {
  const int64_t channels = shape.channels, points = shape.points, plane = shape.plane();
  for_points<T, Rank, Count>(
      grid, shape, how, first, last,
      [&](const ListedTaps<T, Rank, Count>* taps, int64_t begin, int64_t count) {
        const int64_t n = begin / points;
        for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
          const T* from = x + c * plane;
          T* to = out + c * points + begin % points;
          for (int64_t i = 0; i < count; ++i) {
            to[i] = taps[i].sum(from);
          }
        }
      });
}

void grid_sample_kernel(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how) {
  const SampleShape shape(x, grid);
  const int64_t grain = default_grain / 32 / std::max<int64_t>(shape.channels, 1) + 1;
  with_sampling("grid_sampler", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    parallel_for(0, shape.samples * shape.points, grain, [&](int64_t first, int64_t last) {
      sample_points<T, rank(), taps()>(x.data<T>(), grid.data<T>(), out.data<T>(), shape, how,
                                       first, last);
    });
  });
}
KERNEL_FOR(grid_sample, grid_sample_kernel)

// The gradients of sample n; either may be null.
template <class T, int Rank, int Count>
void backward_sample(const T* grad, const T* x, const T* grid, T* grad_x, T* grad_grid,
                     const SampleShape& shape, SampleOptions how, int64_t n) {
  const int64_t channels = shape.channels, points = shape.points, plane = shape.plane();
  const auto add = [&](const ListedTaps<T, Rank, Count>* taps, int64_t begin, int64_t count) {
    if (grad_grid) std::fill_n(grad_grid + begin * Rank, count * Rank, T(0));
    for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
      const T *g = grad + c * points + begin % points, *from = x + c * plane;
      for (int64_t i = 0; i < count; ++i) {
        T* slopes = grad_grid ? grad_grid + (begin + i) * Rank : nullptr;
        for (int k = 0; k < taps[i].count; ++k) {
          const auto& entry = taps[i].entry[k];
          if (grad_x) grad_x[c * plane + entry.offset] += entry.weight * g[i];
          for (int d = 0; slopes && d < Rank; ++d)
            slopes[d] += entry.slope[d] * from[entry.offset] * g[i];
        }
      }
    }
  };
  for_points<T, Rank, Count>(grid, shape, how, n * points, (n + 1) * points, add);
}

void grid_sample_backward_kernel(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                 const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how) {
  const SampleShape shape(x, grid);
  with_sampling("grid_sampler_backward", x, grid, how.mode, [&](auto tag, auto rank, auto taps) {
    using T = typename decltype(tag)::type;
    // A sample is one task: points add to the same elements of its gradient.
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
