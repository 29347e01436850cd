// Pooling on CUDA: a thread for each result, in the order of memory. Windows are computed, not read
// from the tables that the CPU uses. Gradients are gathered, so that their order is always the
// same. With channels last, a thread takes several channels.
#include <limits>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/kernels/nn.h"

namespace flambeau::cuda {
namespace {

struct WindowDim {
  int in, out, step, reach, stride, padding;
  bool regular, count_padding;

  explicit WindowDim(const PoolDim& d)
      : in(static_cast<int>(d.in)),
        out(static_cast<int>(d.out)),
        step(static_cast<int>(d.step)),
        reach(static_cast<int>((d.kernel - 1) * d.step + 1)),
        stride(static_cast<int>(d.stride)),
        padding(static_cast<int>(d.padding)),
        regular(d.regular),
        count_padding(false) {
    for (size_t i = 0; i < d.extent.size(); ++i) {
      count_padding |= d.extent[i] != d.end[i] - d.start[i];
    }
  }
  __device__ int start(int i) const {
    if (!regular) return static_cast<int>(int64_t{i} * in / out);
    const int first = i * stride - padding;
    return first < 0 ? first + (-first + step - 1) / step * step : first;
  }
  __device__ int end(int i) const {
    if (!regular) return static_cast<int>((int64_t{i + 1} * in + out - 1) / out);
    return min(i * stride - padding + reach, in);
  }
  __device__ int extent(int i) const {
    if (!count_padding) return end(i) - start(i);
    const int first = i * stride - padding;
    return min(first + reach, in + padding) - first;
  }
  // The outputs whose windows may hold input x: [first_of, last_of).
  __device__ int first_of(int x) const {
    if (!regular) return static_cast<int>(int64_t{x} * out / in);
    const int from = x + padding - reach + 1;
    return from <= 0 ? 0 : (from + stride - 1) / stride;
  }
  __device__ int last_of(int x) const {
    if (!regular) return static_cast<int>((int64_t{x + 1} * out + in - 1) / in);
    return min(out, (x + padding) / stride + 1);
  }
};

// Where the elements of (N, C, plane) lie, for tensors of one layout and different planes.
struct PlaneLayout {
  bool last;
  Divider channels;
  // Of two tensors in one format, one may be too small to show which.
  PlaneLayout(const Tensor& x, const Tensor& other)
      : last(is_last(x) || is_last(other)), channels(static_cast<uint32_t>(x.sizes()[1])) {}
  static bool is_last(const Tensor& x) { return !x.is_contiguous() && x.strides()[1] == 1; }

  // Splits the place of an element into that in its plane and the channel of a sample it is in.
  __device__ void split(uint32_t i, const Divider& plane, uint32_t& at, int64_t& line) const {
    if (last) {
      const uint32_t row = channels.divide(i), sample = plane.divide(row);
      at = row - sample * plane.divisor;
      line = static_cast<int64_t>(sample) * channels.divisor + (i - row * channels.divisor);
    } else {
      const uint32_t p = plane.divide(i);
      at = i - p * plane.divisor;
      line = p;
    }
  }
  // The first element of a line in a tensor with planes of this size, and the step along it.
  __device__ int64_t base(int64_t line, int64_t plane) const {
    if (!last) return line * plane;
    const int64_t sample = line / channels.divisor;
    return sample * plane * channels.divisor + (line - sample * channels.divisor);
  }
  __device__ int64_t step() const { return last ? channels.divisor : 1; }
};

struct Windows {
  WindowDim d0, d1, d2;
  Divider out_plane, in_plane, out_rows, out_row, in_rows, in_row;
  double divisor;
  explicit Windows(const PoolGeometry& g)
      : d0(g.dims[0]),
        d1(g.dims[1]),
        d2(g.dims[2]),
        out_plane(static_cast<uint32_t>(d0.out * d1.out * d2.out)),
        in_plane(static_cast<uint32_t>(d0.in * d1.in * d2.in)),
        out_rows(static_cast<uint32_t>(d1.out)),
        out_row(static_cast<uint32_t>(d2.out)),
        in_rows(static_cast<uint32_t>(d1.in)),
        in_row(static_cast<uint32_t>(d2.in)),
        divisor(g.divisor) {}

