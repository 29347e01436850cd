// Convolutions and transposed convolutions of one to three dimensions. A convolution is bilinear:
// its derivatives are the two adjoints, whose derivatives are again these three functions.
#include <algorithm>

#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/conv.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor maybe_conj(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }

// --- The three bilinear functions ----------------------------------------------------------------

Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& bias, IntSpan y_sizes,
                const ConvGeometry& geometry);
Tensor convolve_input(const Tensor& g, const Tensor& w, const Tensor& bias, IntSpan x_sizes,
                      const ConvGeometry& geometry);
Tensor convolve_weight(const Tensor& g, const Tensor& x, IntSpan w_sizes,
                       const ConvGeometry& geometry);

// Channels last if one of the operands is.
MemoryFormat common_format(const Tensor& a, const Tensor& b) {
  const MemoryFormat format = suggest_format(a);
  return format == MemoryFormat::contiguous ? suggest_format(b) : format;
}

Tensor empty_in(IntSpan sizes, MemoryFormat format, const Tensor& like) {
  if (format == MemoryFormat::contiguous) return make_tensor(sizes, like.dtype(), like.device());
  return make_strided(sizes, format_strides(sizes, format), like.dtype(), like.device());
}

// A weight is taken as it lies if it is dense in one of the layouts that kernels know.
Tensor dense_weight(const Tensor& w) {
  const bool dense = w.is_contiguous() || w.is_contiguous(MemoryFormat::channels_last) ||
                     w.is_contiguous(MemoryFormat::channels_last_3d);
  return dense ? w : contiguous(w);
}

// Sums of a gradient over all but the channels; one of no elements may lack them too.
Tensor bias_gradient(const Tensor& g, int64_t channels) {
  if (g.numel() == 0) return zero_(make_tensor({channels}, g.dtype(), g.device()));
  Dims dims{0};
  for (int64_t d = 2; d < g.dim(); ++d) dims.push_back(d);
  return sum(g, IntSpan(dims), false);
}

// Both gradients that read the input, in one pass over it.
std::pair<Tensor, Tensor> weight_and_bias_gradients(const Tensor& g, const Tensor& x,
                                                    IntSpan w_sizes, const ConvGeometry& geometry) {
  const NoGrad off;
  const MemoryFormat format = common_format(x, g);
  Tensor grad_w = empty_in(w_sizes, format, g),
         grad_b = make_tensor({w_sizes[0]}, g.dtype(), g.device());
  if (g.numel() == 0 || x.numel() == 0) return {zero_(grad_w), bias_gradient(g, w_sizes[0])};
  kernels::conv_weight(g.device_type(), contiguous(g, format), contiguous(x, format), grad_w,
                       grad_b, geometry);
  return {grad_w, grad_b};
}

struct ConvRule {
  Saved x, w;
  Dims x_sizes, w_sizes;
  ConvGeometry geometry;
  bool wants_x, wants_w, wants_bias;

  void operator()(Grads& in, Grads& out) const {
    const Tensor& g = in[0];
    if (!g.defined()) return;
    const bool to_w = wants_w && rule_needs(1), to_bias = wants_bias && rule_needs(2);
    if (wants_x && rule_needs(0)) {
      out[0] = convolve_input(g, maybe_conj(w()), {}, x_sizes, geometry);
    }
    if (to_w && to_bias && !grad_enabled() && !g.is_complex()) {
      std::tie(out[1], out[2]) = weight_and_bias_gradients(g, x(), w_sizes, geometry);
      return;
    }
    if (to_w) out[1] = convolve_weight(g, maybe_conj(x()), w_sizes, geometry);
    if (to_bias) out[2] = bias_gradient(g, w_sizes[0]);
  }
};

Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& bias, IntSpan y_sizes,
                const ConvGeometry& geometry) {
  const MemoryFormat format = common_format(x, w);
  Tensor y = empty_in(y_sizes, format, x);
  {
    const NoGrad off;
    if (y.numel() != 0 && x.numel() != 0) {
      kernels::conv(x.device_type(), contiguous(x, format), dense_weight(w),
                    bias.defined() ? contiguous(bias) : bias, y, geometry);
    } else if (y.numel() != 0) {
      zero_(y);
    }
  }
  if (Record r{"convolution", y, {x, w, bias}}) {
    ConvRule rule{{},       {},         x.sizes().dims(), w.sizes().dims(),
                  geometry, r.wants(0), r.wants(1),       r.wants(2)};
    if (rule.wants_w) rule.x = r.save(x);
    if (rule.wants_x) rule.w = r.save(w);
    r.all(std::move(rule));
  }
  return y;
}

