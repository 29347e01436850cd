// Pooling in one to three dimensions: maxima and averages over windows, given or adaptive. Averages
// are linear; the gradient of a maximum goes to the element that was chosen.
#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// --- Windows -------------------------------------------------------------------------------------

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

struct Window {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode;
};

int64_t pooled_size(int64_t in, const Window& w, size_t d) {
  const int64_t span = in + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
  int64_t out = floor_div(span + (w.ceil_mode ? w.stride[d] - 1 : 0), w.stride[d]) + 1;
  // The last window must start inside the input or the padding before it.
  if (w.ceil_mode && (out - 1) * w.stride[d] >= in + w.padding[d]) --out;
  return out;
}

// Drops the taps of a window that lie in the padding for every output: a window may be far larger
// than its input.
void leave_padding_out(PoolDim& dim) {
  const int64_t before = dim.padding - (dim.out - 1) * dim.stride;  // of the last output's window
  if (before > 0) {
    const int64_t taps = std::min((before + dim.step - 1) / dim.step, dim.kernel - 1);
    dim.kernel -= taps;
    dim.padding -= taps * dim.step;
  }
  dim.kernel = std::min(dim.kernel, std::max<int64_t>(dim.in + dim.padding - 1, 0) / dim.step + 1);
}

PoolDim window_dim(int64_t in, const Window& w, size_t d, bool count_padding) {
  PoolDim dim;
  dim.in = in;
  dim.out = pooled_size(in, w, d);
  dim.step = w.dilation[d];
  dim.kernel = w.kernel[d], dim.stride = w.stride[d], dim.padding = w.padding[d];
  if (dim.out > 0 && !count_padding) leave_padding_out(dim);
  dim.start.clear(), dim.end.clear(), dim.extent.clear();
  for (int64_t i = 0; i < dim.out; ++i) {
    int64_t start = i * w.stride[d] - w.padding[d];
    const int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
    const int64_t padded_end = std::min(start + reach, in + w.padding[d]);
    const int64_t padded = padded_end - start, end = std::min(padded_end, in);
    if (start < 0) start += (-start + dim.step - 1) / dim.step * dim.step;
    dim.start.push_back(start);
    dim.end.push_back(end);
    dim.extent.push_back(count_padding ? padded : end - start);
  }
  return dim;
}

PoolDim adaptive_dim(int64_t in, int64_t out) {
  PoolDim dim;
  dim.in = in;
  dim.out = out;
  dim.regular = false;
  dim.start.clear(), dim.end.clear(), dim.extent.clear();
  for (int64_t i = 0; i < out; ++i) {
    dim.start.push_back(i * in / out);
    dim.end.push_back(((i + 1) * in + out - 1) / out);
    dim.extent.push_back(dim.end.back() - dim.start.back());
  }
  return dim;
}

Dims pooled_shape(const Tensor& x, const PoolGeometry& g, size_t rank) {
  Dims shape{x.sizes()[0], x.sizes()[1]};
  for (size_t d = 0; d < rank; ++d) shape.push_back(g.dims[3 - rank + d].out);
  return shape;
}

Tensor empty_in(IntSpan sizes, MemoryFormat format, DType dtype, Device device) {
  if (format == MemoryFormat::contiguous) return make_tensor(sizes, dtype, device);
  return make_strided(sizes, format_strides(sizes, format), dtype, device);
}

// Of all poolings of volumes only max_pool3d keeps channels last, as in PyTorch.
Tensor channels_first(const Tensor& x, size_t rank) { return rank == 3 ? contiguous(x) : x; }

// One volume tells by where its elements lie that channels come last: its only batch has no stride.
MemoryFormat maxima_format(const Tensor& x) {
  const bool one_volume = x.dim() == 5 && x.sizes()[0] == 1 && !x.is_contiguous();
  return one_volume && x.is_contiguous(MemoryFormat::channels_last_3d)
             ? MemoryFormat::channels_last_3d
             : suggest_format(x);
}

// --- Maxima --------------------------------------------------------------------------------------

