// What nn.functional needs besides layers: gated and random activations, one_hot, distances, pixel
// shuffling, padding by reflection and the like. Nearly all are compositions.
#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/steps.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {
namespace {

// --- Activations ---------------------------------------------------------------------------------

Tensor prelu(const Tensor& input, const Tensor& weight) {
  CHECK(input.dtype() == weight.dtype(), RuntimeError,
        "prelu: Type promoting not supported. Got {} and {}", dtype_legacy_name(input.dtype()),
        dtype_legacy_name(weight.dtype()));
  compute_dtype("prelu", dtypes::OnlyFloating, input.dtype());
  CHECK(weight.dim() <= 1 || weight.numel() != 1, RuntimeError,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}", weight.dim());
  if (weight.numel() == 1) return _prelu_kernel(input, reshape(weight, Dims(input.dim(), 1)));
  CHECK(input.dim() > 0, RuntimeError, "Not allow zero-dim input tensor.");
  const int64_t channels = input.dim() > 1 ? input.sizes()[1] : 1;
  CHECK(weight.numel() == channels && weight.dim() == 1, RuntimeError,
        "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and "
        "channel "
        "size = {}.",
        weight.numel(), channels);
  Dims shape(input.dim(), 1);
  shape[1] = channels;
  return _prelu_kernel(input, reshape(weight, shape));
}
OP(prelu, "prelu(input, weight)",
   "Each element where positive, weight (of its channel) times it elsewhere.",
   autocast_low | no_out | composed)

Tensor glu(const Tensor& input, int64_t dim) {
  CHECK(input.dim() > 0, RuntimeError, "glu does not support 0-dimensional tensors");
  compute_dtype("glu", dtypes::OnlyFloating, input.dtype());
  dim = wrap_dim("glu", dim, input.dim());
  const int64_t size = input.sizes()[dim];
  CHECK(size % 2 == 0, RuntimeError, "Halving dimension must be even, but dimension {} is size {}",
        dim, size);
  const auto halves = [dim, half = size / 2](const Tensor& x) {
    return std::pair(narrow(x, dim, 0, half), narrow(x, dim, half, half));
  };
  Tensor out;
  {
    const NoGrad off;
    const auto [values, gate] = halves(input);
    out = gated(values, gate);
  }
  if (Record r{"glu", out, {input}}) {
    r.wrt(0, [halves, dim, kept = r.save(input)](const Tensor& g) {
      const auto [values, gate] = halves(kept());
      return cat({gated(g, gate), sigmoid_gradient(g * values, sigmoid(gate))}, dim);
    });
  }
  return out;
}
OP_FUNCTION(glu, "glu(input, dim=-1)", "The first half along dim times the sigmoid of the second.",
            along)

Tensor rrelu(const Tensor& input, const Scalar& lower, const Scalar& upper, bool training,
             Generator* generator) {
  const double low = lower.to_double(), high = upper.to_double();
  CHECK(low <= high, RuntimeError,
        "Lower bound should be less than or equal to the upper bound, got {} and {}", low, high);
  compute_dtype("rrelu", dtypes::OnlyFloating, input.dtype());
  if (!training) return leaky_relu(contiguous(input), (low + high) / 2);
  // A slope is drawn for each element, on the CPU for each that is not positive, in their order.
  Tensor slopes;
  if (input.device_type() != DeviceType::cpu) {
    const NoGrad off;
    const Tensor drawn = empty_like(input);
    draw_uniform(drawn, low, high, generator);
    slopes = where(input <= 0, drawn, ones_like(input));
  } else {
    const NoGrad off;
    const Tensor negative = input <= 0;
    const int64_t count = item(sum(negative)).to_int();
    Options doubles;
    doubles.dtype = DType::float64;
    doubles.device = input.device();
    const Tensor drawn = empty({count}, doubles);
    draw_uniform(drawn, low, high, generator);
    slopes = masked_scatter(ones_like(input), negative, to(drawn, input.dtype()));
  }
  return input * slopes;
}
OP_INPLACE(rrelu,
           "rrelu(input, lower=0.125, upper=0.3333333333333333, training=False, generator=None)",
           "Each element where positive, a random slope in [lower, upper] times it elsewhere.",
           draws | no_out)

Tensor xlogy_number(const Scalar& input, const Tensor& other) {
  return xlogy(Operand(input), other);
}
OP_FUNCTION(xlogy_number, "xlogy(self, other)", "A number times the logarithm of other.",
            casts_out | elementwise | in_special)

// --- one_hot, distances --------------------------------------------------------------------------

Tensor one_hot(const Tensor& input, int64_t num_classes) {
  CHECK(input.dtype() == DType::int64, RuntimeError,
        "one_hot is only applicable to index tensor of type LongTensor, got {}", input.dtype());
  Dims shape = input.sizes().dims();
  if (input.numel() == 0) {
    CHECK(num_classes > 0, RuntimeError,
          "Can not infer total number of classes from empty tensor.");
    shape.push_back(num_classes);
    return zeros(shape, options_of(input));
  }
  // A device that must be waited for finds bad classes itself, where the shape is known without
  // them.
  if (input.device().is_cpu() || (num_classes == -1 && !input.device().is_meta())) {
    CHECK(item(amin(input, {}, false)).to_int() >= 0, RuntimeError,
          "Class values must be non-negative.");
    const int64_t most = item(amax(input, {}, false)).to_int();
    CHECK(most < INT64_MAX, RuntimeError, "one_hot: class value {} is too large", most);
    if (num_classes == -1) num_classes = most + 1;
    CHECK(num_classes > most, RuntimeError, "Class values must be smaller than num_classes.");
  }
  shape.push_back(num_classes);
  Tensor out = zeros(shape, options_of(input));
  scatter_(out, -1, unsqueeze(input, -1), int64_t{1});
  count_steps(out, 1);  // the zeros
  return out;
}
OP_FUNCTION(one_hot, "one_hot(input, num_classes=-1)",
            "A 1 at the place that each element names among zeros, in a new last dimension.",
            no_out | composed)

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  const int64_t last = std::max(x1.dim(), x2.dim()) - 1;
  return linalg_vector_norm(x1 - x2 + eps, p, IntSpan(last), keepdim);
}
OP_FUNCTION(pairwise_distance, "pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False)",
            "The p-norm of the difference along the last dimension; eps is added to each element.",
            cuda_exact | no_out | composed)

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  const DType dtype = promote_types(x1.dtype(), x2.dtype());
  CHECK(is_floating(dtype), RuntimeError,
        "expected common dtype to be floating point, yet common dtype is {}",
        dtype_legacy_name(dtype));
  const Tensor a = x1.dtype() == dtype ? x1 : to(x1, dtype),
               b = x2.dtype() == dtype ? x2 : to(x2, dtype);
  const Dims shape = broadcast_shapes(a.sizes(), b.sizes());
  const int64_t over = wrap_dim(dim, static_cast<int64_t>(shape.size()));
  const Tensor left = expand(a, shape), right = expand(b, shape);
  const auto length = [&](const Tensor& x) {
    return clamp(linalg_vector_norm(x, 2.0, IntSpan(over), true), Scalar(eps), {});
  };
  return sum(left / length(left) * (right / length(right)), IntSpan(over), false);
}
OP_FUNCTION(cosine_similarity, "cosine_similarity(x1, x2, dim=1, eps=1e-08)",
            "The cosine of the angle between vectors along dim.", cuda_exact | no_out | composed)