Tensor convolve_input(const Tensor& g, const Tensor& w, const Tensor& bias, IntSpan x_sizes,
                      const ConvGeometry& geometry) {
  const MemoryFormat format = common_format(g, w);
  Tensor x = empty_in(x_sizes, format, g);
  {
    const NoGrad off;
    if (x.numel() != 0 && g.numel() != 0) {
      kernels::conv_input(g.device_type(), contiguous(g, format), dense_weight(w), x, geometry);
    } else if (x.numel() != 0) {
      zero_(x);
    }
    if (bias.defined()) {
      Dims shape(x.dim() - 1, 1);
      shape[0] = x_sizes[1];
      x = add(x, reshape(bias, shape));
    }
  }
  if (Record r{"convolution", x, {g, w, bias}}) {
    r.wrt(0, [w = r.save_for(0, w), y_sizes = g.sizes().dims(), geometry](const Tensor& gx) {
      return convolve(gx, maybe_conj(w()), {}, y_sizes, geometry);
    });
    r.wrt(1, [g = r.save_for(1, g), w_sizes = w.sizes().dims(), geometry](const Tensor& gx) {
      return convolve_weight(maybe_conj(g()), gx, w_sizes, geometry);
    });
    r.wrt(2, [channels = x_sizes[1]](const Tensor& gx) { return bias_gradient(gx, channels); });
  }
  return x;
}

Tensor convolve_weight(const Tensor& g, const Tensor& x, IntSpan w_sizes,
                       const ConvGeometry& geometry) {
  const MemoryFormat format = common_format(x, g);
  Tensor w = empty_in(w_sizes, format, g);
  {
    const NoGrad off;
    if (w.numel() != 0 && g.numel() != 0 && x.numel() != 0) {
      kernels::conv_weight(g.device_type(), contiguous(g, format), contiguous(x, format), w, {},
                           geometry);
    } else if (w.numel() != 0) {
      zero_(w);
    }
  }
  if (Record r{"convolution_weight", w, {g, x}}) {
    r.wrt(0, [x = r.save_for(0, x), y_sizes = g.sizes().dims(), geometry](const Tensor& gw) {
      return convolve(maybe_conj(x()), gw, {}, y_sizes, geometry);
    });
    r.wrt(1, [g = r.save_for(1, g), x_sizes = x.sizes().dims(), geometry](const Tensor& gw) {
      return convolve_input(maybe_conj(g()), gw, {}, x_sizes, geometry);
    });
  }
  return w;
}

// --- Arguments -----------------------------------------------------------------------------------

// One value a spatial dimension, or one for all.
Dims expand_values(const char* name, IntSpan values, size_t rank) {
  CHECK(values.size() == 1 || values.size() == rank, RuntimeError,
        "expected {} to be a single integer value or a list of {} values to match the convolution "
        "dimensions, but got {}={}",
        name, rank, name, values);
  return values.size() == rank ? values.dims() : Dims(rank, values[0]);
}

