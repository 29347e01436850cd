// interpolate: each spatial dimension in turn is resampled by a table of weights, which is where
// the modes differ. The op is linear, so that its derivative is the same with the tables
// transposed.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/vision.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// --- Tables --------------------------------------------------------------------------------------

// Where outputs lie on the input's axis. Coordinates are computed in the type that PyTorch computes
// them in, since a rounding there decides which input is nearest.
template <class F>
struct Axis {
  int64_t in, out;
  F scale;  // inputs per output
  bool align_corners;

  Axis(int64_t in, int64_t out, double given_scale, bool align_corners)
      : in(in), out(out), align_corners(align_corners) {
    if (align_corners) {
      scale = out > 1 ? static_cast<F>(in - 1) / static_cast<F>(out - 1) : F(0);
    } else if (given_scale > 0) {
      scale = static_cast<F>(1.0 / given_scale);
    } else {
      scale = static_cast<F>(in) / static_cast<F>(out);
    }
  }
  [[nodiscard]] F source(int64_t i) const {
    return align_corners ? scale * static_cast<F>(i)
                         : scale * (static_cast<F>(i) + F(0.5)) - F(0.5);
  }
};

ResampleTable empty_table(int64_t in, int64_t out, int64_t taps) {
  ResampleTable table;
  table.in = in, table.out = out, table.taps = taps;
  table.index.assign(out * taps, 0);
  table.weight.assign(out * taps, 0.0);
  table.count.assign(out, static_cast<int32_t>(taps));
  return table;
}

ResampleTable identity_table(int64_t size) {
  ResampleTable table = empty_table(size, size, 1);
  table.copies = true;
  for (int64_t i = 0; i < size; ++i) table.index[i] = static_cast<int32_t>(i), table.weight[i] = 1;
  return table;
}

ResampleTable nearest_table(const Axis<float>& axis, bool exact) {
  ResampleTable table = empty_table(axis.in, axis.out, 1);
  table.copies = true;
  for (int64_t i = 0; i < axis.out; ++i) {
    const float place =
        exact ? (static_cast<float>(i) + 0.5f) * axis.scale : static_cast<float>(i) * axis.scale;
    int64_t at = static_cast<int64_t>(std::floor(place));
    if (!exact && axis.out == 2 * axis.in) at = i / 2;
    table.index[i] = static_cast<int32_t>(std::min(at, axis.in - 1));
    table.weight[i] = 1;
  }
  return table;
}

template <class F>
ResampleTable linear_table(const Axis<F>& axis) {
  ResampleTable table = empty_table(axis.in, axis.out, 2);
  for (int64_t i = 0; i < axis.out; ++i) {
    const F place = std::max(axis.source(i), F(0));
    const int64_t low = std::min(static_cast<int64_t>(place), axis.in - 1);
    const F rest = std::min(std::max(place - static_cast<F>(low), F(0)), F(1));
    table.index[2 * i] = static_cast<int32_t>(low);
    table.index[2 * i + 1] = static_cast<int32_t>(std::min(low + 1, axis.in - 1));
    table.weight[2 * i] = F(1) - rest, table.weight[2 * i + 1] = rest;
  }
  return table;
}

// Keys' cubic convolution at distance x.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

template <class F>
ResampleTable cubic_table(const Axis<F>& axis) {
  ResampleTable table = empty_table(axis.in, axis.out, 4);
  for (int64_t i = 0; i < axis.out; ++i) {
    const F place = axis.source(i);
    const int64_t low = static_cast<int64_t>(std::floor(place));
    const F rest = std::min(std::max(place - static_cast<F>(low), F(0)), F(1));
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t at = std::clamp<int64_t>(low - 1 + k, 0, axis.in - 1);
      table.index[4 * i + k] = static_cast<int32_t>(at);
      table.weight[4 * i + k] =
          cubic(static_cast<double>(k - 1) - static_cast<double>(rest), -0.75);
    }
  }
  return table;
}

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// The filters of antialiasing, by name: half their width, and their value at x.
struct Filter {
  double support;
  double (*at)(double x);
};
Filter filter_named(std::string_view mode) {
  if (mode == "bilinear") return {1, [](double x) { return std::max(1 - std::abs(x), 0.0); }};
  if (mode == "bicubic") return {2, [](double x) { return cubic(x, -0.5); }};
  return {3, [](double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0.0; }};
}

// A place between inputs as the number of those before it, however far outside it lies.
int64_t inputs_before(double place, int64_t in) {
  return place > 0 ? static_cast<int64_t>(std::min(place, static_cast<double>(in))) : 0;
}