// --- cross ---------------------------------------------------------------------------------------

// Of tensors of one shape, by the kernel.
Tensor cross_along(const Tensor& a, const Tensor& b, int64_t dim) {
  Tensor out = make_tensor(a.sizes(), a.dtype(), a.device());
  const NoGrad off;
  const auto first = [dim](const Tensor& x) { return select(detach(x), dim, 0); };
  const auto step = [dim](const Tensor& x) {
    return scaled_stride(x->strides[dim], x.item_size());
  };
  Tensor target = first(out);
  const Tensor left = first(a), right = first(b);
  const Operand inputs[] = {left, right};
  const DType dtype = out.dtype();
  TensorIter iter;
  iter.build({"linalg_cross", false, false}, &target, &dtype, 1, inputs, 2, dtype);
  const int64_t steps[] = {step(out), step(a), step(b)};
  kernels::cross(out.device_type(), iter, steps);
  return out;
}

Tensor linalg_cross(const Tensor& input, const Tensor& other, int64_t dim) {
  CHECK(input.dim() == other.dim(), RuntimeError,
        "linalg.cross: inputs must have the same number of dimensions. Got {} and {}", input.dim(),
        other.dim());
  CHECK(input.size(dim) == 3 && other.size(dim) == 3, RuntimeError,
        "linalg.cross: inputs dimension {} must have length 3. Got {} and {}", dim, input.size(dim),
        other.size(dim));
  CHECK(input.dtype() == other.dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(other.dtype()));
  if (kernels::cross.filled(input.device_type()) && input.device() == other.device() &&
      input.sizes() == other.sizes() && dtypes::Numeric.has(input.dtype())) {
    const int64_t along = wrap_dim(dim, input.dim());
    Tensor out = cross_along(input, other, along);
    if (Record r{"linalg_cross", out, {input, other}}) {
      r.wrt(1, [a = r.save_for(1, input), along](const Tensor& g) {
        return linalg_cross(g, conj(a()), along);
      });
      r.wrt(0, [b = r.save_for(0, other), along](const Tensor& g) {
        return linalg_cross(conj(b()), g, along);
      });
    }
    return out;
  }
  const std::vector<Tensor> a = unbind(input, dim), b = unbind(other, dim);
  const auto component = [&](int i, int j) { return a[i] * b[j] - a[j] * b[i]; };
  return stack({component(1, 2), component(2, 0), component(0, 1)}, dim);
}
OP_FUNCTION((one_step<linalg_cross, "linalg_cross">), "linalg_cross(input, other, *, dim=-1)",
            "The vector product along a dimension of length 3.", picks | along)

