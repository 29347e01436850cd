// The bias of a convolution and its gradient.
#include "flambeau/cuda/nn/channel_map.cuh"
#include "flambeau/cuda/nn/channel_sums.cuh"
#include "flambeau/cuda/nn/conv.h"

namespace flambeau::cuda {
namespace {

template <class T>
struct AddBias {
  using Stored = T;
  using S = ComputeType<T>;
  const T *y, *bias;
  template <int V>
  __device__ void values(int64_t at, uint32_t c, bool last, S (&out)[V]) const {
    read_vector<V>(y + at, out);
#pragma unroll
    for (int j = 0; j < V; ++j) out[j] += static_cast<S>(bias[last ? c + j : c]);
  }
};

template <class T>
struct BiasSums {
  using Stored = T;
  using Stat = ComputeType<T>;
  const T* g;
  T* grad_bias;
  template <int V, bool Last>
  __device__ void terms(int64_t at, int64_t, int64_t, Stat (&a)[V], Stat (&)[V]) const {
    Stat gradients[V];
    read_vector<V>(g + at, gradients);
#pragma unroll
    for (int j = 0; j < V; ++j) a[j] += gradients[j];
  }
  __device__ void finish(int64_t c, double a, double) const {
    grad_bias[c] = static_cast<T>(static_cast<Stat>(a));
  }
};

}  // namespace

void add_bias(const Tensor& y, const Tensor& bias) {
  const DeviceGuard guard(y.device().index);
  dispatch<dtypes::Floating>("convolution", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_channels("convolution", y, y, all_aligned({y.raw()}),
                 AddBias<T>{y.data<T>(), bias.data<T>()});
  });
}

void sum_bias_gradient(const Tensor& grad_y, const Tensor& grad_bias) {
  const DeviceGuard guard(grad_y.device().index);
  dispatch<dtypes::Floating>("convolution_backward", grad_y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_channels("convolution_backward", ChannelLayout(grad_y), all_aligned({grad_y.raw()}),
                 grad_y.device().index, BiasSums<T>{grad_y.data<T>(), grad_bias.data<T>()});
  });
}

}  // namespace flambeau::cuda
