// The reduction loop on the device for any layout, dtype and accumulation.
//
// An accumulation (Op) says:
//   using Acc                                  what elements are gathered in
//   Acc start() const                          the neutral value
//   Acc step(Acc, C value, int64_t i) const    takes the element at reduced position i
//   Acc merge(Acc, Acc) const
//   void store(Acc, out, second, at) const     writes the results at item `at`
// Threads of a block that share a result gather every lanes-th element and are then folded in a
// tree; where results are few, several blocks take a chunk each and a second kernel folds these.
// How work is cut depends on the geometry alone, so results do not change from run to run.
#pragma once

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/kernels/reduce.h"

namespace flambeau::cuda {

struct ReduceShape {
  const char* in;
  char *out, *second;
  bool columns;  // lanes of a warp walk along results, not along elements of one
  bool dense;    // the elements of a result are neighbours, and start where vectors may
  int kept_dims, reduced_dims;
  int64_t outputs, count;
  int64_t chunk;  // elements of a result that one block takes
  int64_t kept_sizes[max_dims], kept_in[max_dims], kept_out[max_dims];
  int64_t reduced_sizes[max_dims], reduced_in[max_dims];

  explicit ReduceShape(const Reduction& r)
      : in(r.in),
        out(r.out),
        second(r.second),
        columns(false),
        dense(false),
        kept_dims(r.kept_dims),
        reduced_dims(r.reduced_dims),
        outputs(r.outputs),
        count(r.count),
        chunk(r.count) {
    std::copy_n(r.kept_sizes, kept_dims, kept_sizes);
    std::copy_n(r.kept_in, kept_dims, kept_in);
    std::copy_n(r.kept_out, kept_dims, kept_out);
    std::copy_n(r.reduced_sizes, reduced_dims, reduced_sizes);
    std::copy_n(r.reduced_in, reduced_dims, reduced_in);
  }

  __device__ void place(int64_t index, int64_t& from, int64_t& to) const {
    from = to = 0;
    for (int d = 0; d < kept_dims; ++d) {
      const int64_t rest = index / kept_sizes[d], i = index - rest * kept_sizes[d];
      from += i * kept_in[d];
      to += i * kept_out[d];
      index = rest;
    }
  }
  __device__ int64_t offset(int64_t i) const {
    if (reduced_dims == 1) return i * reduced_in[0];
    int64_t at = 0;
    if (count <= INT32_MAX) {  // 32-bit division is several times faster
      uint32_t index = static_cast<uint32_t>(i);
      for (int d = 0; d < reduced_dims; ++d) {
        const uint32_t size = static_cast<uint32_t>(reduced_sizes[d]), rest = index / size;
        at += (index - rest * size) * reduced_in[d];
        index = rest;
      }
    } else {
      for (int d = 0; d < reduced_dims; ++d) {
        const int64_t rest = i / reduced_sizes[d];
        at += (i - rest * reduced_sizes[d]) * reduced_in[d];
        i = rest;
      }
    }
    return at;
  }
};

// Folds the values of the lanes that share a result; lane 0 has the whole.
template <class Op>
__device__ typename Op::Acc fold_lanes(const Op& op, typename Op::Acc value, int lane, int lanes,
                                       int unit) {
  using Acc = typename Op::Acc;
  __shared__ alignas(16) char memory[block_size * sizeof(Acc)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  shared[mine] = value;
  for (int step = lanes / 2; step > 0; step /= 2) {
    __syncthreads();
    if (lane < step) shared[mine] = op.merge(shared[mine], shared[mine + step * unit]);
  }
  return shared[mine];
}

// Elements that a thread reads at once where a result's elements are dense: 16 bytes of them.
template <class T>
constexpr int vector_width = std::max(1, 16 / static_cast<int>(sizeof(T)));

// Takes the elements of [begin, end) that are this lane's into `gathered`, several loads at a time.
template <class In, class Op, int Unroll>
__device__ void gather_strided(const ReduceShape& s, const Op& op, const char* in, int64_t begin,
                               int64_t end, int lane, int lanes,
                               typename Op::Acc (&gathered)[Unroll]) {
  int64_t i = begin + lane;
  for (; i + (Unroll - 1) * lanes < end; i += Unroll * lanes) {
    ComputeType<In> values[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) values[u] = load<In>(in + s.offset(i + u * lanes));
#pragma unroll
    for (int u = 0; u < Unroll; ++u) gathered[u] = op.step(gathered[u], values[u], i + u * lanes);
  }
  for (; i < end; i += lanes) gathered[0] = op.step(gathered[0], load<In>(in + s.offset(i)), i);
}

template <class In, class Op, int Unroll>
__device__ void gather_dense(const Op& op, const In* in, int64_t begin, int64_t end, int lane,
                             int lanes, typename Op::Acc (&gathered)[Unroll]) {
  constexpr int width = vector_width<In>, loads = 4;
  using Words = Vector<In, width>;
  int64_t i = begin + lane * width;
  for (; i + (loads - 1) * lanes * width + width <= end; i += loads * lanes * width) {
    Words words[loads];
#pragma unroll
    for (int l = 0; l < loads; ++l)
      words[l] = *reinterpret_cast<const Words*>(in + i + l * lanes * width);
#pragma unroll
    for (int l = 0; l < loads; ++l) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        auto& to = gathered[(l * width + j) % Unroll];
        to = op.step(to, static_cast<ComputeType<In>>(words[l].values[j]),
                     i + l * lanes * width + j);
      }
    }
  }
  for (; i < end; i += lanes * width) {
    for (int j = 0; j < width && i + j < end; ++j) {
      gathered[0] = op.step(gathered[0], static_cast<ComputeType<In>>(in[i + j]), i + j);
    }
  }
}