Tensor cross(const Tensor& input, const Tensor& other, std::optional<int64_t> dim) {
  if (dim) return linalg_cross(input, other, *dim);
  static std::atomic<bool> told{false};
  warn_once(
      told,
      "Using torch.cross without specifying the dim arg is deprecated. Please either pass the "
      "dim explicitly or simply use torch.linalg.cross, whose default is the last one.");
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (input.sizes()[d] == 3) return linalg_cross(input, other, d);
  }
  fail<RuntimeError>("no dimension of size 3 in input of size {}", input.sizes());
}
OP(cross, "cross(input, other, dim=None)",
   "The vector product along dim, or along the first dimension of length 3.", picks | cuda_widest)

// --- Pixels and channels -------------------------------------------------------------------------

// The dimensions before the last three, and the three.
struct Image {
  Image(const char* op, const Tensor& input) : outer(input.dim() - 3) {
    CHECK(input.dim() >= 3, RuntimeError,
          "{} expects input to have at least 3 dimensions, but got input with {} dimension(s)", op,
          input.dim());
    channels = input.size(-3), height = input.size(-2), width = input.size(-1);
  }
  // Sizes or dimension numbers: those before, then the given ones.
  [[nodiscard]] Dims shape(const Tensor& input, std::initializer_list<int64_t> last) const {
    Dims sizes = input.sizes().first(outer).dims();
    sizes.append(last.begin(), last.end());
    return sizes;
  }
  [[nodiscard]] Dims order(std::initializer_list<int64_t> last) const {
    Dims dims;
    for (int64_t d = 0; d < outer; ++d) dims.push_back(d);
    for (const int64_t d : last) dims.push_back(outer + d);
    return dims;
  }
  int64_t outer, channels = 0, height = 0, width = 0;
};

