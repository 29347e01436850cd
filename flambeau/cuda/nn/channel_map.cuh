// Maps over (N, C, spatial...) with numbers of the channel. An Op says:
//   using Stored                             the type of elements
//   void values<V>(at, c, last, out) const   makes V results: elements at `at` and after, of
//   channel
//                                            c or, with `last`, of channels c, c + 1, ...
#pragma once

#include "flambeau/cuda/nn/channel_sums.cuh"

namespace flambeau::cuda {

// out[at + j] = op.value(at, j, c) with c the channel. Vectors lie within a plane or a row of
// channels.
template <class Op, int V>
__global__ void __launch_bounds__(block_size)
    map_kernel(Op op, typename Op::Stored* out, int64_t vectors, Divider inner, Divider channels,
               bool last) {
  using T = typename Op::Stored;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= vectors) return;
  const uint32_t outer = inner.divide(static_cast<uint32_t>(i));
  const uint32_t c = last ? (static_cast<uint32_t>(i) - outer * inner.divisor) * V
                          : outer - channels.divide(outer) * channels.divisor;
  ComputeType<T> results[V];
  op.template values<V>(i * V, c, last, results);
  Vector<T, V> words;
#pragma unroll
  for (int j = 0; j < V; ++j) words.values[j] = static_cast<T>(results[j]);
  *reinterpret_cast<Vector<T, V>*>(out + i * V) = words;
}

template <class Op>
void map_channels(const char* name, const Tensor& x, const Tensor& out, bool aligned,
                  const Op& op) {
  using T = typename Op::Stored;
  constexpr int wide = channel_width<T>;
  const ChannelLayout layout(x);
  const int64_t inner = layout.last ? layout.channels : layout.plane;
  const bool vectors = aligned && inner % wide == 0;
  const int64_t width = vectors ? wide : 1, count = x.numel() / width;
  CHECK(count <= INT32_MAX, RuntimeError, "{}: a tensor of {} elements is too large", name,
        x.numel());
  launch(name, vectors ? map_kernel<Op, wide> : map_kernel<Op, 1>, blocks_for(count, block_size),
         block_size, op, out.data<T>(), count, Divider(static_cast<uint32_t>(inner / width)),
         Divider(static_cast<uint32_t>(layout.channels)), layout.last);
}

}  // namespace flambeau::cuda