std::string joined(IntSpan sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

bool any_below(IntSpan values, int64_t least) {
  return std::any_of(values.begin(), values.end(), [&](int64_t v) { return v < least; });
}

ConvGeometry check_geometry(size_t rank, IntSpan stride, IntSpan padding, IntSpan dilation,
                            int64_t groups) {
  ConvGeometry g{expand_values("stride", stride, rank), expand_values("padding", padding, rank),
                 expand_values("dilation", dilation, rank), groups};
  CHECK(groups > 0, RuntimeError, "non-positive groups is not supported, got groups={}", groups);
  CHECK(!any_below(g.padding, 0), RuntimeError, "negative padding is not supported, got padding={}",
        g.padding);
  CHECK(!any_below(g.stride, 1), RuntimeError,
        "non-positive stride is not supported, got stride={}", g.stride);
  CHECK(!any_below(g.dilation, 1), RuntimeError, "dilation should be greater than zero, but got {}",
        g.dilation);
  // Bounds within which no product or sum of sizes overflows.
  for (const Dims* values : {&g.stride, &g.padding, &g.dilation}) {
    CHECK(std::ranges::max(*values) <= INT32_MAX, RuntimeError,
          "convolution: stride {}, padding {} or dilation {} is too large", g.stride, g.padding,
          g.dilation);
  }
  return g;
}

void check_operands(const char* op, size_t rank, const Tensor& input, const Tensor& weight,
                    const Tensor& bias) {
  const size_t dims = input.dim();
  CHECK(dims == rank + 1 || dims == rank + 2, RuntimeError,
        "Expected {}D (unbatched) or {}D (batched) input to {}, but got input of size: {}",
        rank + 1, rank + 2, op, input.sizes());
  CHECK(static_cast<size_t>(weight.dim()) == rank + 2, RuntimeError,
        "{}: expected weight with {} dimensions, but got weight of size {}", op, rank + 2,
        weight.sizes());
  CHECK(input.dtype() == weight.dtype(), RuntimeError,
        "Input type ({}) and weight type ({}) should be the same: expected scalar type {} but "
        "found {}",
        cpp_type_name(input.dtype()), cpp_type_name(weight.dtype()),
        dtype_legacy_name(input.dtype()), dtype_legacy_name(weight.dtype()));
  if (bias.defined()) {
    CHECK(input.dtype() == bias.dtype(), RuntimeError,
          "Input type ({}) and bias type ({}) should be the same", cpp_type_name(input.dtype()),
          cpp_type_name(bias.dtype()));
    common_device(op, {input, weight, bias});
  } else {
    common_device(op, {input, weight});
  }
}

void check_groups(const Tensor& weight, int64_t groups) {
  const IntSpan w = weight.sizes();
  CHECK(w[0] >= groups, RuntimeError,
        "Given groups={}, expected weight to be at least {} at dimension 0, but got weight of size "
        "{} instead",
        groups, groups, w);
  CHECK(w[0] % groups == 0, RuntimeError,
        "Given groups={}, expected weight to be divisible by {} at dimension 0, but got weight of "
        "size {} instead",
        groups, groups, w);
}

void check_channels(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t groups) {
  check_groups(weight, groups);
  const IntSpan w = weight.sizes();
  CHECK(input.sizes()[1] == w[1] * groups, RuntimeError,
        "Given groups={}, weight of size {}, expected input{} to have {} channels, but got {} "
        "channels "
        "instead",
        groups, w, input.sizes(), w[1] * groups, input.sizes()[1]);
  CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == w[0]), RuntimeError,
        "Given weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias "
        "of "
        "size {} instead",
        w, w[0], bias.sizes());
}