// Shared by the passes of one pooling.
using Geometry = std::shared_ptr<const PoolGeometry>;

Tensor max_pool_take(const Tensor& x, const Tensor& indices, const Geometry& geometry);

Tensor max_pool_backward(const Tensor& grad, const Tensor& indices, IntSpan x_sizes,
                         const Geometry& geometry) {
  const MemoryFormat format = suggest_format(indices);
  Tensor grad_x = empty_in(x_sizes, format, grad.dtype(), grad.device());
  {
    const NoGrad off;
    if (grad_x.numel() != 0) {
      kernels::max_pool_backward(grad.device_type(), contiguous(grad, format), indices, grad_x,
                                 *geometry);
    }
  }
  if (Record r{"max_pool_backward", grad_x, {grad}}) {
    r.wrt(0, [indices = r.save(indices), geometry](const Tensor& gg) {
      return max_pool_take(gg, indices(), geometry);
    });
  }
  return grad_x;
}

Tensor max_pool_take(const Tensor& x, const Tensor& indices, const Geometry& geometry) {
  const MemoryFormat format = suggest_format(indices);
  Tensor out = empty_in(indices.sizes(), format, x.dtype(), x.device());
  {
    const NoGrad off;
    if (out.numel() != 0) {
      kernels::max_pool_take(x.device_type(), contiguous(x, format), indices, out);
    }
  }
  if (Record r{"max_pool_take", out, {x}}) {
    r.wrt(0, [indices = r.save(indices), geometry, sizes = x.sizes().dims()](const Tensor& g) {
      return max_pool_backward(g, indices(), sizes, geometry);
    });
  }
  return out;
}

// The maxima and, where somebody needs them, their indices.
std::pair<Tensor, Tensor> max_pool(const char* op, const Tensor& x, const PoolGeometry& geometry,
                                   size_t rank, bool want_indices) {
  const MemoryFormat format = maxima_format(x);
  const Dims shape = pooled_shape(x, geometry, rank);
  Tensor out = empty_in(shape, format, x.dtype(), x.device()), indices;
  const bool records = grad_enabled() && x.requires_grad();
  if (want_indices || records) indices = empty_in(shape, format, DType::int64, x.device());
  {
    const NoGrad off;
    if (out.numel() != 0) {
      kernels::max_pool(x.device_type(), contiguous(x, format), out, indices, geometry);
    }
  }
  if (Record r{op, out, {x}}) {
    // Saved, so that backward refuses indices that the caller has since overwritten.
    r.wrt(0, [saved = r.save(indices), shared = std::make_shared<const PoolGeometry>(geometry),
              sizes = x.sizes().dims()](const Tensor& g) {
      return max_pool_backward(g, saved(), sizes, shared);
    });
  }
  return {out, indices};
}

// --- Averages ------------------------------------------------------------------------------------

Tensor avg_pool_backward(const char* op, const Tensor& grad, IntSpan x_sizes, MemoryFormat format,
                         const PoolGeometry& geometry);

Tensor avg_pool(const char* op, const Tensor& x, const PoolGeometry& geometry, size_t rank) {
  const MemoryFormat format = suggest_format(x);
  Tensor out = empty_in(pooled_shape(x, geometry, rank), format, x.dtype(), x.device());
  {
    const NoGrad off;
    if (out.numel() != 0) kernels::avg_pool(x.device_type(), contiguous(x, format), out, geometry);
  }
  if (Record r{op, out, {x}}) {
    r.wrt(0, [op, sizes = x.sizes().dims(), format, geometry](const Tensor& g) {
      return avg_pool_backward(op, g, sizes, format, geometry);
    });
  }
  return out;
}