  __device__ static void coordinates(uint32_t at, const Divider& rows, const Divider& row,
                                     int (&i)[3]) {
    const uint32_t r = row.divide(at), d = rows.divide(r);
    i[2] = static_cast<int>(at - r * row.divisor);
    i[1] = static_cast<int>(r - d * rows.divisor);
    i[0] = static_cast<int>(d);
  }
  template <class C>
  __device__ C weight(const int (&i)[3]) const {
    if (divisor != 0) return static_cast<C>(divisor);
    return static_cast<C>(int64_t{d0.extent(i[0])} * d1.extent(i[1]) * d2.extent(i[2]));
  }
  // Calls body(offset in the plane) for the inputs of the window of output i.
  template <class Body>
  __device__ void for_inputs(const int (&i)[3], const Body& body) const {
    const int e0 = d0.end(i[0]), e1 = d1.end(i[1]), e2 = d2.end(i[2]), s2 = d2.start(i[2]);
    for (int x0 = d0.start(i[0]); x0 < e0; x0 += d0.step) {
      for (int x1 = d1.start(i[1]); x1 < e1; x1 += d1.step) {
        const int64_t row = (int64_t{x0} * d1.in + x1) * d2.in;
        for (int x2 = s2; x2 < e2; x2 += d2.step) body(row + x2);
      }
    }
  }
};

// The samples [first, first + count) of a batch; of no tensor none.
Tensor samples_of(const Tensor& batch, int64_t first, int64_t count) {
  if (!batch.defined()) return batch;
  Dims sizes = batch.sizes().dims();
  sizes[0] = count;
  return make_alias(batch, sizes, batch.strides(), batch.offset() + first * batch.strides()[0]);
}

// Calls body(tensors...) with parts of the batch whose elements can be counted in 32 bits: those of
// the first tensor, which has the most.
template <class Body, class... Others>
void by_samples(const char* op, const Body& body, const Tensor& most, const Others&... others) {
  if (most.numel() <= INT32_MAX) return body(most, others...);
  const int64_t samples = most.sizes()[0], each = most.numel() / samples;
  CHECK(each <= INT32_MAX, RuntimeError, "{}: a sample of {} elements is too large for CUDA", op,
        each);
  const int64_t together = INT32_MAX / each;
  for (int64_t first = 0; first < samples; first += together) {
    const int64_t count = std::min(together, samples - first);
    body(samples_of(most, first, count), samples_of(others, first, count)...);
  }
}

// --- Maxima --------------------------------------------------------------------------------------

// V neighbours of T.
template <int V, class T, class C>
__device__ void load(const T* at, C (&values)[V]) {
  const auto words = *reinterpret_cast<const Vector<T, V>*>(at);
#pragma unroll
  for (int j = 0; j < V; ++j) values[j] = static_cast<C>(words.values[j]);
}
// Indices, two at a time.
template <int V>
__device__ void load_indices(const int64_t* at, int64_t (&values)[V]) {
  if constexpr (V == 1) {
    values[0] = *at;
  } else {
#pragma unroll
    for (int j = 0; j < V; j += 2) {
      const auto pair = *reinterpret_cast<const Vector<int64_t, 2>*>(at + j);
      values[j] = pair.values[0];
      values[j + 1] = pair.values[1];
    }
  }
}
template <int V>
__device__ void store_indices(int64_t* at, const int (&values)[V]) {
  if constexpr (V == 1) {
    *at = values[0];
  } else {
#pragma unroll
    for (int j = 0; j < V; j += 2) {
      *reinterpret_cast<Vector<int64_t, 2>*>(at + j) =
          Vector<int64_t, 2>{{values[j], values[j + 1]}};
    }
  }
}

template <class T, int V>
__global__ void __launch_bounds__(block_size)
    max_pool_forward(const T* x, T* out, int64_t* indices, uint32_t vectors, PlaneLayout layout,
                     const __grid_constant__ Windows w) {
  using C = ComputeType<T>;
  const uint32_t i = (blockIdx.x * block_size + threadIdx.x) * V;
  if (i >= vectors * V) return;
  uint32_t at;
  int64_t line;
  layout.split(i, w.out_plane, at, line);
  int o[3];
  Windows::coordinates(at, w.out_rows, w.out_row, o);
  const T* from = x + layout.base(line, w.in_plane.divisor);
  const int64_t step = layout.step();
  C best[V];
  int where[V];
  const int first = (w.d0.start(o[0]) * w.d1.in + w.d1.start(o[1])) * w.d2.in + w.d2.start(o[2]);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    best[j] = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                   : std::numeric_limits<C>::lowest();
    where[j] = first;
  }
  w.for_inputs(o, [&](int64_t offset) {
    C values[V];
    load<V>(from + offset * step, values);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (values[j] > best[j] || values[j] != values[j]) {
        best[j] = values[j];
        where[j] = static_cast<int>(offset);
      }
    }
  });
  Vector<T, V> words;
#pragma unroll
  for (int j = 0; j < V; ++j) words.values[j] = static_cast<T>(best[j]);
  *reinterpret_cast<Vector<T, V>*>(out + i) = words;
  if (indices) store_indices<V>(indices + i, where);
}