// The sizes of a convolution's result.
Dims conv_sizes(const Tensor& input, const Tensor& weight, const ConvGeometry& g) {
  // Of no channels come none, as in PyTorch.
  const int64_t channels = input.sizes()[1] == 0 ? 0 : weight.sizes()[0];
  Dims sizes{input.sizes()[0], channels}, padded, kernel;
  bool fits = true;
  for (size_t d = 0; d < g.stride.size(); ++d) {
    padded.push_back(input.sizes()[d + 2] + 2 * g.padding[d]);
    kernel.push_back(g.dilation[d] * (weight.sizes()[d + 2] - 1) + 1);
    fits &= padded[d] >= kernel[d];
    if (fits) sizes.push_back((padded[d] - kernel[d]) / g.stride[d] + 1);
  }
  CHECK(fits, RuntimeError,
        "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be "
        "greater than actual input size",
        joined(padded), joined(kernel));
  CHECK(input.numel() > 0 || input.sizes()[0] == 0 || input.sizes()[1] == 0, RuntimeError,
        "Only zero batch or zero channel inputs are supported, but got input shape: {}",
        input.sizes());
  CHECK(weight.numel() > 0 || weight.sizes()[0] == 0 || weight.sizes()[1] == 0, RuntimeError,
        "kernel size should be greater than zero, but got a weight of shape {}", weight.sizes());
  return sizes;
}

// --- conv1d, conv2d, conv3d ----------------------------------------------------------------------

template <class Sizes>
Tensor run_conv(size_t rank, const Tensor& input, const Tensor& weight, const Tensor& bias,
                const ConvGeometry& geometry, const Sizes& sizes) {
  const bool batched = static_cast<size_t>(input.dim()) == rank + 2;
  const Tensor x = batched ? input : unsqueeze(input, 0);
  check_channels(x, weight, bias, geometry.groups);
  const Tensor y = convolve(x, weight, bias, sizes(x), geometry);
  return batched ? y : squeeze(y, int64_t{0});
}

// PyTorch has dilated and transposed convolutions of no integers but int64.
void check_spread(const char* op, const Tensor& input) {
  compute_dtype(op, dtypes::OnlyFloatingComplex | DType::int64, input.dtype());
}

Tensor conv(const char* op, size_t rank, const Tensor& input, const Tensor& weight,
            const Tensor& bias, IntSpan stride, IntSpan padding, IntSpan dilation, int64_t groups) {
  check_operands(op, rank, input, weight, bias);
  const ConvGeometry geometry = check_geometry(rank, stride, padding, dilation, groups);
  if (std::any_of(geometry.dilation.begin(), geometry.dilation.end(),
                  [](int64_t d) { return d != 1; })) {
    check_spread(op, input);
  }
  return run_conv(rank, input, weight, bias, geometry,
                  [&](const Tensor& x) { return conv_sizes(x, weight, geometry); });
}

Tensor conv_named(const char* op, size_t rank, const Tensor& input, const Tensor& weight,
                  const Tensor& bias, IntSpan stride, std::string_view padding, IntSpan dilation,
                  int64_t groups) {
  if (padding == "valid") {
    return conv(op, rank, input, weight, bias, stride, int64_t{0}, dilation, groups);
  }
  CHECK(padding == "same", RuntimeError, "Invalid padding string: '{}'", padding);
  check_operands(op, rank, input, weight, bias);
  ConvGeometry geometry = check_geometry(rank, stride, int64_t{0}, dilation, groups);
  CHECK(
      std::all_of(geometry.stride.begin(), geometry.stride.end(), [](int64_t s) { return s == 1; }),
      RuntimeError, "padding='same' is not supported for strided convolutions");
  bool uneven = false;  // one zero more after the input than before it
  for (size_t d = 0; d < rank; ++d) {
    const int64_t total = geometry.dilation[d] * (weight.sizes()[d + 2] - 1);
    geometry.padding[d] = total / 2;
    uneven = uneven || total % 2 != 0;
  }
  if (uneven) {
    static std::atomic<bool> told{false};
    warn_once(told,
              "Using padding='same' with even kernel lengths and odd dilation may require a "
              "zero-padded copy of the input be created");
  }
  return run_conv(rank, input, weight, bias, geometry, [&](const Tensor& x) {
    Dims sizes = x.sizes().dims();
    sizes[1] = weight.sizes()[0];
    return sizes;
  });
}

