// Interpolation along one dimension, and windows to columns and back, on CUDA: a thread for each
// result, which gathers what belongs to it.
#include <numeric>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/graph.h"
#include "flambeau/kernels/vision.h"

namespace flambeau::cuda {
namespace {

constexpr DTypeSet wide_types = DTypeSet(DType::float32) | DType::float64;

__device__ inline int64_t my_index() {
  return static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
}

// A table on the device: for result i the sources index[start[i]] .. and their weights.
template <class T>
struct Sources {
  const int32_t *start, *index;
  const T* weight;
};

// Such a table of the interpolation or, with `adjoint`, of its gradient. Small, and copied through
// the driver's own buffer: the vectors may go when this returns.
template <class T>
class SourceTable {
 public:
  SourceTable(const ResampleTable& t, bool adjoint, int device)
      : results_(adjoint ? t.in : t.out),
        entries_(std::accumulate(t.count.begin(), t.count.end(), int64_t{0})),
        memory_(bytes(), device) {
    std::vector<char> host(bytes());
    auto* start = reinterpret_cast<int32_t*>(host.data() + entries_ * sizeof(T));
    auto* index = start + results_ + 1;
    T* weight = reinterpret_cast<T*>(host.data());
    std::fill_n(start, results_ + 1, 0);
    const auto for_entries = [&](const auto& body) {
      for (int64_t i = 0; i < t.out; ++i) {
        for (int32_t k = 0; k < t.count[i]; ++k) {
          const int32_t from = t.index[i * t.taps + k];
          const double factor = t.copies ? 1.0 : t.weight[i * t.taps + k];
          body(adjoint ? from : static_cast<int32_t>(i), adjoint ? static_cast<int32_t>(i) : from,
               static_cast<T>(factor));
        }
      }
    };
    for_entries([&](int32_t result, int32_t, T) { ++start[result + 1]; });
    std::partial_sum(start, start + results_ + 1, start);
    std::vector<int32_t> next(start, start + results_);
    for_entries([&](int32_t result, int32_t source, T factor) {
      index[next[result]] = source;
      weight[next[result]++] = factor;
    });
    upload("interpolate", memory_.get(), host.data(), host.size(), device);
  }
  [[nodiscard]] Sources<T> get() const {
    const auto* start =
        reinterpret_cast<const int32_t*>(memory_.template get<char>() + entries_ * sizeof(T));
    return {start, start + results_ + 1, memory_.template get<const T>()};
  }