// Where `partial` is null the results are complete and stored; otherwise it gets the chunks.
template <class In, class Op>
__global__ void __launch_bounds__(block_size)
    reduce_kernel(const __grid_constant__ ReduceShape s, Op op, typename Op::Acc* partial) {
  using Acc = typename Op::Acc;
  const int lane = s.columns ? threadIdx.y : threadIdx.x,
            lanes = s.columns ? blockDim.y : blockDim.x;
  const int64_t result = s.columns ? static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x
                                   : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  int64_t from = 0, to = 0;
  Acc total = op.start();
  if (result < s.outputs) {
    s.place(result, from, to);
    const int64_t begin = blockIdx.y * s.chunk, end = min(begin + s.chunk, s.count);
    constexpr int unroll = sizeof(Acc) <= 8 ? 4 : 2;
    Acc gathered[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) gathered[u] = op.start();
    if (s.dense) {
      gather_dense(op, reinterpret_cast<const In*>(s.in + from), begin, end, lane, lanes, gathered);
    } else {
      gather_strided<In>(s, op, s.in + from, begin, end, lane, lanes, gathered);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) total = op.merge(total, gathered[u]);
  }
  total = fold_lanes(op, total, lane, lanes, s.columns ? blockDim.x : 1);
  if (lane != 0 || result >= s.outputs) return;
  if (partial) {
    partial[result * gridDim.y + blockIdx.y] = total;
  } else {
    op.store(total, s.out, s.second, to);
  }
}

// Neighbouring results that a thread of columns_kernel gathers.
template <class T>
constexpr int columns_width = std::min(8, vector_width<T>);