#define CONV(name, rank)                                                                           \
  Tensor name(const Tensor& input, const Tensor& weight, const Tensor& bias, IntSpan stride,       \
              IntSpan padding, IntSpan dilation, int64_t groups) {                                 \
    return conv(#name, rank, input, weight, bias, stride, padding, dilation, groups);              \
  }                                                                                                \
  Tensor name##_named(const Tensor& input, const Tensor& weight, const Tensor& bias,               \
                      IntSpan stride, std::string_view padding, IntSpan dilation,                  \
                      int64_t groups) {                                                            \
    return conv_named(#name, rank, input, weight, bias, stride, padding, dilation, groups);        \
  }                                                                                                \
  OP_FUNCTION(name, #name "(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)", \
              "Cross-correlates input (N, C, " #rank                                               \
              " spatial dimensions) with weight (O, C / groups, kernel).",                         \
              autocast_low | no_out)                                                               \
  OP_FUNCTION(name##_named,                                                                        \
              #name "(input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1)", \
              "The same with padding 'valid' (none) or 'same' (the output has the input's size).", \
              autocast_low | no_out)
CONV(conv1d, 1)
CONV(conv2d, 2)
CONV(conv3d, 3)
#undef CONV

// --- Transposed convolutions ---------------------------------------------------------------------

Dims transposed_sizes(const Tensor& x, const Tensor& weight, const ConvGeometry& g,
                      IntSpan output_padding) {
  Dims sizes{x.sizes()[0], weight.sizes()[1] * g.groups};
  for (size_t d = 0; d < g.stride.size(); ++d) {
    CHECK(output_padding[d] >= 0, RuntimeError, "negative output_padding is not supported, got {}",
          output_padding);
    CHECK(
        output_padding[d] < g.stride[d] || output_padding[d] < g.dilation[d], RuntimeError,
        "output padding must be smaller than either stride or dilation, but got output_padding: {} "
        "stride: {} dilation: {}",
        output_padding, g.stride, g.dilation);
    sizes.push_back((x.sizes()[d + 2] - 1) * g.stride[d] - 2 * g.padding[d] +
                    g.dilation[d] * (weight.sizes()[d + 2] - 1) + output_padding[d] + 1);
    CHECK(
        sizes.back() > 0, RuntimeError,
        "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size "
        "is too small",
        joined(x.sizes().from(2)), joined(IntSpan(sizes).from(2)));
  }
  return sizes;
}

Tensor conv_transpose(const char* op, size_t rank, const Tensor& input, const Tensor& weight,
                      const Tensor& bias, IntSpan stride, IntSpan padding, IntSpan output_padding,
                      int64_t groups, IntSpan dilation) {
  check_operands(op, rank, input, weight, bias);
  const ConvGeometry geometry = check_geometry(rank, stride, padding, dilation, groups);
  check_spread(op, input);
  const Dims extra = expand_values("output_padding", output_padding, rank);
  const bool batched = static_cast<size_t>(input.dim()) == rank + 2;
  const Tensor x = batched ? input : unsqueeze(input, 0);
  check_groups(weight, groups);
  CHECK(x.sizes()[1] == weight.sizes()[0], RuntimeError,
        "Given transposed=1, weight of size {}, expected input{} to have {} channels, but got {} "
        "channels instead",
        weight.sizes(), x.sizes(), weight.sizes()[0], x.sizes()[1]);
  const int64_t channels = weight.sizes()[1] * groups;
  CHECK(
      !bias.defined() || (bias.dim() == 1 && bias.numel() == channels), RuntimeError,
      "Given transposed=1, weight of size {}, expected bias to be 1-dimensional with {} elements, "
      "but got bias of size {} instead",
      weight.sizes(), channels, bias.sizes());
  const Dims sizes = transposed_sizes(x, weight, geometry, extra);
  const Tensor y = convolve_input(x, weight, bias, sizes, geometry);
  return batched ? y : squeeze(y, int64_t{0});
}

#define CONV_TRANSPOSE(name, rank)                                                               \
  Tensor name(const Tensor& input, const Tensor& weight, const Tensor& bias, IntSpan stride,     \
              IntSpan padding, IntSpan output_padding, int64_t groups, IntSpan dilation) {       \
    return conv_transpose(#name, rank, input, weight, bias, stride, padding, output_padding,     \
                          groups, dilation);                                                     \
  }                                                                                              \
  OP_FUNCTION(                                                                                   \
      name,                                                                                      \
      #name                                                                                      \
      "(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)", \
      "The adjoint of a convolution in its input, which enlarges by the stride.",                \
      autocast_low | no_out)
CONV_TRANSPOSE(conv_transpose1d, 1)
CONV_TRANSPOSE(conv_transpose2d, 2)
CONV_TRANSPOSE(conv_transpose3d, 3)
#undef CONV_TRANSPOSE

// --- Any of them ---------------------------------------------------------------------------------

Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntSpan stride,
                   IntSpan padding, IntSpan dilation, bool transposed, IntSpan output_padding,
                   int64_t groups) {
  const int64_t rank = weight.dim() - 2;
  CHECK(rank >= 1 && rank <= 3, RuntimeError,
        "convolution: expected a weight of 3 to 5 dimensions, got shape {}", weight.sizes());
  const auto dims = static_cast<size_t>(rank);
  if (transposed) {
    return conv_transpose("convolution", dims, input, weight, bias, stride, padding, output_padding,
                          groups, dilation);
  }
  return conv("convolution", dims, input, weight, bias, stride, padding, dilation, groups);
}
OP_FUNCTION(convolution,
            "convolution(input, weight, bias=None, stride=1, padding=0, dilation=1, "
            "transposed=False, output_padding=0, groups=1)",
            "A convolution, or a transposed one, over as many dimensions as the weight has.",
            autocast_low | no_out)