// What was rearranged has memory of its own, and channels last where the input has them last.
Tensor own_copy(const Tensor& rearranged, const Tensor& input) {
  const MemoryFormat format = suggest_format(input);
  const bool fresh = rearranged.storage() != input.storage();
  return fresh && format == MemoryFormat::contiguous ? rearranged : clone(rearranged, format);
}

Tensor pixel_shuffle(const Tensor& input, int64_t upscale_factor) {
  const Image image("pixel_shuffle", input);
  const int64_t f = upscale_factor;
  CHECK(f > 0, RuntimeError, "pixel_shuffle expects a positive upscale_factor, but got {}", f);
  CHECK(f <= INT32_MAX, RuntimeError, "pixel_shuffle: upscale_factor {} is too large", f);
  CHECK(image.channels % (f * f) == 0, RuntimeError,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
        "upscale_factor, but input.size(-3)={} is not divisible by {}",
        image.channels, f * f);
  const int64_t c = image.channels / (f * f), h = image.height, w = image.width;
  const Tensor split = reshape(input, image.shape(input, {c, f, f, h, w}));
  const Tensor joined =
      reshape(permute(split, image.order({0, 3, 1, 4, 2})), image.shape(input, {c, h * f, w * f}));
  return own_copy(joined, input);
}
OP_FUNCTION((one_step<pixel_shuffle, "pixel_shuffle">), "pixel_shuffle(input, upscale_factor)",
            "Moves channels into space: (C * r * r, H, W) becomes (C, H * r, W * r).",
            moves | takes_quantized | event(3) | no_out)

Tensor pixel_unshuffle(const Tensor& input, int64_t downscale_factor) {
  const Image image("pixel_unshuffle", input);
  const int64_t f = downscale_factor;
  CHECK(f > 0, RuntimeError, "pixel_unshuffle expects a positive downscale_factor, but got {}", f);
  CHECK(f <= INT32_MAX, RuntimeError, "pixel_unshuffle: downscale_factor {} is too large", f);
  CHECK(image.height % f == 0, RuntimeError,
        "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)={} "
        "is not "
        "divisible by {}",
        image.height, f);
  CHECK(image.width % f == 0, RuntimeError,
        "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)={} "
        "is not "
        "divisible by {}",
        image.width, f);
  const int64_t c = image.channels, h = image.height / f, w = image.width / f;
  const Tensor split = reshape(input, image.shape(input, {c, h, f, w, f}));
  const Tensor joined =
      reshape(permute(split, image.order({0, 2, 4, 1, 3})), image.shape(input, {c * f * f, h, w}));
  return own_copy(joined, input);
}
OP_FUNCTION((one_step<pixel_unshuffle, "pixel_unshuffle">),
            "pixel_unshuffle(input, downscale_factor)",
            "Moves space into channels: (C, H * r, W * r) becomes (C * r * r, H, W).",
            moves | takes_quantized | event(3) | no_out)

Tensor channel_shuffle(const Tensor& input, int64_t groups) {
  CHECK(input.dim() > 2, RuntimeError,
        "channel_shuffle expects input with > 2 dims, but got input with sizes {}", input.sizes());
  CHECK(groups > 0, RuntimeError,
        "Number of groups to divide channels in must be positive. Value of groups:{}", groups);
  const int64_t channels = input.sizes()[1];
  CHECK(channels % groups == 0, RuntimeError,
        "Number of channels must be divisible by groups. Got {} channels and {} groups.", channels,
        groups);
  Dims shape = input.sizes().dims();
  shape[1] = groups;
  shape.insert(shape.begin() + 2, channels / groups);
  return own_copy(reshape(transpose(reshape(input, shape), 1, 2), input.sizes()), input);
}
OP_FUNCTION((one_step<channel_shuffle, "channel_shuffle">), "channel_shuffle(input, groups)",
            "Takes channels from each group in turn.", no_out)
