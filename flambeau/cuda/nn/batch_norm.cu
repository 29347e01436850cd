// CUDA kernels of batch normalization: sums a channel, and maps with numbers of their channel.
#include "flambeau/cuda/nn/channel_map.cuh"
#include "flambeau/cuda/nn/channel_sums.cuh"
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

// --- The numbers of a channel --------------------------------------------------------------------

template <class S>
struct ForwardNumbers {
  const S *mean, *var, *weight, *bias;
  S *running_mean, *running_var, *invstd, *scale, *shift;
  S momentum, unbiased, eps;

  __device__ void operator()(int64_t c) const {
    const S m = mean[c], v = var[c], inverse = S(1) / ::sqrt(v + eps);
    const S factor = weight ? weight[c] * inverse : inverse;
    invstd[c] = inverse;
    scale[c] = factor;
    shift[c] = (bias ? bias[c] : S(0)) - m * factor;
    if (running_mean) running_mean[c] = running_mean[c] * (S(1) - momentum) + m * momentum;
    if (running_var) running_var[c] = running_var[c] * (S(1) - momentum) + v * unbiased * momentum;
  }
};

template <class S>
struct BackwardNumbers {
  const S *sum_g, *sum_gx, *invstd, *weight;
  S *grad_weight, *scale, *slope, *offset;
  S count;

  __device__ void operator()(int64_t c) const {
    const S inverse = invstd[c], factor = weight ? weight[c] * inverse : inverse;
    const S gradient = sum_gx[c] * inverse;
    grad_weight[c] = gradient;
    scale[c] = factor;
    slope[c] = -factor * inverse * gradient / count;
    offset[c] = -factor * sum_g[c] / count;
  }
};

template <class Numbers>
__global__ void __launch_bounds__(block_size)
    numbers_kernel(const __grid_constant__ Numbers numbers, int64_t channels) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (c < channels) numbers(c);
}

template <class S>
S* maybe(const Tensor& x) {
  return x.defined() ? x.data<S>() : nullptr;
}

void channel_numbers_kernel(const Tensor& mean, const Tensor& var, const Tensor& weight,
                            const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_var, double momentum, double unbiased, double eps,
                            const Tensor& invstd, const Tensor& scale, const Tensor& shift) {
  const DeviceGuard guard(mean.device().index);
  dispatch<DType::float32 | DType::float64>("batch_norm", mean.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const ForwardNumbers<S> numbers{mean.data<S>(),           var.data<S>(),
                                    maybe<S>(weight),         maybe<S>(bias),
                                    maybe<S>(running_mean),   maybe<S>(running_var),
                                    invstd.data<S>(),         scale.data<S>(),
                                    shift.data<S>(),          static_cast<S>(momentum),
                                    static_cast<S>(unbiased), static_cast<S>(eps)};
    launch("batch_norm", numbers_kernel<ForwardNumbers<S>>, blocks_for(mean.numel(), block_size),
           block_size, numbers, mean.numel());
  });
}
KERNEL_FOR(channel_numbers, channel_numbers_kernel)

void channel_gradient_numbers_kernel(const Tensor& sum_g, const Tensor& sum_gx,
                                     const Tensor& invstd, const Tensor& weight, double count,
                                     const Tensor& grad_weight, const Tensor& scale,
                                     const Tensor& slope, const Tensor& offset) {
  const DeviceGuard guard(sum_g.device().index);
  dispatch<DType::float32 | DType::float64>("batch_norm_backward", sum_g.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const BackwardNumbers<S> numbers{
        sum_g.data<S>(),  sum_gx.data<S>(),      invstd.data<S>(),
        maybe<S>(weight), grad_weight.data<S>(), scale.data<S>(),
        slope.data<S>(),  offset.data<S>(),      static_cast<S>(count)};
    launch("batch_norm_backward", numbers_kernel<BackwardNumbers<S>>,
           blocks_for(sum_g.numel(), block_size), block_size, numbers, sum_g.numel());
  });
}
KERNEL_FOR(channel_gradient_numbers, channel_gradient_numbers_kernel)

}  // namespace
}  // namespace flambeau::cuda
