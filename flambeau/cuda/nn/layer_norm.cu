// CUDA kernels of layer normalization. A warp or a block takes a row; gradients of weight and bias
// are sums over rows.
#include "flambeau/cuda/nn/channel_sums.cuh"
#include "flambeau/kernels/nn.h"

namespace flambeau::cuda {
namespace {

// Weight and bias have the type of statistics; either may be null. Without a mean the rows are
// taken for centered.
template <class T, int Lanes, int N>
__global__ void __launch_bounds__(row_threads<Lanes>)
    layer_norm_rows(const T* x, const ComputeType<T>* weight, const ComputeType<T>* bias,
                    double eps, T* out, ComputeType<T>* mean, ComputeType<T>* rstd, int64_t rows,
                    int64_t size) {
  using S = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  x += row * size;
  out += row * size;
  // Distances from the first element: sums of them and of their squares lose few digits.
  const S origin = mean ? static_cast<S>(x[0]) : S(0);
  PairSum<S> sums{S(0), S(0)};
  for_row<Lanes, N>(x, size, [&](const S(&values)[N], int64_t) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const S distance = values[j] - origin;
      sums.a += distance;
      sums.b += distance * distance;
    }
  });
  sums = fold_row<Lanes>(sums, AddPairs<S>());
  const S n = static_cast<S>(size), apart = mean ? sums.a / n : S(0);
  const S variance = sums.b / n - apart * apart;
  const S center = origin + apart;
  const S factor = S(1) / ::sqrt((variance < S(0) ? S(0) : variance) + static_cast<S>(eps));
  if (threadIdx.x == 0) {
    if (mean) mean[row] = center;
    rstd[row] = factor;
  }
  for_row<Lanes, N>(x, size, [&](const S(&values)[N], int64_t i) {
    Vector<T, N> words;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const S normal = ((values[j] - origin) - apart) * factor;
      words.values[j] =
          static_cast<T>((weight ? normal * weight[i + j] : normal) + (bias ? bias[i + j] : S(0)));
    }
    *reinterpret_cast<Vector<T, N>*>(out + i) = words;
  });
}

template <class T, int Lanes, int N>
__global__ void __launch_bounds__(row_threads<Lanes>)
    layer_norm_grad_rows(const T* g, const T* x, const ComputeType<T>* weight,
                         const ComputeType<T>* mean, const ComputeType<T>* rstd, T* grad_x,
                         int64_t rows, int64_t size) {
  using S = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  g += row * size;
  x += row * size;
  grad_x += row * size;
  const S center = mean ? mean[row] : S(0), factor = rstd[row];
  const auto scaled = [&](S gradient, int64_t i) {
    return weight ? gradient * weight[i] : gradient;
  };
  PairSum<S> sums{S(0), S(0)};
  for_row<Lanes, N>(g, size, [&](const S(&gradients)[N], int64_t i) {
    S values[N];
    read_vector<N>(x + i, values);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const S gradient = scaled(gradients[j], i + j);
      sums.a += gradient;
      sums.b += gradient * (values[j] - center);
    }
  });
  sums = fold_row<Lanes>(sums, AddPairs<S>());
  const S n = static_cast<S>(size);
  const S slope = -sums.b * factor * factor * factor / n,
          offset = mean ? -sums.a * factor / n : S(0);
  for_row<Lanes, N>(g, size, [&](const S(&gradients)[N], int64_t i) {
    S values[N];
    read_vector<N>(x + i, values);
    Vector<T, N> words;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      words.values[j] = static_cast<T>(scaled(gradients[j], i + j) * factor +
                                       (values[j] - center) * slope + offset);
    }
    *reinterpret_cast<Vector<T, N>*>(grad_x + i) = words;
  });
}

// Sums over rows of g and of g times the normalized element.
template <class T>
struct AffineSums {
  using Stored = T;
  using Stat = ComputeType<T>;
  const T *g, *x;
  const Stat *mean, *rstd;
  Stat *grad_weight, *grad_bias;  // null: not wanted

  template <int V, bool Last>
  __device__ void terms(int64_t at, int64_t row, int64_t, Stat (&a)[V], Stat (&b)[V]) const {
    Stat gradients[V], values[V];
    read_vector<V>(g + at, gradients);
    read_vector<V>(x + at, values);
    const Stat center = mean ? mean[row] : Stat(0), factor = rstd[row];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      a[j] += gradients[j];
      b[j] += gradients[j] * ((values[j] - center) * factor);
    }
  }
  __device__ void finish(int64_t c, double a, double b) const {
    if (grad_bias) grad_bias[c] = static_cast<Stat>(a);
    if (grad_weight) grad_weight[c] = static_cast<Stat>(b);
  }
};

// Calls body(integral constants Lanes, N): threads of a row and neighbours that each reads at once.
template <class T, class Body>
void with_row_shape(int64_t size, bool aligned, const Body& body) {
  constexpr int wide = channel_width<T>;
  const auto with_lanes = [&](auto width) {
    if (size <= short_row) return body(std::integral_constant<int, warp>(), width);
    body(std::integral_constant<int, block_size>(), width);
  };
  if (aligned && size % wide == 0) return with_lanes(std::integral_constant<int, wide>());
  with_lanes(std::integral_constant<int, 1>());
}

template <class S>
S* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<S>() : nullptr;
}

void layer_norm_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                       const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  const DeviceGuard guard(x.device().index);
  const int64_t rows = rstd.numel(), size = x.numel() / rows;
  dispatch<dtypes::Floating>("layer_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    with_row_shape<T>(size, all_aligned({x.raw(), out.raw()}), [&](auto lanes, auto width) {
      launch("layer_norm", layer_norm_rows<T, lanes(), width()>, row_grid<lanes()>(rows),
             row_block<lanes()>(), x.data<T>(), data_or_null<S>(weight), data_or_null<S>(bias), eps,
             out.data<T>(), data_or_null<S>(mean), rstd.data<S>(), rows, size);
    });
  });
}
KERNEL_FOR(layer_norm, layer_norm_kernel)

void layer_norm_backward_kernel(const Tensor& g, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, const Tensor& grad_x,
                                const Tensor& grad_weight, const Tensor& grad_bias) {
  const char* op = "layer_norm_backward";
  const DeviceGuard guard(x.device().index);
  const int64_t rows = rstd.numel(), size = x.numel() / rows;
  dispatch<dtypes::Floating>(op, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const bool aligned = all_aligned({g.raw(), x.raw()});
    if (grad_x.defined()) {
      with_row_shape<T>(size, aligned && all_aligned({grad_x.raw()}), [&](auto lanes, auto width) {
        launch(op, layer_norm_grad_rows<T, lanes(), width()>, row_grid<lanes()>(rows),
               row_block<lanes()>(), g.data<T>(), x.data<T>(), data_or_null<S>(weight),
               data_or_null<S>(mean), rstd.data<S>(), grad_x.data<T>(), rows, size);
      });
    }
    if (!grad_weight.defined() && !grad_bias.defined()) return;
    sum_channels(op, ChannelLayout(rows, size), aligned, x.device().index,
                 AffineSums<T>{g.data<T>(), x.data<T>(), data_or_null<S>(mean), rstd.data<S>(),
                               data_or_null<S>(grad_weight), data_or_null<S>(grad_bias)});
  });
}
KERNEL_FOR(layer_norm_backward, layer_norm_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