// Calls body(integral constant V) for tensors of this layout, all of which may be read in vectors
// of channels if V is more than 1.
template <class T, class Body>
void with_channels(const PlaneLayout& layout, std::initializer_list<const void*> tensors,
                   const Body& body) {
  constexpr int wide = 16 / static_cast<int>(sizeof(T));
  bool vectors = wide > 1 && layout.last && layout.channels.divisor % wide == 0;
  for (const void* data : tensors) vectors = vectors && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  if (vectors) return body(std::integral_constant<int, std::max(wide, 1)>());
  body(std::integral_constant<int, 1>());
}

void max_pool_part(const Tensor& x, const Tensor& out, const Tensor& indices,
                   const PoolGeometry& geometry) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating | dtypes::Signed | DType::uint8>(
      "max_pool2d", x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const PlaneLayout layout(out, x);
        int64_t* chosen = indices.defined() ? indices.data<int64_t>() : nullptr;
        with_channels<T>(layout, {x.raw(), out.raw(), chosen}, [&](auto width) {
          const int64_t vectors = out.numel() / width();
          launch("max_pool", max_pool_forward<T, width()>, blocks_for(vectors, block_size),
                 block_size, x.data<T>(), out.data<T>(), chosen, static_cast<uint32_t>(vectors),
                 layout, Windows(geometry));
        });
      });
}
KERNEL_FOR(max_pool, [](const Tensor& x, const Tensor& out, const Tensor& indices,
                        const PoolGeometry& geometry) {
  by_samples(
      "max_pool", [&](const auto&... parts) { max_pool_part(parts..., geometry); }, x, out,
      indices);
})

struct TwoPlanes {
  Divider small;  // of outputs
  int64_t large;  // of inputs
  TwoPlanes(const Tensor& outputs, const Tensor& inputs)
      : small(static_cast<uint32_t>(plane_of(outputs))), large(plane_of(inputs)) {}
  static int64_t plane_of(const Tensor& x) {
    int64_t size = 1;
    for (int64_t d = 2; d < x.dim(); ++d) size *= x.sizes()[d];
    return size;
  }
};

// A thread for each input, or V channels of it, adds up the gradients of the windows that chose it.
template <class T, int V>
__global__ void __launch_bounds__(block_size)
    max_pool_collect(const T* grad, const int64_t* indices, T* grad_x, uint32_t vectors,
                     PlaneLayout layout, const __grid_constant__ Windows w) {
  using C = ComputeType<T>;
  const uint32_t i = (blockIdx.x * block_size + threadIdx.x) * V;
  if (i >= vectors * V) return;
  uint32_t at;
  int64_t line;
  layout.split(i, w.in_plane, at, line);
  int x[3];
  Windows::coordinates(at, w.in_rows, w.in_row, x);
  const int64_t base = layout.base(line, w.out_plane.divisor), step = layout.step();
  C sums[V] = {};
  for (int o0 = w.d0.first_of(x[0]); o0 < w.d0.last_of(x[0]); ++o0) {
    for (int o1 = w.d1.first_of(x[1]); o1 < w.d1.last_of(x[1]); ++o1) {
      for (int o2 = w.d2.first_of(x[2]); o2 < w.d2.last_of(x[2]); ++o2) {
        const int64_t place = base + ((int64_t{o0} * w.d1.out + o1) * w.d2.out + o2) * step;
        int64_t chosen[V];
        C gradients[V];
        load_indices<V>(indices + place, chosen);
        load<V>(grad + place, gradients);
#pragma unroll
        for (int j = 0; j < V; ++j) sums[j] += chosen[j] == at ? gradients[j] : C(0);
      }
    }
  }
  Vector<T, V> words;
#pragma unroll
  for (int j = 0; j < V; ++j) words.values[j] = static_cast<T>(sums[j]);
  *reinterpret_cast<Vector<T, V>*>(grad_x + i) = words;
}