// What PyTorch makes of the others.
static Dims each(IntSpan given, size_t rank) {
  return given.size() == 1 ? Dims(rank, given[0]) : given.dims();
}
template <size_t Rank>
static Tensor conv_steps(const Tensor& input, const Tensor& weight, const Tensor& bias,
                         IntSpan stride, IntSpan padding, IntSpan dilation, int64_t groups) {
  if (input.dim() == Rank + 1) {
    const Tensor batch = unsqueeze(input, 0);
    return squeeze(conv_steps<Rank>(batch, weight, bias, stride, padding, dilation, groups),
                   int64_t{0});
  }
  return tensor_op("convolution", {input, weight, bias, each(stride, Rank), each(padding, Rank),
                                   each(dilation, Rank), false, Dims(Rank, 0), groups});
}
template <size_t Rank>
static Tensor conv_transpose_steps(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                   IntSpan stride, IntSpan padding, IntSpan output_padding,
                                   int64_t groups, IntSpan dilation) {
  if (input.dim() == Rank + 1) {
    const Tensor batch = unsqueeze(input, 0);
    return squeeze(conv_transpose_steps<Rank>(batch, weight, bias, stride, padding, output_padding,
                                              groups, dilation),
                   int64_t{0});
  }
  return tensor_op("convolution", {input, weight, bias, each(stride, Rank), each(padding, Rank),
                                   each(dilation, Rank), true, each(output_padding, Rank), groups});
}
template <size_t Rank>
static Tensor conv_named_steps(const Tensor& input, const Tensor& weight, const Tensor& bias,
                               IntSpan stride, std::string_view padding, IntSpan dilation,
                               int64_t groups) {
  const bool same = padding == "same";
  const bool strided = std::any_of(stride.begin(), stride.end(), [](int64_t s) { return s != 1; });
  if ((!same && padding != "valid") || (same && strided)) return {};
  Dims zeros = each(dilation, Rank);
  for (size_t d = 0; d < Rank; ++d) {
    const int64_t total = same ? zeros[d] * (weight.sizes()[d + 2] - 1) : 0;
    if (total % 2 != 0) return {};  // one zero more on one side
    zeros[d] = total / 2;
  }
  return conv_steps<Rank>(input, weight, bias, stride, zeros, dilation, groups);
}
STEPS(conv1d, conv_steps<1>)
STEPS(conv2d, conv_steps<2>)
STEPS(conv3d, conv_steps<3>)
STEPS(conv1d, conv_named_steps<1>)
STEPS(conv2d, conv_named_steps<2>)
STEPS(conv3d, conv_named_steps<3>)
STEPS(conv_transpose1d, conv_transpose_steps<1>)
STEPS(conv_transpose2d, conv_transpose_steps<2>)
STEPS(conv_transpose3d, conv_transpose_steps<3>)