 private:
  [[nodiscard]] size_t bytes() const {
    return entries_ * sizeof(T) + (results_ + 1 + entries_) * sizeof(int32_t);
  }
  int64_t results_, entries_;
  Workspace memory_;
};

// x: (outer, in, inner) to out: (outer, count, inner).
template <class T>
__global__ void __launch_bounds__(block_size)
    gather_sources(const T* x, T* out, Sources<T> sources, int64_t numel, int64_t in, int64_t count,
                   int64_t inner) {
  const int64_t at = my_index();
  if (at >= numel) return;
  const int64_t j = at % inner, i = at / inner % count, outer = at / inner / count;
  const T* from = x + outer * in * inner + j;
  T sum = 0;
  for (int32_t k = sources.start[i]; k < sources.start[i + 1]; ++k) {
    sum += sources.weight[k] * from[sources.index[k] * inner];
  }
  out[at] = sum;
}

void run_table(const char* op, const Tensor& from, const Tensor& to, const ResampleTable& t,
               bool adjoint) {
  if (to.numel() == 0) return;
  const int device = from.device().index;
  const DeviceGuard guard(device);
  dispatch<wide_types>(op, from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SourceTable<T> table(t, adjoint, device);
    launch(op, gather_sources<T>, blocks_for(to.numel(), block_size), block_size, from.data<T>(),
           to.data<T>(), table.get(), to.numel(), from.sizes()[1], to.sizes()[1], from.sizes()[2]);
  });
}

template <class T>
__global__ void __launch_bounds__(block_size)
    copy_sources(const T* x, T* out, const int32_t* index, int64_t numel, int64_t in, int64_t count,
                 int64_t inner) {
  const int64_t at = my_index();
  if (at >= numel) return;
  const int64_t j = at % inner, i = at / inner % count, outer = at / inner / count;
  out[at] = x[(outer * in + index[i]) * inner + j];
}

void resample_kernel(const Tensor& x, const Tensor& out, const ResampleTable& t) {
  if (!t.copies) return run_table("upsample", x, out, t, false);
  if (out.numel() == 0) return;
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const Workspace index(t.out * sizeof(int32_t), device);
  upload("upsample", index.get(), t.index.data(), t.out * sizeof(int32_t), device);
  dispatch_size(x.item_size(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    launch("upsample", copy_sources<T>, blocks_for(out.numel(), block_size), block_size,
           static_cast<const T*>(x.raw()), static_cast<T*>(out.raw()), index.get<const int32_t>(),
           out.numel(), x.sizes()[1], out.sizes()[1], x.sizes()[2]);
  });
}
KERNEL_FOR(resample, resample_kernel)

void resample_backward_kernel(const Tensor& grad, const Tensor& grad_x, const ResampleTable& t) {
  run_table("upsample_backward", grad, grad_x, t, true);
}
KERNEL_FOR(resample_backward, resample_backward_kernel)

// --- Windows and columns -------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size)
    unfold_kernel(const T* x, T* columns, int64_t numel, WindowShape s) {
  const int64_t i = my_index();
  if (i >= numel) return;
  const int64_t windows = s.out[0] * s.out[1], kernel = s.kernel[0] * s.kernel[1];
  const int64_t window = i % windows, k = i / windows % kernel, plane = i / windows / kernel;
  const int64_t y =
      window / s.out[1] * s.stride[0] - s.padding[0] + k / s.kernel[1] * s.dilation[0];
  const int64_t z =
      window % s.out[1] * s.stride[1] - s.padding[1] + k % s.kernel[1] * s.dilation[1];
  const bool inside = y >= 0 && y < s.in[0] && z >= 0 && z < s.in[1];
  columns[i] = inside ? x[(plane * s.in[0] + y) * s.in[1] + z] : T();
}

void im2col_kernel(const Tensor& x, const Tensor& columns, const WindowShape& s) {
  if (columns.numel() == 0) return;
  const DeviceGuard guard(x.device().index);
  dispatch_size(x.item_size(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    launch("im2col", unfold_kernel<T>, blocks_for(columns.numel(), block_size), block_size,
           static_cast<const T*>(x.raw()), static_cast<T*>(columns.raw()), columns.numel(), s);
  });
}
KERNEL_FOR(im2col, im2col_kernel)

// A thread for each element of the image adds up the columns that hold it.
template <class T, class C>
__global__ void __launch_bounds__(block_size)
    fold_windows(const T* columns, T* x, int64_t numel, WindowShape s) {
  const int64_t i = my_index();
  if (i >= numel) return;
  const int64_t z = i % s.in[1], y = i / s.in[1] % s.in[0], plane = i / s.in[1] / s.in[0];
  const int64_t windows = s.out[0] * s.out[1];
  C sum = C(0);
  for (int64_t k = 0; k < s.kernel[0] * s.kernel[1]; ++k) {
    const int64_t top = y + s.padding[0] - k / s.kernel[1] * s.dilation[0];
    const int64_t left = z + s.padding[1] - k % s.kernel[1] * s.dilation[1];
    if (top < 0 || left < 0 || top % s.stride[0] || left % s.stride[1]) continue;
    const int64_t row = top / s.stride[0], column = left / s.stride[1];
    if (row >= s.out[0] || column >= s.out[1]) continue;
    const int64_t at = (plane * s.kernel[0] * s.kernel[1] + k) * windows + row * s.out[1] + column;
    sum = sum + static_cast<C>(columns[at]);
  }
  x[i] = static_cast<T>(sum);
}

void col2im_kernel(const Tensor& columns, const Tensor& x, const WindowShape& s) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::FloatingComplex | DType::bool_>("col2im", x.dtype(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = std::conditional_t<std::is_same_v<T, bool>, int, ComputeType<T>>;
    launch("col2im", fold_windows<T, C>, blocks_for(x.numel(), block_size), block_size,
           static_cast<const T*>(columns.raw()), static_cast<T*>(x.raw()), x.numel(), s);
  });
}
KERNEL_FOR(col2im, col2im_kernel)

}  // namespace
}  // namespace flambeau::cuda