// The same where neighbouring results come from neighbouring elements: threads along x take
// columns_width results each and read them as vectors, threads along y share the elements.
template <class In, class Op>
__global__ void __launch_bounds__(block_size)
    columns_kernel(const __grid_constant__ ReduceShape s, Op op, typename Op::Acc* partial) {
  using Acc = typename Op::Acc;
  constexpr int width = columns_width<In>, loads = 4;
  using Words = Vector<In, width>;
  const int lane = threadIdx.y, lanes = blockDim.y;
  const int64_t result = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  int64_t from = 0, to = 0;
  Acc total[width];
#pragma unroll
  for (int j = 0; j < width; ++j) total[j] = op.start();
  if (result < s.outputs) {
    s.place(result, from, to);
    const char* in = s.in + from;
    const int64_t begin = blockIdx.y * s.chunk, end = min(begin + s.chunk, s.count);
    const auto take = [&](const Words& words, int64_t i) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        total[j] = op.step(total[j], static_cast<ComputeType<In>>(words.values[j]), i);
      }
    };
    int64_t i = begin + lane;
    for (; i + (loads - 1) * lanes < end; i += loads * lanes) {
      Words words[loads];
#pragma unroll
      for (int l = 0; l < loads; ++l)
        words[l] = *reinterpret_cast<const Words*>(in + s.offset(i + l * lanes));
#pragma unroll
      for (int l = 0; l < loads; ++l) take(words[l], i + l * lanes);
    }
    for (; i < end; i += lanes) take(*reinterpret_cast<const Words*>(in + s.offset(i)), i);
  }
#pragma unroll
  for (int j = 0; j < width; ++j) {
    total[j] = fold_lanes(op, total[j], lane, lanes, blockDim.x);
    __syncthreads();  // the memory of this fold is that of the next
  }
  if (lane != 0 || result >= s.outputs) return;
#pragma unroll
  for (int j = 0; j < width; ++j) {
    if (partial) {
      partial[(result + j) * gridDim.y + blockIdx.y] = total[j];
    } else {
      op.store(total[j], s.out, s.second, to + j * s.kept_out[0]);
    }
  }
}

template <class Op>
__global__ void __launch_bounds__(block_size)
    fold_kernel(const __grid_constant__ ReduceShape s, Op op, const typename Op::Acc* partial,
                int chunks) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int lane = threadIdx.x, lanes = blockDim.x;
  typename Op::Acc total = op.start();
  if (result < s.outputs) {
    for (int i = lane; i < chunks; i += lanes)
      total = op.merge(total, partial[result * chunks + i]);
  }
  total = fold_lanes(op, total, lane, lanes, 1);
  if (lane != 0 || result >= s.outputs) return;
  int64_t from = 0, to = 0;
  s.place(result, from, to);
  op.store(total, s.out, s.second, to);
}

inline int power_of_two_up_to(int64_t n, int most) {
  int power = 1;
  while (power * 2 <= n && power < most) power *= 2;
  return power;
}

// Whether every result's elements can be read in vectors.
template <class In>
bool rows_are_dense(const Reduction& r) {
  if (r.reduced_dims != 1 || r.reduced_in[0] != sizeof(In) || r.count < 4 * vector_width<In>)
    return false;
  uintptr_t bits = reinterpret_cast<uintptr_t>(r.in);
  for (int d = 0; d < r.kept_dims; ++d) bits |= static_cast<uintptr_t>(r.kept_in[d]);
  return bits % (vector_width<In> * sizeof(In)) == 0;
}

// Whether neighbouring results can be gathered by vectors of their elements.
template <class In>
bool columns_are_dense(const Reduction& r) {
  constexpr int width = columns_width<In>;
  if (r.kept_in[0] != sizeof(In) || r.kept_sizes[0] % width != 0) return false;
  uintptr_t bits = reinterpret_cast<uintptr_t>(r.in);
  for (int d = 1; d < r.kept_dims; ++d) bits |= static_cast<uintptr_t>(r.kept_in[d]);
  for (int d = 0; d < r.reduced_dims; ++d) bits |= static_cast<uintptr_t>(r.reduced_in[d]);
  return bits % (width * sizeof(In)) == 0;
}

// How a reduction is spread over threads: `lanes` share `each` neighbouring results.
struct ReducePlan {
  int lanes, results, each;
  int64_t blocks;
  int chunks;