// Sequences as (time, batch, channels); weight: (width, in, out).
Tensor conv_tbc(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t pad) {
  CHECK(input.dim() == 3 && weight.dim() == 3 && bias.dim() == 1, RuntimeError,
        "conv_tbc: expected input (time, batch, in), weight (width, in, out) and bias (out), got "
        "shapes {}, {} and {}",
        input.sizes(), weight.sizes(), bias.sizes());
  const Tensor out = conv("conv_tbc", 1, permute(input, {1, 2, 0}), permute(weight, {2, 1, 0}),
                          bias, int64_t{1}, pad, int64_t{1}, 1);
  return contiguous(permute(out, {2, 0, 1}));
}
OP_FUNCTION(conv_tbc, "conv_tbc(input, weight, bias, pad=0)",
            "A convolution of sequences given as (time, batch, channels).", autocast_low | no_out)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {

// Weights that all samples share: the samples' items are items of one batch. Weights of each sample
// are groups, and the samples' channels follow one another.
bool batch_conv(Batching& batch, Result& result) {
  const Tensor input = batch.tensor(0), weight = batch.tensor(1), bias = batch.tensor(2);
  if (weight.dim() < 3 || (input.dim() != weight.dim() && input.dim() != weight.dim() - 1))
    return false;
  const bool items = input.dim() == weight.dim();
  const int64_t size = batch.size();
  if (batch.only(0)) {
    const Tensor all = batch.samples(0);
    batch.rewrite().set(0, items ? fold_batch(all) : all);
    batch.run(result);
    if (items)
      result.tensor = tensor_op("unflatten", {result.tensor, 0, Dims{size, input.size(0)}});
    return true;
  }
  // (N, B * C, ...): items in front, the channels of all samples behind.
  Tensor x = batch.whole(0);
  if (items) {
    x = tensor_op("flatten", {tensor_op("transpose", {x, 0, 1}), 1, 2});
  } else {
    x = unsqueeze_at(fold_batch(x), 0);
  }
  batch.rewrite().set(0, x);
  batch.rewrite().set(1, fold_batch(batch.whole(1)));
  if (bias.defined()) batch.rewrite().set(2, fold_batch(batch.whole(2)));
  batch.rewrite().set_integer(batch.find("groups"), batch.integer("groups") * size);
  batch.run(result);
  Tensor y = tensor_op("unflatten", {result.tensor, 1, Dims{size, -1}});
  result.tensor = items ? tensor_op("transpose", {y, 0, 1}) : squeeze_at(y, 0);
  return true;
}

}  // namespace
BATCH(conv1d, batch_conv)
BATCH(conv2d, batch_conv)
BATCH(conv3d, batch_conv)
BATCH(conv_transpose1d, batch_conv)
BATCH(conv_transpose2d, batch_conv)
BATCH(conv_transpose3d, batch_conv)
BATCH(convolution, batch_conv)

}  // namespace flambeau