Tensor avg_pool_backward(const char* op, const Tensor& grad, IntSpan x_sizes, MemoryFormat format,
                         const PoolGeometry& geometry) {
  Tensor grad_x = empty_in(x_sizes, format, grad.dtype(), grad.device());
  {
    const NoGrad off;
    if (grad.numel() == 0) {
      zero_(grad_x);
    } else if (grad_x.numel() != 0) {
      kernels::avg_pool_backward(grad.device_type(), contiguous(grad, format), grad_x, geometry);
    }
  }
  if (Record r{op, grad_x, {grad}}) {
    r.wrt(0, [op, geometry, rank = x_sizes.size() - 2](const Tensor& gg) {
      return avg_pool(op, gg, geometry, rank);
    });
  }
  return grad_x;
}

// --- Arguments -----------------------------------------------------------------------------------

Dims expand_values(const char* op, const char* name, IntSpan values, size_t rank) {
  static constexpr const char* words[] = {"zero", "one int", "two ints", "three ints"};
  CHECK(values.size() == 1 || values.size() == rank, RuntimeError,
        "{}: {} must either be a single int, or a tuple of {}, got {}", op, name, words[rank],
        values);
  return values.size() == rank ? values.dims() : Dims(rank, values[0]);
}

Window check_window(const char* op, size_t rank, IntSpan kernel, std::optional<IntSpan> stride,
                    IntSpan padding, IntSpan dilation, bool ceil_mode) {
  Window w{expand_values(op, "kernel_size", kernel, rank),
           expand_values(op, "stride", stride && !stride->empty() ? *stride : kernel, rank),
           expand_values(op, "padding", padding, rank),
           expand_values(op, "dilation", dilation, rank), ceil_mode};
  for (size_t d = 0; d < rank; ++d) {
    CHECK(w.stride[d] != 0, RuntimeError, "stride should not be zero ({}: stride {})", op,
          w.stride);
    CHECK(w.stride[d] > 0 && w.kernel[d] > 0, RuntimeError,
          "kernel size should be greater than zero, but got kernel_size {} and stride {}", w.kernel,
          w.stride);
    CHECK(w.dilation[d] > 0, RuntimeError,
          "dilation should be greater than zero, but got dilation {}", w.dilation);
    CHECK(w.padding[d] >= 0, RuntimeError, "pad must be non-negative, but got pad: {}",
          w.padding[d]);
    // A quarter of the range leaves space for the sums that geometry is made of.
    int64_t reach = 0;
    const bool overflows = __builtin_mul_overflow(w.kernel[d] - 1, w.dilation[d], &reach);
    CHECK(!overflows && reach < INT64_MAX / 4 && w.stride[d] < INT64_MAX / 4, RuntimeError,
          "effective kernel size overflows, but got kernel_size={} and dilation={}", w.kernel[d],
          w.dilation[d]);
    CHECK(w.padding[d] <= ((w.kernel[d] - 1) * w.dilation[d] + 1) / 2, RuntimeError,
          "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and "
          "dilation={}",
          w.padding[d], w.kernel[d], w.dilation[d]);
  }
  return w;
}

void check_pool_input(const char* op, const Tensor& input, size_t rank) {
  const size_t dims = input.dim();
  bool filled = true;
  for (size_t d = dims == rank + 2 ? 1 : 0; d < dims; ++d) filled &= input.sizes()[d] != 0;
  CHECK((dims == rank + 1 || dims == rank + 2) && filled, RuntimeError,
        "{}: Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but "
        "got:{}",
        op, rank + 1, rank + 2, input.sizes());
}

