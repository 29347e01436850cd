// CUDA kernels of batch normalization: sums a channel, and maps with numbers of their channel.
#include "flambeau/cuda/channel_map.cuh"
#include "flambeau/cuda/channel_sums.cuh"
#include "flambeau/kernels/nn.h"

namespace flambeau::cuda {
namespace {

// Distances from the channel's first element and their squares: sums of these lose few digits.
template <class T>
struct MomentSums {
  using Stored = T;
  using Stat = ComputeType<T>;
  const T* x;
  Stat *mean, *var;
  int64_t step;  // from the first element of a channel to that of the next
  double count;

  template <int V, bool Last>
  __device__ void terms(int64_t at, int64_t, int64_t c, Stat (&a)[V], Stat (&b)[V]) const {
    Stat values[V];
    read_vector<V>(x + at, values);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Stat distance = values[j] - static_cast<Stat>(x[(Last ? c + j : c) * step]);
      a[j] += distance;
      b[j] += distance * distance;
    }
  }
  __device__ void finish(int64_t c, double a, double b) const {
    const double apart = a / count;
    mean[c] = static_cast<Stat>(static_cast<double>(static_cast<Stat>(x[c * step])) + apart);
    var[c] = static_cast<Stat>(max(b / count - apart * apart, 0.0) +
                               (b - b));  // what is not finite stays so
  }
};

void channel_stats_kernel(const Tensor& x, const Tensor& mean, const Tensor& var) {
  const DeviceGuard guard(x.device().index);
  const ChannelLayout layout(x);
  dispatch<dtypes::Floating>("batch_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    sum_channels(
        "batch_norm", layout, all_aligned({x.raw()}), x.device().index,
        MomentSums<T>{x.data<T>(), mean.data<S>(), var.data<S>(), layout.last ? 1 : layout.plane,
                      static_cast<double>(layout.count())});
  });
}
KERNEL_FOR(channel_stats, channel_stats_kernel)

template <class T>
struct GradientSums {
  using Stored = T;
  using Stat = ComputeType<T>;
  const T *g, *x;
  const Stat* mean;
  Stat *sum_g, *sum_gx;

  template <int V, bool Last>
  __device__ void terms(int64_t at, int64_t, int64_t c, Stat (&a)[V], Stat (&b)[V]) const {
    Stat gradients[V], values[V];
    read_vector<V>(g + at, gradients);
    read_vector<V>(x + at, values);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      a[j] += gradients[j];
      b[j] += gradients[j] * (values[j] - mean[Last ? c + j : c]);
    }
  }
  __device__ void finish(int64_t c, double a, double b) const {
    sum_g[c] = static_cast<Stat>(a);
    sum_gx[c] = static_cast<Stat>(b);
  }
};

void channel_sums_kernel(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& sum_g,
                         const Tensor& sum_gx) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating>("batch_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    sum_channels("batch_norm_backward", ChannelLayout(x), all_aligned({x.raw(), g.raw()}),
                 x.device().index,
                 GradientSums<T>{g.data<T>(), x.data<T>(), mean.data<S>(), sum_g.data<S>(),
                                 sum_gx.data<S>()});
  });
}
KERNEL_FOR(channel_sums, channel_sums_kernel)

template <class T>
struct Affine {
  using Stored = T;
  using S = ComputeType<T>;
  const T* x;
  const S *scale, *shift;
  template <int V>
  __device__ void values(int64_t at, uint32_t c, bool last, S (&out)[V]) const {
    read_vector<V>(x + at, out);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const uint32_t k = last ? c + j : c;
      out[j] = out[j] * scale[k] + shift[k];
    }
  }
};

void channel_affine_kernel(const Tensor& x, const Tensor& scale, const Tensor& shift,
                           const Tensor& out) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating>("batch_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    map_channels("batch_norm", x, out, all_aligned({x.raw(), out.raw()}),
                 Affine<T>{x.data<T>(), scale.data<S>(), shift.data<S>()});
  });
}
KERNEL_FOR(channel_affine, channel_affine_kernel)

template <class T>
struct Backward {
  using Stored = T;
  using S = ComputeType<T>;
  const T *g, *x;
  const S *mean, *a, *b, *c;
  template <int V>
  __device__ void values(int64_t at, uint32_t channel, bool last, S (&out)[V]) const {
    S distances[V];
    read_vector<V>(g + at, out);
    read_vector<V>(x + at, distances);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const uint32_t k = last ? channel + j : channel;
      out[j] = out[j] * a[k] + (distances[j] - mean[k]) * b[k] + c[k];
    }
  }
};

void channel_backward_kernel(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& a,
                             const Tensor& b, const Tensor& c, const Tensor& out) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating>("batch_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    map_channels("batch_norm_backward", x, out, all_aligned({g.raw(), x.raw(), out.raw()}),
                 Backward<T>{g.data<T>(), x.data<T>(), mean.data<S>(), a.data<S>(), b.data<S>(),
                             c.data<S>()});
  });
}
KERNEL_FOR(channel_backward, channel_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
