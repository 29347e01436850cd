// How an image is sampled at a place, for every device. In each dimension a place has a few taps:
// inputs, their weights, and how the weights change with the place; a sample is the sum over all
// combinations of taps.
#pragma once

#include "flambeau/kernels/math.h"
#include "flambeau/kernels/vision.h"

namespace flambeau {

#if defined(__CUDA_ARCH__)
#define UNROLLED _Pragma("unroll")  // what loops index stays in registers only so
#else
#define UNROLLED
#endif

// A coordinate, or a weight, and its derivative by the coordinate it was made from.
template <class T>
struct SamplePlace {
  T at, slope;
};

template <class T>
FLAMBEAU_DEVICE SamplePlace<T> reflected(T x, T low, T span) {
  if (span <= T(0)) return {T(0), T(0)};
  const T offset = x - low, length = math::abs(offset);
  const T flips = math::floor(length / span), rest = length - flips * span;
  const T direction = offset < T(0) ? T(-1) : T(1);
  const bool forward = math::floor(flips / T(2)) * T(2) == flips;
  return {forward ? rest + low : span - rest + low, forward ? direction : -direction};
}

template <class T>
FLAMBEAU_DEVICE SamplePlace<T> padded(SamplePlace<T> place, int64_t size, SampleOptions how) {
  if (how.padding == SamplePadding::zeros) return place;
  if (how.padding == SamplePadding::reflection) {
    const T low = how.align_corners ? T(0) : T(-0.5);
    const T span = static_cast<T>(how.align_corners ? size - 1 : size);
    const SamplePlace<T> mirror = reflected(place.at, low, span);
    place = {mirror.at, place.slope * mirror.slope};
  }
  const T last = static_cast<T>(size - 1);
  if (place.at <= T(0)) return {T(0), T(0)};
  if (place.at >= last) return {last, T(0)};
  return place;
}

template <class T>
FLAMBEAU_DEVICE SamplePlace<T> unnormalized(T x, int64_t size, bool align_corners) {
  const T slope = static_cast<T>(align_corners ? size - 1 : size) / T(2);
  const T at =
      align_corners ? (x + T(1)) * slope : ((x + T(1)) * static_cast<T>(size) - T(1)) / T(2);
  // What is no number or too large for an index lies outside.
  return {math::abs(at) < T(1e9) ? at : T(-100), slope};
}

// Keys' cubic convolution and its slope at distance x, with a = -0.75.
template <class T>
FLAMBEAU_DEVICE SamplePlace<T> cubic_weight(T x) {
  constexpr T a = T(-0.75);
  const T d = math::abs(x), sign = x < T(0) ? T(-1) : T(1);
  if (d <= T(1)) {
    return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d * sign};
  }
  return {((a * d - 5 * a) * d + 8 * a) * d - 4 * a, ((3 * a * d - 10 * a) * d + 8 * a) * sign};
}

// The taps of one dimension; an index of -1 lies outside, where everything is zero. One tap is the
// nearest, two are linear, four cubic.
template <class T, int Count>
struct SampleTaps {
  int64_t index[Count];
  T weight[Count], slope[Count];

  FLAMBEAU_DEVICE void place(T x, int64_t size, SampleOptions how) {
    const SamplePlace<T> raw = unnormalized(x, size, how.align_corners);
    if constexpr (Count == 4) {
      const T low = math::floor(raw.at);
      UNROLLED
      for (int k = 0; k < 4; ++k) {
        const T step = static_cast<T>(k - 1);
        const SamplePlace<T> tap = padded(SamplePlace<T>{low + step, T(1)}, size, how);
        const SamplePlace<T> share = cubic_weight(raw.at - low - step);
        set(k, tap.at, size, share.at, share.slope * raw.slope);
      }
    } else {
      const SamplePlace<T> tap = padded(raw, size, how);
      if constexpr (Count == 1) {
        set(0, math::rint(tap.at), size, T(1), T(0));
      } else {
        const T low = math::floor(tap.at), rest = tap.at - low;
        set(0, low, size, T(1) - rest, -tap.slope);
        set(1, low + 1, size, rest, tap.slope);
      }
    }
  }

 private:
  FLAMBEAU_DEVICE void set(int k, T at, int64_t size, T w, T s) {
    const auto i = static_cast<int64_t>(at);
    index[k] = i >= 0 && i < size ? i : -1;
    weight[k] = w;
    slope[k] = s;
  }
};

// The taps of a place in an image of Rank dimensions; sizes has the last dimension first.
template <class T, int Rank, int Count>
struct PlacedTaps {
  static constexpr int most = Rank == 1 ? Count : Rank == 2 ? Count * Count : Count * Count * Count;
  SampleTaps<T, Count> taps[Rank];

  FLAMBEAU_DEVICE PlacedTaps(const T* place, const int64_t* sizes, SampleOptions how) {
    UNROLLED
    for (int d = 0; d < Rank; ++d) taps[d].place(place[d], sizes[d], how);
  }

  // Calls body(offset in a channel, weight, its slope by each coordinate) for all combinations of
  // taps that lie inside.
  template <class Body>
  FLAMBEAU_DEVICE void for_each(const int64_t* sizes, const Body& body) const {
    UNROLLED
    for (int k = 0; k < most; ++k) {
      const int chosen[3] = {k % Count, k / Count % Count, k / Count / Count};
      int64_t offset = 0;
      T weight(1), slope[Rank];
      bool inside = true;
      UNROLLED
      for (int d = Rank - 1; d >= 0; --d) {
        const int64_t index = taps[d].index[chosen[d]];
        inside = inside && index >= 0;
        offset = offset * sizes[d] + index;
        weight *= taps[d].weight[chosen[d]];
        slope[d] = T(1);
        UNROLLED
        for (int other = 0; other < Rank; ++other) {
          slope[d] *=
              other == d ? taps[other].slope[chosen[other]] : taps[other].weight[chosen[other]];
        }
      }
      if (inside) body(offset, weight, slope);
    }
  }
};

struct SampleShape {
  int64_t samples, channels, sizes[3], points;  // sizes: the last dimension first

  SampleShape(const Tensor& x, const Tensor& grid)
      : samples(x.sizes()[0]),
        channels(x.sizes()[1]),
        sizes{x.sizes()[4], x.sizes()[3], x.sizes()[2]},
        points(grid.sizes()[1]) {}
  [[nodiscard]] FLAMBEAU_DEVICE int64_t plane() const { return sizes[0] * sizes[1] * sizes[2]; }
};

// Calls body(type tag, rank, taps a dimension), the numbers as integral constants.
template <class Body>
void with_sampling(const char* op, const Tensor& x, const Tensor& grid, SampleMode mode,
                   const Body& body) {
  dispatch<DType::float32 | DType::float64>(op, x.dtype(), [&](auto tag) {
    const auto with_rank = [&](auto rank) {
      if (mode == SampleMode::nearest) return body(tag, rank, std::integral_constant<int, 1>());
      if (mode == SampleMode::bilinear) return body(tag, rank, std::integral_constant<int, 2>());
      return body(tag, rank, std::integral_constant<int, 4>());
    };
    switch (grid.sizes()[2]) {
      case 1: return with_rank(std::integral_constant<int, 1>());
      case 2: return with_rank(std::integral_constant<int, 2>());
      default: return with_rank(std::integral_constant<int, 3>());
    }
  });
}

#undef UNROLLED

}  // namespace flambeau