std::string joined(IntSpan sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

PoolGeometry window_geometry(const Tensor& x, size_t rank, const Window& window,
                             bool count_padding) {
  PoolGeometry geometry;
  Dims out{x.sizes()[1]};
  bool fits = true;
  for (size_t d = 0; d < rank; ++d) {
    out.push_back(pooled_size(x.sizes()[d + 2], window, d));
    fits &= out.back() >= 1;
  }
  CHECK(fits, RuntimeError,
        "Given input size: ({}). Calculated output size: ({}). Output size is too small",
        joined(x.sizes().from(1)), joined(out));
  for (size_t d = 0; d < rank; ++d) {
    geometry.dims[3 - rank + d] = window_dim(x.sizes()[d + 2], window, d, count_padding);
  }
  return geometry;
}

// The input with a batch dimension, and the way back.
struct Batched {
  Batched(const Tensor& input, size_t rank)
      : added(static_cast<size_t>(input.dim()) == rank + 1),
        x(added ? unsqueeze(input, 0) : input) {}
  [[nodiscard]] Tensor back(const Tensor& result) const {
    return added ? squeeze(result, int64_t{0}) : result;
  }
  bool added;
  Tensor x;
};

std::pair<Tensor, Tensor> max_pool_nd(const char* op, const char* node, size_t rank,
                                      const Tensor& input, IntSpan kernel,
                                      std::optional<IntSpan> stride, IntSpan padding,
                                      IntSpan dilation, bool ceil_mode, bool want_indices) {
  const Window window = check_window(op, rank, kernel, stride, padding, dilation, ceil_mode);
  check_pool_input(op, input, rank);
  compute_dtype(op, rank == 1 ? dtypes::OnlyFloating : dtypes::Real, input.dtype());
  const Batched batch(input, rank);
  const auto [out, indices] =
      max_pool(node, batch.x, window_geometry(batch.x, rank, window, false), rank, want_indices);
  return {batch.back(out), want_indices ? batch.back(indices) : Tensor()};
}

#define MAX_POOL(name, rank, policy)                                                             \
  Tensor name(const Tensor& input, IntSpan kernel_size, std::optional<IntSpan> stride,           \
              IntSpan padding, IntSpan dilation, bool ceil_mode) {                               \
    return max_pool_nd(#name, #name "_with_indices", rank, input, kernel_size, stride, padding,  \
                       dilation, ceil_mode, false)                                               \
        .first;                                                                                  \
  }                                                                                              \
  std::tuple<Tensor, Tensor> name##_with_indices(const Tensor& input, IntSpan kernel_size,       \
                                                 std::optional<IntSpan> stride, IntSpan padding, \
                                                 IntSpan dilation, bool ceil_mode) {             \
    auto [out, indices] = max_pool_nd(#name, #name "_with_indices", rank, input, kernel_size,    \
                                      stride, padding, dilation, ceil_mode, true);               \
    return {out, indices};                                                                       \
  }                                                                                              \
  OP_FUNCTION(name,                                                                              \
              #name "(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)", \
              "The maximum of each window.", policy | no_out)                                    \
  OP_FUNCTION(                                                                                   \
      name##_with_indices,                                                                       \
      #name                                                                                      \
      "_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)",  \
      "The maximum of each window, and its place in the plane of its channel.", policy)
MAX_POOL(max_pool1d, 1, plain)
MAX_POOL(max_pool2d, 2, plain)
MAX_POOL(max_pool3d, 3, cpu_exact)
#undef MAX_POOL

// What PyTorch averages over windows: int64 besides floats, and in three dimensions no halves on
// the CPU.
DTypeSet average_dtypes(size_t rank, Device device) {
  constexpr DTypeSet full = dtypes::Floating - dtypes::Reduced;
  return (rank == 3 && device.is_cpu() ? full : dtypes::Floating) | DType::int64;
}

// In three dimensions PyTorch does not let padding make up for an image smaller than the window.
void check_kernel_fits(const Tensor& batch, IntSpan kernel) {
  const IntSpan image = batch.sizes().from(2);
  const auto length = [&](size_t d) { return kernel.size() == 1 ? kernel[0] : kernel[d]; };
  CHECK(image[0] >= length(0) && image[1] >= length(1) && image[2] >= length(2), RuntimeError,
        "input image (T: {} H: {} W: {}) smaller than kernel size (kT: {} kH: {} kW: {})", image[0],
        image[1], image[2], length(0), length(1), length(2));
}

