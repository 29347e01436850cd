// Sampling of images at given places on the CPU. In each dimension a place has a few taps: inputs,
// their weights, and how the weights change with the place; a sample is the sum over all
// combinations of taps.
#include <algorithm>
#include <cmath>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/vision.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T>
struct Tap {
  int64_t index;  // -1: outside, where everything is zero
  T weight, slope;
};
template <class T>
struct Taps {
  Tap<T> tap[4];
  int count = 0;
  void add(int64_t index, int64_t size, T weight, T slope) {
    tap[count++] = {index >= 0 && index < size ? index : -1, weight, slope};
  }
};

// A coordinate and its derivative by the one it was made from.
template <class T>
struct Place {
  T at, slope;
};

template <class T>
Place<T> reflected(T x, T low, T span) {
  if (span <= T(0)) return {T(0), T(0)};
  const T offset = x - low, length = std::abs(offset);
  const T flips = std::floor(length / span), rest = length - flips * span;
  const T direction = offset < T(0) ? T(-1) : T(1);
  const bool forward = std::fmod(flips, T(2)) == T(0);
  return {forward ? rest + low : span - rest + low, forward ? direction : -direction};
}

template <class T>
Place<T> padded(Place<T> place, int64_t size, SampleOptions how) {
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
Place<T> unnormalized(T x, int64_t size, bool align_corners) {
  const T slope = static_cast<T>(align_corners ? size - 1 : size) / T(2);
  const T at =
      align_corners ? (x + T(1)) * slope : ((x + T(1)) * static_cast<T>(size) - T(1)) / T(2);
  // What is no number or too large for an index lies outside.
  return {std::abs(at) < T(1e9) ? at : T(-100), slope};
}

// Keys' cubic convolution and its slope at distance x, with a = -0.75.
template <class T>
void add_cubic(Taps<T>& taps, int64_t index, int64_t size, T x, T scale) {
  constexpr T a = T(-0.75);
  const T d = std::abs(x), sign = x < T(0) ? T(-1) : T(1);
  T weight, slope;
  if (d <= T(1)) {
    weight = ((a + 2) * d - (a + 3)) * d * d + 1;
    slope = (3 * (a + 2) * d - 2 * (a + 3)) * d;
  } else {
    weight = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    slope = (3 * a * d - 10 * a) * d + 8 * a;
  }
  taps.add(index, size, weight, slope * sign * scale);
}

template <class T>
Taps<T> taps_at(T x, int64_t size, SampleOptions how) {
  Taps<T> taps;
  const Place<T> raw = unnormalized(x, size, how.align_corners);
  if (how.mode == SampleMode::bicubic) {
    const T low = std::floor(raw.at);
    for (int k = -1; k <= 2; ++k) {
      const Place<T> place = padded(Place<T>{low + static_cast<T>(k), T(1)}, size, how);
      add_cubic(taps, static_cast<int64_t>(place.at), size, raw.at - low - static_cast<T>(k),
                raw.slope);
    }
    return taps;
  }
  const Place<T> place = padded(raw, size, how);
  if (how.mode == SampleMode::nearest) {
    taps.add(static_cast<int64_t>(std::nearbyint(place.at)), size, T(1), T(0));
    return taps;
  }
  const T low = std::floor(place.at), rest = place.at - low;
  taps.add(static_cast<int64_t>(low), size, T(1) - rest, -place.slope);
  taps.add(static_cast<int64_t>(low) + 1, size, rest, place.slope);
  return taps;
}

// All combinations of taps that lie inside: their offset in a channel, weight, and its slope by
// each coordinate, the last dimension first.
template <class T>
struct Combined {
  struct Entry {
    int64_t offset;
    T weight, slope[3];
  };
  Entry entry[64];
  int count = 0;

  Combined(const T* place, int rank, IntSpan sizes, SampleOptions how) {
    Taps<T> taps[3];
    for (int d = 0; d < 3; ++d) {
      if (d < rank) {
        taps[d] = taps_at(place[d], sizes[4 - d], how);
      } else {
        taps[d].add(0, 1, T(1), T(0));
      }
    }
    for (int z = 0; z < taps[2].count; ++z) {
      for (int y = 0; y < taps[1].count; ++y) {
        for (int x = 0; x < taps[0].count; ++x) {
          const Tap<T>&a = taps[0].tap[x], &b = taps[1].tap[y], &c = taps[2].tap[z];
          if (a.index < 0 || b.index < 0 || c.index < 0) continue;
          entry[count++] = {(c.index * sizes[3] + b.index) * sizes[4] + a.index,
                            a.weight * b.weight * c.weight,
                            {a.slope * b.weight * c.weight, a.weight * b.slope * c.weight,
                             a.weight * b.weight * c.slope}};
        }
      }
    }
  }
};

void grid_sample_kernel(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how) {
  const IntSpan sizes = x.sizes();
  const int64_t channels = sizes[1], plane = sizes[2] * sizes[3] * sizes[4];
  const int64_t places = grid.sizes()[1];
  const int rank = static_cast<int>(grid.sizes()[2]);
  dispatch<DType::float32 | DType::float64>("grid_sampler", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, sizes[0] * places, default_grain / 32 / std::max<int64_t>(channels, 1) + 1,
                 [&](int64_t first, int64_t last) {
                   for (int64_t i = first; i < last; ++i) {
                     const Combined<T> taps(grid.data<T>() + i * rank, rank, sizes, how);
                     const int64_t n = i / places;
                     const T* from = x.data<T>() + n * channels * plane;
                     T* to = out.data<T>() + n * channels * places + i % places;
                     for (int64_t c = 0; c < channels; ++c) {
                       T sum = 0;
                       for (int k = 0; k < taps.count; ++k)
                         sum += taps.entry[k].weight * from[c * plane + taps.entry[k].offset];
                       to[c * places] = sum;
                     }
                   }
                 });
  });
}
KERNEL_FOR(grid_sample, grid_sample_kernel)