OP_FUNCTION(channel_shuffle, "native_channel_shuffle(input, groups)",
            "Another name of channel_shuffle.", moves | takes_quantized | no_out)

// --- Padding -------------------------------------------------------------------------------------

// Where each element of a padded dimension comes from.
int64_t padded_source(std::string_view mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "replicate") return at < 0 ? 0 : size - 1;
  if (mode == "circular") return (at % size + size) % size;
  return at < 0 ? -at : 2 * (size - 1) - at;
}

// The sources of a whole dimension, computed where they are wanted: a device would have to be
// waited for to take them from the host.
Tensor padded_sources(std::string_view mode, int64_t before, int64_t padded, int64_t size,
                      Device device) {
  if (!device.is_cpu()) {
    const int64_t last = size - 1;
    const Tensor at =
        arange(-before, padded - before, 1, Options{.dtype = DType::int64, .device = device});
    if (mode == "replicate") return clamp(at, Scalar(0), Scalar(last));
    if (mode == "circular") return remainder_checked(at, Scalar(size));
    return sub(Scalar(last), abs(sub(Scalar(last), abs(at))));
  }
  Tensor index = make_tensor({padded}, DType::int64, device);
  for (int64_t i = 0; i < padded; ++i)
    index.data<int64_t>()[i] = padded_source(mode, i - before, size);
  return index;
}

// What stands before the first elements along a dimension, or behind the last ones.
Tensor border(const Tensor& input, int64_t dim, int64_t width, bool behind, std::string_view mode) {
  const int64_t size = input.sizes()[dim];
  if (mode == "replicate") {
    Dims sizes = input->sizes;
    sizes[dim] = width;
    const Tensor repeated = expand(narrow(input, dim, behind ? size - 1 : 0, 1), sizes);
    return width > 1 ? contiguous(repeated) : repeated;  // which is joined with others by rows
  }
  if (mode == "circular") return narrow(input, dim, behind ? 0 : size - width, width);
  const Tensor mirrored = narrow(input, dim, behind ? size - 1 - width : 1, width);
  return width > 1 ? flip(mirrored, dim) : mirrored;
}

void check_padding(const Tensor& input, int64_t dim, int64_t before, int64_t behind,
                   std::string_view mode) {
  const int64_t size = input.sizes()[dim];
  if (mode == "reflect") {
    CHECK(before < size && behind < size, RuntimeError,
          "Argument #4: Padding size should be less than the corresponding input dimension, but "
          "got: padding "
          "({}, {}) at dimension {} of input {}",
          before, behind, dim, input.sizes());
  } else if (mode == "circular") {
    CHECK(before <= size && behind <= size, RuntimeError,
          "Padding value causes wrapping around more than once.");
  }
}

Tensor pad_dim(const Tensor& input, int64_t dim, int64_t before, int64_t behind,
               std::string_view mode) {
  const int64_t size = input.sizes()[dim];
  if (before == 0 && behind == 0) return input;
  check_padding(input, dim, before, behind, mode);
  if (mode == "circular" && (before < 0 || behind < 0)) {  // what is cut off does not come round
    const int64_t cut = std::max<int64_t>(-before, 0),
                  kept = size - cut - std::max<int64_t>(-behind, 0);
    CHECK(kept > 0, RuntimeError, "pad: nothing is left of dimension {} of size {}", dim, size);
    return pad_dim(narrow(input, dim, cut, kept), dim, std::max<int64_t>(before, 0),
                   std::max<int64_t>(behind, 0), mode);
  }
  int64_t padded = 0;
  const bool fits = !__builtin_add_overflow(size, before, &padded) &&
                    !__builtin_add_overflow(padded, behind, &padded);
  CHECK(size > 0 && fits && padded > 0, RuntimeError,
        "pad: dimension {} of size {} cannot have a padding of ({}, {})", dim, size, before,
        behind);
  if (before >= 0 && behind >= 0) {
    return cat(
        {border(input, dim, before, false, mode), input, border(input, dim, behind, true, mode)},
        dim);
  }
  return index_select(input, dim, padded_sources(mode, before, padded, size, input.device()));
}