// The same for contiguous planes: a thread has up to `row_chunk` neighbours in a row, so that what
// there is to compute of windows is computed once for all of them.
constexpr int row_chunk = 4;
template <class T>
__global__ void __launch_bounds__(block_size)
    max_pool_collect_rows(const T* grad, const int64_t* indices, T* grad_x, uint32_t chunks,
                          Divider in_row, const __grid_constant__ Windows w) {
  using C = ComputeType<T>;
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= chunks) return;
  const uint32_t row = in_row.divide(i), deep = w.in_rows.divide(row);
  const int x2 = static_cast<int>(i - row * in_row.divisor) * row_chunk;
  const int x1 = static_cast<int>(row - deep * w.in_rows.divisor);
  const uint32_t plane = deep / w.d0.in;
  const int x0 = static_cast<int>(deep - plane * w.d0.in);
  const int count = min(row_chunk, w.d2.in - x2);
  const int at = (x0 * w.d1.in + x1) * w.d2.in + x2;
  const int first = w.d2.first_of(x2), last = w.d2.last_of(x2 + count - 1);
  C sums[row_chunk] = {};
  for (int o0 = w.d0.first_of(x0), e0 = w.d0.last_of(x0); o0 < e0; ++o0) {
    for (int o1 = w.d1.first_of(x1), e1 = w.d1.last_of(x1); o1 < e1; ++o1) {
      const uint32_t from = plane * w.out_plane.divisor + (o0 * w.d1.out + o1) * w.d2.out;
      for (int o2 = first; o2 < last; ++o2) {
        const int chosen = static_cast<int>(indices[from + o2]) - at;
        const C gradient = static_cast<C>(grad[from + o2]);
#pragma unroll
        for (int j = 0; j < row_chunk; ++j) sums[j] += chosen == j ? gradient : C(0);
      }
    }
  }
  T* to = grad_x + row * static_cast<uint32_t>(w.d2.in) + x2;
  if (w.d2.in % row_chunk == 0 && reinterpret_cast<uintptr_t>(grad_x) % 16 == 0) {
    Vector<T, row_chunk> words;
#pragma unroll
    for (int j = 0; j < row_chunk; ++j) words.values[j] = static_cast<T>(sums[j]);
    *reinterpret_cast<Vector<T, row_chunk>*>(to) = words;
    return;
  }
#pragma unroll
  for (int j = 0; j < row_chunk; ++j) {
    if (j < count) to[j] = static_cast<T>(sums[j]);
  }
}

void max_pool_backward_part(const Tensor& grad_x, const Tensor& grad, const Tensor& indices,
                            const PoolGeometry& geometry) {
  const char* op = "max_pool_backward";
  const int device = grad_x.device().index;
  const DeviceGuard guard(device);
  if (grad.numel() == 0) {  // adaptive pooling to nothing
    check(cudaMemsetAsync(grad_x.raw(), 0, grad_x.numel() * grad_x.item_size(),
                          current_handle(device)),
          op);
    return;
  }
  dispatch<dtypes::Floating>("max_pool2d_backward", grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PlaneLayout layout(grad, grad_x);
    const Windows windows(geometry);
    if (!layout.last) {
      const auto row = static_cast<uint32_t>((windows.d2.in + row_chunk - 1) / row_chunk);
      const int64_t chunks = grad_x.numel() / windows.d2.in * row;
      launch(op, max_pool_collect_rows<T>, blocks_for(chunks, block_size), block_size,
             grad.data<T>(), indices.data<int64_t>(), grad_x.data<T>(),
             static_cast<uint32_t>(chunks), Divider(row), windows);
      return;
    }
    with_channels<T>(layout, {grad.raw(), indices.raw(), grad_x.raw()}, [&](auto width) {
      const int64_t vectors = grad_x.numel() / width();
      launch(op, max_pool_collect<T, width()>, blocks_for(vectors, block_size), block_size,
             grad.data<T>(), indices.data<int64_t>(), grad_x.data<T>(),
             static_cast<uint32_t>(vectors), layout, windows);
    });
  });
}
KERNEL_FOR(max_pool_backward, [](const Tensor& grad, const Tensor& indices, const Tensor& grad_x,
                                 const PoolGeometry& geometry) {
  by_samples(
      "max_pool_backward",
      [&](const auto&... parts) { max_pool_backward_part(parts..., geometry); }, grad_x, grad,
      indices);
})

template <class T>
__global__ void __launch_bounds__(block_size)
    max_pool_gather(const T* x, const int64_t* indices, T* out, uint32_t count, PlaneLayout layout,
                    TwoPlanes planes) {
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= count) return;
  uint32_t at;
  int64_t line;
  layout.split(i, planes.small, at, line);
  out[i] = x[layout.base(line, planes.large) + indices[i] * layout.step()];
}