template <class T>
void backward_sample(const Tensor& grad, const Tensor& x, const Tensor& grid, const Tensor& grad_x,
                     const Tensor& grad_grid, SampleOptions how, int64_t n) {
  const IntSpan sizes = x.sizes();
  const int64_t channels = sizes[1], plane = sizes[2] * sizes[3] * sizes[4];
  const int64_t places = grid.sizes()[1];
  const int rank = static_cast<int>(grid.sizes()[2]);
  const T* values = x.data<T>() + n * channels * plane;
  T* to_x = grad_x.defined() ? grad_x.data<T>() + n * channels * plane : nullptr;
  for (int64_t i = 0; i < places; ++i) {
    const Combined<T> taps(grid.data<T>() + (n * places + i) * rank, rank, sizes, how);
    const T* from = grad.data<T>() + n * channels * places + i;
    T slopes[3] = {};
    for (int64_t c = 0; c < channels; ++c) {
      const T g = from[c * places];
      for (int k = 0; k < taps.count; ++k) {
        const auto& entry = taps.entry[k];
        const int64_t at = c * plane + entry.offset;
        if (to_x) to_x[at] += entry.weight * g;
        for (int d = 0; d < rank; ++d) slopes[d] += entry.slope[d] * values[at] * g;
      }
    }
    if (!grad_grid.defined()) continue;
    for (int d = 0; d < rank; ++d) grad_grid.data<T>()[(n * places + i) * rank + d] = slopes[d];
  }
}

void grid_sample_backward_kernel(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                 const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how) {
  dispatch<DType::float32 | DType::float64>("grid_sampler_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // A sample is one task: places add to the same elements of its gradient.
    parallel_for(0, x.sizes()[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n)
        backward_sample<T>(grad, x, grid, grad_x, grad_grid, how, n);
    });
  });
}
KERNEL_FOR(grid_sample_backward, grid_sample_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