// The same along the last dimensions, without history and without a copy for each dimension: the
// input goes to its place in the result, of which the borders are made, one dimension after the
// other.
Tensor pad_in_place(const Tensor& input, IntSpan pad, std::string_view mode) {
  const NoGrad off;
  const int64_t dims = static_cast<int64_t>(pad.size()) / 2, rank = input.dim();
  Dims sizes = input->sizes;
  for (int64_t i = 0; i < dims; ++i) {
    check_padding(input, rank - 1 - i, pad[2 * i], pad[2 * i + 1], mode);
    sizes[rank - 1 - i] += pad[2 * i] + pad[2 * i + 1];
  }
  Tensor out = make_tensor(sizes, input.dtype(), input.device());
  Tensor inner = out;
  for (int64_t d = rank - dims; d < rank; ++d)
    inner = narrow(inner, d, pad[2 * (rank - 1 - d)], input->sizes[d]);
  copy_(inner, input);
  for (int64_t i = 0; i < dims; ++i) {  // those before d have the size of the input yet
    const int64_t d = rank - 1 - i, before = pad[2 * i], behind = pad[2 * i + 1];
    Tensor whole = out;
    for (int64_t k = rank - dims; k < d; ++k)
      whole = narrow(whole, k, pad[2 * (rank - 1 - k)], input->sizes[k]);
    inner = narrow(whole, d, before, input->sizes[d]);
    copy_(narrow(whole, d, 0, before), border(inner, d, before, false, mode));
    copy_(narrow(whole, d, before + input->sizes[d], behind), border(inner, d, behind, true, mode));
  }
  return out;
}
// Whether it does: nothing is cut off, the result lies in order, and what the many views cost is
// little beside a copy.
bool pads_in_place(const Tensor& input, IntSpan pad) {
  constexpr int64_t most = int64_t{1} << 32;
  return input.device().is_cpu() && input.is_contiguous() && input.numel() >= (1 << 15) &&
         !(grad_enabled() && input.requires_grad()) &&
         std::all_of(pad.begin(), pad.end(), [](int64_t p) { return p >= 0 && p < most; });
}

// By elements of the input.
Tensor padded_by_elements(const Tensor& input, IntSpan pad, std::string_view mode) {
  const auto dims = static_cast<int64_t>(pad.size()) / 2;
  if (dims > 1 && pads_in_place(input, pad)) return pad_in_place(input, pad, mode);
  Tensor result = input;
  for (int64_t i = 0; i < dims; ++i) {
    result = pad_dim(result, input.dim() - 1 - i, pad[2 * i], pad[2 * i + 1], mode);
  }
  const bool keeps_format = dims == input.dim() - 2 && mode != "circular";
  if (!keeps_format) {
    return result.storage() == input.storage() ? clone(result) : contiguous(result);
  }
  return own_copy(result, input);
}
// The same, as layers see it.
Tensor pad_by_elements(const Tensor& input, IntSpan pad, std::string_view mode) {
  REDIRECT(pad_by_elements, input, pad, mode)
  return padded_by_elements(input, pad, mode);
}
OP_FUNCTION(pad_by_elements, "_pad_by_elements(input, pad, mode)", "", cpu_exact)