Tensor avg_pool_nd(const char* op, size_t rank, const Tensor& input, IntSpan kernel,
                   std::optional<IntSpan> stride, IntSpan padding, bool ceil_mode,
                   bool count_include_pad, std::optional<int64_t> divisor_override) {
  const Window window = check_window(op, rank, kernel, stride, padding, int64_t{1}, ceil_mode);
  CHECK(!divisor_override || *divisor_override != 0, RuntimeError, "divisor must be not zero");
  if (rank == 2) wrap_dim(op, -3, input.dim());  // PyTorch looks for the channels first
  check_pool_input(op, input, rank);
  compute_dtype(op, average_dtypes(rank, input.device()), input.dtype());
  const Batched batch(input, rank);
  if (rank == 3) check_kernel_fits(batch.x, kernel);
  PoolGeometry geometry = window_geometry(batch.x, rank, window, count_include_pad);
  geometry.divisor = static_cast<double>(divisor_override.value_or(0));
  return batch.back(avg_pool(op, channels_first(batch.x, rank), geometry, rank));
}

Tensor avg_pool1d(const Tensor& input, IntSpan kernel_size, std::optional<IntSpan> stride,
                  IntSpan padding, bool ceil_mode, bool count_include_pad) {
  return avg_pool_nd("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, {});
}
OP_FUNCTION(avg_pool1d,
            "avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, "
            "count_include_pad=True)",
            "The average of each window.", no_out)
#define AVG_POOL(name, rank, policy)                                                           \
  Tensor name(const Tensor& input, IntSpan kernel_size, std::optional<IntSpan> stride,         \
              IntSpan padding, bool ceil_mode, bool count_include_pad,                         \
              std::optional<int64_t> divisor_override) {                                       \
    return avg_pool_nd(#name, rank, input, kernel_size, stride, padding, ceil_mode,            \
                       count_include_pad, divisor_override);                                   \
  }                                                                                            \
  OP_FUNCTION(                                                                                 \
      name,                                                                                    \
      #name                                                                                    \
      "(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, " \
      "divisor_override=None)",                                                                \
      "The average of each window.", policy)
AVG_POOL(avg_pool2d, 2, plain)
AVG_POOL(avg_pool3d, 3, cpu_exact)
#undef AVG_POOL

// --- Adaptive pooling ----------------------------------------------------------------------------

PoolGeometry adaptive_geometry(const char* op, size_t rank, const Tensor& input,
                               IntSpan output_size, Dims& sizes) {
  const size_t dims = input.dim();
  CHECK(dims == rank + 1 || dims == rank + 2, RuntimeError,
        "{}(): Expected {}D or {}D tensor, but got {}", op, rank + 1, rank + 2, input.sizes());
  CHECK(output_size.size() == rank || output_size.size() == 1, RuntimeError,
        "{}: output_size must be {}, got {}", op, rank, output_size);
  for (size_t d = dims - rank; d < dims; ++d) {
    CHECK(input.sizes()[d] != 0, RuntimeError,
          "{}(): Expected input to have non-zero size for non-batch dimensions, but input has "
          "sizes {} "
          "with dimension {} being empty",
          op, input.sizes(), d);
  }
  sizes = output_size.size() == rank ? output_size.dims() : Dims(rank, output_size[0]);
  PoolGeometry geometry;
  for (size_t d = 0; d < rank; ++d) {
    CHECK(sizes[d] >= 0, RuntimeError,
          "{}: elements of output_size must be greater than or equal to 0 but received {}", op,
          sizes);
    // A window is described for each; so many would fill all memory before anything is computed.
    CHECK(sizes[d] <= INT32_MAX, RuntimeError, "{}: output_size {} is too large", op, sizes);
    geometry.dims[3 - rank + d] = adaptive_dim(input.sizes()[dims - rank + d], sizes[d]);
  }
  return geometry;
}

// Whether all is averaged to one number, which PyTorch does behind any number of dimensions, and to
// none where there is nothing to average.
bool is_mean_of_planes(size_t rank, const Tensor& input, IntSpan output_size) {
  const auto is_one = [](int64_t n) { return n == 1; };
  if (!std::all_of(output_size.begin(), output_size.end(), is_one)) return false;
  const IntSpan sizes = input.sizes();
  const bool usual = sizes.size() == rank + 1 || sizes.size() == rank + 2;
  if (!usual) return rank > 1;
  return output_size.size() > 0 && std::find(sizes.end() - rank, sizes.end(), 0) != sizes.end();
}

// One average over all of each channel.
Tensor mean_of_planes(const Tensor& input, int64_t rank) {
  Dims last;
  for (int64_t d = 1; d <= rank; ++d) last.push_back(-d);
  return mean(input, IntSpan(last), true, {});
}

#define ADAPTIVE_POOL(rank, policy)                                                                \
  Tensor adaptive_avg_pool##rank##d(const Tensor& input, IntSpan output_size) {                    \
    constexpr const char* op = "adaptive_avg_pool" #rank "d";                                      \
    if (is_mean_of_planes(rank, input, output_size)) return mean_of_planes(input, rank);           \
    Dims sizes;                                                                                    \
    const PoolGeometry geometry = adaptive_geometry(op, rank, input, output_size, sizes);          \
    const bool one_each = sizes == Dims(rank, 1);                                                  \
    if (one_each && input.is_complex()) return mean_of_planes(input, rank);                        \
    compute_dtype(op, dtypes::OnlyFloating, input.dtype());                                        \
    if (one_each && input.is_contiguous()) return mean_of_planes(input, rank);                     \
    const Batched batch(input, rank);                                                              \
    return batch.back(                                                                             \
        avg_pool(op, one_each ? batch.x : channels_first(batch.x, rank), geometry, rank));         \
  }                                                                                                \
  std::tuple<Tensor, Tensor> adaptive_max_pool##rank##d(const Tensor& input,                       \
                                                        IntSpan output_size) {                     \
    constexpr const char* op = "adaptive_max_pool" #rank "d";                                      \
    Dims sizes;                                                                                    \
    const PoolGeometry geometry = adaptive_geometry(op, rank, input, output_size, sizes);          \
    compute_dtype(op, dtypes::OnlyFloating, input.dtype());                                        \
    const Batched batch(input, rank);                                                              \
    CHECK(input.dim() == (rank) + 1 || batch.x.sizes()[1] > 0, RuntimeError,                       \
          "{}(): Expected input to have non-zero size for non-batch dimensions, but input "        \
          "has sizes {} with dimension {} being empty",                                            \
          op, input.sizes(), input.dim() - rank - 1);                                              \
    const auto [out, indices] = max_pool(op, channels_first(batch.x, rank), geometry, rank, true); \
    return {batch.back(out), batch.back(indices)};                                                 \
  }                                                                                                \
  OP_FUNCTION(adaptive_avg_pool##rank##d, "adaptive_avg_pool" #rank "d(input, output_size)",       \
              "Averages of windows chosen so that the output has the given size.", policy)         \
  OP_FUNCTION(                                                                                     \
      adaptive_max_pool##rank##d, "adaptive_max_pool" #rank "d(input, output_size)",               \
      "Maxima of windows chosen so that the output has the given size, and their indices.",        \
      policy)
ADAPTIVE_POOL(1, no_out)
ADAPTIVE_POOL(2, plain)
ADAPTIVE_POOL(3, cpu_exact)
#undef ADAPTIVE_POOL

}  // namespace
BATCH(max_pool1d, batch_items<2>)
BATCH(max_pool1d_with_indices, batch_items<2>)
BATCH(avg_pool1d, batch_items<2>)
BATCH(adaptive_avg_pool1d, batch_items<2>)
BATCH(adaptive_max_pool1d, batch_items<2>)
BATCH(max_pool2d, batch_items<3>)
BATCH(max_pool2d_with_indices, batch_items<3>)
BATCH(avg_pool2d, batch_items<3>)
BATCH(adaptive_avg_pool2d, batch_items<3>)
BATCH(adaptive_max_pool2d, batch_items<3>)
BATCH(max_pool3d, batch_items<4>)
BATCH(max_pool3d_with_indices, batch_items<4>)
BATCH(avg_pool3d, batch_items<4>)
BATCH(adaptive_avg_pool3d, batch_items<4>)
BATCH(adaptive_max_pool3d, batch_items<4>)

}  // namespace flambeau