// When shrinking, the filter is stretched over all inputs that an output stands for.
template <class F>
ResampleTable antialias_table(const Axis<F>& axis, const Filter& filter) {
  const double scale = axis.scale, stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch;
  ResampleTable table =
      empty_table(axis.in, axis.out, inputs_before(std::ceil(support), axis.in) * 2 + 1);
  for (int64_t i = 0; i < axis.out; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = inputs_before(center - support + 0.5, axis.in);
    const int64_t end = inputs_before(center + support + 0.5, axis.in);
    const int64_t count = std::clamp<int64_t>(end - first, 0, table.taps);
    double total = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double distance = static_cast<double>(first + k) - center + 0.5;
      total += table.weight[i * table.taps + k] = filter.at(distance / stretch);
      table.index[i * table.taps + k] = static_cast<int32_t>(first + k);
    }
    for (int64_t k = 0; k < count && total != 0; ++k) table.weight[i * table.taps + k] /= total;
    table.count[i] = static_cast<int32_t>(count);
  }
  return table;
}

struct Mode {
  std::string_view name;
  bool align_corners, antialias;
};

template <class F>
ResampleTable table_of(int64_t in, int64_t out, double scale, const Mode& mode) {
  if (mode.name == "nearest" || mode.name == "nearest-exact") {
    if (in == out && mode.name == "nearest") return identity_table(in);
    return nearest_table(Axis<float>(in, out, scale, false), mode.name == "nearest-exact");
  }
  const Axis<F> axis(in, out, scale, mode.align_corners);
  if (mode.antialias) return antialias_table(axis, filter_named(mode.name));
  if (in == out) return identity_table(in);
  return mode.name == "bicubic" ? cubic_table(axis) : linear_table(axis);
}

// The table for resampling x; where nothing is computed its sizes are enough.
ResampleTable table_for(const Tensor& x, int64_t in, int64_t out, double scale, const Mode& mode) {
  if (x.device().is_meta()) {
    ResampleTable table;
    table.in = in, table.out = out;
    table.copies = in == out && !mode.antialias;
    return table;
  }
  const bool is_wide = x.dtype() == DType::float64 || x.dtype() == DType::uint8;
  return is_wide ? table_of<double>(in, out, scale, mode) : table_of<float>(in, out, scale, mode);
}

// --- The op --------------------------------------------------------------------------------------

// A tensor whose memory is (outer, size of a dimension, inner), seen as such.
Tensor as_slices(const Tensor& x, int64_t dim, bool channels_last) {
  int64_t outer = x.sizes()[0], inner = channels_last ? x.sizes()[1] : 1;
  if (!channels_last) outer *= x.sizes()[1];
  for (int64_t d = 2; d < x.dim(); ++d) {
    if (d != dim) (d < dim ? outer : inner) *= x.sizes()[d];
  }
  const int64_t size = x.sizes()[dim];
  return make_alias(x, {outer, size, inner}, {size * inner, inner, 1}, x.offset());
}

Tensor run_dim(const Tensor& x, int64_t dim, const ResampleTable& table, bool adjoint) {
  const MemoryFormat format = suggest_format(x);
  const bool channels_last = format != MemoryFormat::contiguous;
  const Tensor dense = contiguous(x, format);
  Dims sizes = x.sizes().dims();
  sizes[dim] = adjoint ? table.in : table.out;
  Tensor out = make_strided(sizes, format_strides(sizes, format), x.dtype(), x.device());
  if (out.numel() == 0) return out;
  const Tensor from = as_slices(dense, dim, channels_last), to = as_slices(out, dim, channels_last);
  if (adjoint) {
    kernels::resample_backward(x.device_type(), from, to, table);
  } else {
    kernels::resample(x.device_type(), from, to, table);
  }
  return out;
}

Tensor resample_dim(const Tensor& x, int64_t dim, const ResampleTable& table, bool adjoint) {
  Tensor out;
  {
    const NoGrad off;
    // Gradients add up, in single precision at least; copies keep any type.
    const bool widens = adjoint && dtypes::Reduced.has(x.dtype());
    out = to(run_dim(widens ? to(x, DType::float32) : x, dim, table, adjoint), x.dtype());
  }
  if (Record r{"upsample", out, {x}}) {
    r.wrt(0,
          [dim, table, adjoint](const Tensor& g) { return resample_dim(g, dim, table, !adjoint); });
  }
  return out;
}

std::string axes_text(IntSpan sizes) {
  static constexpr const char* names[] = {"D: ", "H: ", "W: "};
  std::string text;
  for (size_t d = 0; d < sizes.size(); ++d) {
    text += (d ? ", " : "") + std::string(names[3 - sizes.size() + d]) + std::to_string(sizes[d]);
  }
  return text;
}