Tensor pad(const Tensor& input, IntSpan pad, std::string_view mode, std::optional<double> value) {
  CHECK(mode == "constant" || mode == "reflect" || mode == "replicate" || mode == "circular",
        NotImplementedError, "Unrecognised padding mode {}", mode);
  CHECK(pad.size() % 2 == 0, RuntimeError, "Padding length must be divisible by 2, got {}", pad);
  CHECK(static_cast<int64_t>(pad.size()) <= input.dim() * 2, RuntimeError,
        "Padding length should be less than or equal to two times the input dimension but got "
        "padding "
        "length {} and input of dimension {}",
        pad.size(), input.dim());
  if (mode == "constant") return constant_pad_nd(input, pad, value.value_or(0.0));
  CHECK(!value || *value == 0, RuntimeError, "Padding mode \"{}\" doesn't take in value argument",
        mode);
  if (mode != "circular")
    compute_dtype(mode == "reflect" ? "reflection_pad" : "replication_pad", dtypes::Numeric,
                  input.dtype());
  const auto dims = static_cast<int64_t>(pad.size()) / 2;
  CHECK(dims >= 1 && dims <= 3 && (input.dim() == dims + 1 || input.dim() == dims + 2),
        NotImplementedError,
        "Padding size {} is not supported for {}D input tensor.\nSupported combinations for "
        "non-constant "
        "padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: "
        "padding "
        "size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 "
        "dimensions)",
        pad.size(), input.dim());
  for (int64_t d = input.dim() - dims - 1; d < input.dim() && mode != "circular"; ++d) {
    CHECK(input->sizes[d] > 0, RuntimeError,
          "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero "
          "dimensions for input, but got: {}",
          dims + 1, dims + 2, input.sizes());
  }
  // PyTorch's autocast knows reflection in one and two dimensions only.
  const bool as_such = mode == "circular" || (mode == "reflect" && dims == 3);
  Tensor out = as_such ? padded_by_elements(input, pad, mode) : pad_by_elements(input, pad, mode);
  static constexpr const char* steps[][3] = {
      {"replication_pad1d", "replication_pad2d", "replication_pad3d"},
      {"reflection_pad1d", "reflection_pad2d", "reflection_pad3d"}};
  const Tensor* const inputs[] = {&input};
  if (mode != "circular") show_as_step(steps[mode == "reflect"][dims - 1], out, inputs, 1);
  return out;
}
OP_FUNCTION(
    pad, "pad(input, pad, mode='constant', value=None)",
    "Pads the last dimensions: pad is (before, behind) of the last, of the one before, and so on.",
    composed | no_out)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
bool batch_prelu(Batching& batch, Result& result) {
  const int64_t count = batch.tensor(1).numel(), rank = batch.rank(0);
  if (count != 1 && (rank < 2 || batch.tensor(0).size(1) != count)) return false;
  Dims shape(rank, 1);
  if (count != 1) shape[1] = count;
  const AtVmapLevel inside(batch.level());
  const Tensor weight = tensor_op("reshape", {batch.tensor(1), shape});
  result.form = Result::Form::tensor;
  result.tensor = batch.whole(tensor_op("_prelu_kernel", {batch.tensor(0), weight}));
  return true;
}
// Modes that read other elements know one dimension in front of the channels.
bool batch_pad(Batching& batch, Result& result) {
  if (!batch.only(0)) return false;
  const Tensor one = batch.tensor(0), samples = batch.samples(0);
  const auto padded = static_cast<int64_t>(batch.ints("pad").size()) / 2;
  const bool folds = batch.text("mode") != "constant" && one.dim() == padded + 2;
  batch.rewrite().set(0, folds ? fold_batch(samples) : samples);
  batch.run(result);
  if (!folds) return true;
  Dims size = result.tensor.sizes().dims();
  size[0] = one.size(0);
  size.insert(size.begin(), batch.size());
  result.tensor = reshape_to(result.tensor, size);
  return true;
}
}  // namespace
BATCH(prelu, batch_prelu)
BATCH(pad, batch_pad)

BATCH(channel_shuffle, batch_items<0>)
BATCH(native_channel_shuffle, batch_items<0>)

// What PyTorch makes of it.
static Tensor cross_steps(const Tensor& input, const Tensor& other, std::optional<int64_t> dim) {
  return dim ? tensor_op("linalg_cross", {input, other, *dim}) : Tensor();
}
STEPS(cross, cross_steps)

}  // namespace flambeau