void max_pool_take_part(const Tensor& x, const Tensor& indices, const Tensor& out) {
  const DeviceGuard guard(x.device().index);
  dispatch_size(x.item_size(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    launch("max_pool", max_pool_gather<T>, blocks_for(out.numel(), block_size), block_size,
           static_cast<const T*>(x.raw()), indices.data<int64_t>(), static_cast<T*>(out.raw()),
           static_cast<uint32_t>(out.numel()), PlaneLayout(out, x), TwoPlanes(out, x));
  });
}
KERNEL_FOR(max_pool_take, [](const Tensor& x, const Tensor& indices, const Tensor& out) {
  by_samples("max_pool", max_pool_take_part, x, indices, out);
})

// --- Averages ------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size)
    avg_pool_forward(const T* x, T* out, uint32_t count, PlaneLayout layout,
                     const __grid_constant__ Windows w) {
  using C = ComputeType<T>;
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= count) return;
  uint32_t at;
  int64_t line;
  layout.split(i, w.out_plane, at, line);
  int o[3];
  Windows::coordinates(at, w.out_rows, w.out_row, o);
  const T* from = x + layout.base(line, w.in_plane.divisor);
  const int64_t step = layout.step();
  C sum = 0;
  w.for_inputs(o, [&](int64_t offset) { sum += static_cast<C>(from[offset * step]); });
  out[i] = static_cast<T>(sum / w.template weight<C>(o));
}

void avg_pool_part(const Tensor& x, const Tensor& out, const PoolGeometry& geometry) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating | DType::int64>("avg_pool2d", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("avg_pool", avg_pool_forward<T>, blocks_for(out.numel(), block_size), block_size,
           x.data<T>(), out.data<T>(), static_cast<uint32_t>(out.numel()), PlaneLayout(out, x),
           Windows(geometry));
  });
}
KERNEL_FOR(avg_pool, [](const Tensor& x, const Tensor& out, const PoolGeometry& geometry) {
  by_samples(
      "avg_pool", [&](const auto&... parts) { avg_pool_part(parts..., geometry); }, x, out);
})

// A thread for each input adds up its shares of the windows that hold it.
template <class T>
__global__ void __launch_bounds__(block_size)
    avg_pool_gather(const T* grad, T* grad_x, uint32_t count, PlaneLayout layout,
                    const __grid_constant__ Windows w) {
  using C = ComputeType<T>;
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= count) return;
  uint32_t at;
  int64_t line;
  layout.split(i, w.in_plane, at, line);
  int x[3];
  Windows::coordinates(at, w.in_rows, w.in_row, x);
  const T* from = grad + layout.base(line, w.out_plane.divisor);
  const int64_t step = layout.step();
  C sum = 0;
  int o[3];
  for (o[0] = w.d0.first_of(x[0]); o[0] < w.d0.last_of(x[0]); ++o[0]) {
    for (o[1] = w.d1.first_of(x[1]); o[1] < w.d1.last_of(x[1]); ++o[1]) {
      for (o[2] = w.d2.first_of(x[2]); o[2] < w.d2.last_of(x[2]); ++o[2]) {
        const int64_t place = (int64_t{o[0]} * w.d1.out + o[1]) * w.d2.out + o[2];
        sum += static_cast<C>(from[place * step]) / w.template weight<C>(o);
      }
    }
  }
  grad_x[i] = static_cast<T>(sum);
}

void avg_pool_backward_part(const Tensor& grad_x, const Tensor& grad,
                            const PoolGeometry& geometry) {
  const DeviceGuard guard(grad.device().index);
  dispatch<dtypes::Floating>("avg_pool2d_backward", grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("avg_pool_backward", avg_pool_gather<T>, blocks_for(grad_x.numel(), block_size),
           block_size, grad.data<T>(), grad_x.data<T>(), static_cast<uint32_t>(grad_x.numel()),
           PlaneLayout(grad_x, grad), Windows(geometry));
  });
}
KERNEL_FOR(avg_pool_backward, [](const Tensor& grad, const Tensor& grad_x,
                                 const PoolGeometry& geometry) {
  by_samples(
      "avg_pool_backward",
      [&](const auto&... parts) { avg_pool_backward_part(parts..., geometry); }, grad_x, grad);
})

}  // namespace
}  // namespace flambeau::cuda