  ReducePlan(const Reduction& r, bool columns, int64_t steps, int max_lanes, int each_, int device)
      : lanes(power_of_two_up_to(steps, max_lanes)), results(block_size / lanes), each(each_) {
    // Where results are few, threads along them would have nothing to do.
    while (columns && results > 32 && int64_t{results} * each >= 2 * r.outputs &&
           lanes * 2 <= r.count) {
      results /= 2;
      lanes *= 2;
    }
    blocks = (r.outputs + int64_t{results} * each - 1) / (int64_t{results} * each);
    const int64_t wanted = int64_t{16} * multiprocessors(device);  // twice what is resident
    const int64_t enough = std::max<int64_t>(steps / (int64_t{lanes} * 16), 1);
    chunks =
        static_cast<int>(std::clamp<int64_t>(wanted / blocks, 1, std::min<int64_t>(enough, 4096)));
  }
};

template <class In, class Op>
void reduce(const char* name, const Reduction& r, const Op& op) {
  using Acc = typename Op::Acc;
  if (r.outputs == 0) return;
  const int device = device_of(r.out ? r.out : r.second);
  const DeviceGuard guard(device);
  ReduceShape s(r);
  s.columns = r.kept_dims > 0 && r.reduced_dims > 0 && r.kept_in[0] < r.reduced_in[0] &&
              r.kept_sizes[0] >= 8;
  s.dense = s.columns ? sizeof(Acc) <= 8 && columns_are_dense<In>(r) : rows_are_dense<In>(r);
  // Lanes that share a result: a warp for some hundred elements, a block for many.
  const int64_t divisor = s.columns ? 4 : s.dense ? vector_width<In> : 1;
  const int64_t steps = std::max<int64_t>(r.count / divisor, 1);
  const ReducePlan plan(r, s.columns, steps,
                        s.columns       ? 8
                        : steps <= 1024 ? 32
                                        : block_size,
                        s.columns && s.dense ? columns_width<In> : 1, device);
  constexpr int64_t unit = 64;  // chunks begin where vectors may
  s.chunk = plan.chunks == 1 ? r.count
                             : ((r.count + plan.chunks - 1) / plan.chunks + unit - 1) / unit * unit;
  const dim3 block = s.columns ? dim3(plan.results, plan.lanes) : dim3(plan.lanes, plan.results);
  const dim3 grid(static_cast<unsigned>(plan.blocks), plan.chunks);
  const Workspace partial(plan.chunks == 1 ? 0 : r.outputs * plan.chunks * sizeof(Acc), device);
  if constexpr (sizeof(Acc) <= 8) {
    const bool by_vectors = s.columns && s.dense;
    launch(name, by_vectors ? columns_kernel<In, Op> : reduce_kernel<In, Op>, grid, block, s, op,
           partial.get<Acc>());
  } else {
    launch(name, reduce_kernel<In, Op>, grid, block, s, op, partial.get<Acc>());
  }
  if (plan.chunks == 1) return;
  // Few results of many chunks are worth a block each.
  const dim3 folders = r.outputs < multiprocessors(device) ? dim3(block_size, 1) : dim3(32, 8);
  launch(name, fold_kernel<Op>, blocks_for(r.outputs, folders.y), folders, s, op,
         partial.get<const Acc>(), plan.chunks);
}

// --- Accumulations that several kernels share ----------------------------------------------------

// What sums and products are made in: integers in int64, half precision in float.
template <class T>
using SumAcc = std::conditional_t<std::is_integral_v<T>, int64_t, ComputeType<T>>;
template <class T>
using SumOut = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

// Adds up value(x); Derived may also have finish().
template <class Derived, class A, class Out>
struct Adding {
  using Acc = A;
  __device__ const Derived& self() const { return static_cast<const Derived&>(*this); }
  __device__ A start() const { return A(0); }
  template <class C>
  __device__ A step(A a, C x, int64_t) const {
    return math::plus(a, self().value(x));
  }
  __device__ A merge(A a, A b) const { return math::plus(a, b); }
  __device__ A finish(A a) const { return a; }
  __device__ void store(A a, char* out, char*, int64_t at) const {
    reinterpret_cast<Out*>(out)[at] = static_cast<Out>(self().finish(a));
  }
};

}  // namespace flambeau::cuda