void check_sizes(const Tensor& input, IntSpan size) {
  CHECK(input.dim() >= 3 && input.dim() <= 5, RuntimeError,
        "upsample: Expected a 3D, 4D or 5D input, got {}D", input.dim());
  const IntSpan in = input.sizes().from(2);
  CHECK(size.size() == in.size(), RuntimeError,
        "It is expected output_size equals to {}, but got size {}", in.size(), size.size());
  bool positive = true;
  for (size_t d = 0; d < size.size(); ++d) positive &= in[d] > 0 && size[d] > 0;
  CHECK(positive, RuntimeError,
        "Input and output sizes should be greater than 0, but got input ({}) output ({})",
        axes_text(in), axes_text(size));
  for (size_t d = 0; d < size.size(); ++d) {
    CHECK(in[d] <= INT32_MAX && size[d] <= INT32_MAX, RuntimeError,
          "upsample: sizes are too large, input ({}) output ({})", axes_text(in), axes_text(size));
  }
  CHECK(input.sizes()[1] > 0, RuntimeError,
        "Non-empty {}D data tensor expected but got a tensor with sizes {}", input.dim(),
        input.sizes());
}

// Images of bytes are resampled in fixed point, with weights of 16 bits, and rounded after each
// dimension. Products and sums of such numbers are exact in float, so only the weights change.
void quantize_weights(ResampleTable& table) {
  double largest = 0;
  for (const double weight : table.weight) largest = std::max(largest, weight);
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  const double unit = 1 << bits;
  for (double& weight : table.weight) weight = std::round(weight * unit) / unit;
}

// The step as graphs show it: an operator a mode and number of dimensions.
const char* step_name(std::string_view mode, bool antialias, size_t dims) {
  static constexpr const char* nearest[] = {"upsample_nearest1d", "upsample_nearest2d",
                                            "upsample_nearest3d"};
  static constexpr const char* exact[] = {"upsample_nearest_exact1d", "upsample_nearest_exact2d",
                                          "upsample_nearest_exact3d"};
  static constexpr const char* linear[] = {"upsample_linear1d", "upsample_bilinear2d",
                                           "upsample_trilinear3d"};
  if (mode == "nearest") return nearest[dims - 1];
  if (mode == "nearest-exact") return exact[dims - 1];
  if (mode == "bicubic") return antialias ? "upsample_bicubic2d_aa" : "upsample_bicubic2d";
  return antialias ? "upsample_bilinear2d_aa" : linear[dims - 1];
}

Tensor upsample(const Tensor& input, IntSpan size, const std::vector<double>& scales,
                std::string_view mode, bool align_corners, bool antialias) {
  check_sizes(input, size);
  const bool nearest = mode == "nearest" || mode == "nearest-exact";
  const DType dtype = input.dtype();
  const bool bytes = dtype == DType::uint8 && (nearest || size.size() == 2);
  CHECK(is_floating(dtype) || bytes, NotImplementedError,
        "\"upsample_{}{}d\" not implemented for '{}'", mode, size.size(), dtype_legacy_name(dtype));
  // Sums are kept in single precision between dimensions, so that the result is rounded once.
  const bool widens = !nearest && dtype != DType::float64 && dtype != DType::float32;
  Tensor x = widens ? to(input, DType::float32) : input;
  for (size_t left = size.size(); left-- > 0;) {
    const auto dim = static_cast<int64_t>(left) + 2;
    const double scale = left < scales.size() ? scales[left] : 0;
    const int64_t in = input.sizes()[dim], out = size[left];
    ResampleTable table = table_for(input, in, out, scale, {mode, align_corners, antialias});
    if (table.copies && in == out && mode != "nearest-exact") continue;
    if (bytes && widens) quantize_weights(table);
    x = resample_dim(x, dim, table, false);
    if (bytes && widens) x = clamp(floor(x + 0.5), Scalar(0), Scalar(255));
  }
  Tensor out = widens ? to(x, dtype) : x.is_same(input) ? clone(x, suggest_format(x)) : x;
  const Tensor* const inputs[] = {&input};
  show_as_step(step_name(mode, antialias, size.size()), out, inputs, 1);
  return out;
}
OP_FUNCTION(upsample, "_upsample(input, size, scales, mode, align_corners=False, antialias=False)",
            "The spatial dimensions of input resampled to the given sizes.", cuda_exact)

}  // namespace
BATCH(_upsample, batch_items<0>)

}  // namespace flambeau
