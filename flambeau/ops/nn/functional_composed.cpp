// What else nn.functional is made of: normalization along a dimension, resizing, embeddings with a
// bound on their rows, activations that are a formula. All are compositions.
#include <algorithm>
#include <cmath>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/assertion.h"
#include "flambeau/ops/elementwise/compose.h"
#include "flambeau/ops/layers/autocast.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// --- Normalization -------------------------------------------------------------------------------

Tensor normalize(const Tensor& input, const std::optional<Scalar>& p, IntSpan dim, double eps) {
  const Tensor length = clamp_min(tensor_op("norm", {input, p, dim, true}), eps);
  return input / expand(length, input.sizes());
}
OP_FUNCTION(normalize, "_normalize(input, p=2.0, dim=1, eps=1e-12)",
            "Divides by the p-norm along dim, or by eps where that is larger.", composed)

Tensor local_response_norm(const Tensor& input, int64_t size, double alpha, double beta, double k) {
  CHECK(input.dim() >= 3, ValueError,
        "Expected 3D or higher dimensionality input (got {} dimensions)", input.dim());
  if (input.numel() == 0) return input;
  const bool widens = input.dim() > 3 && input.device().is_cpu() &&
                      autocast_enabled(DeviceType::cpu) && dtypes::Reduced.has(input.dtype());
  const Tensor x = widens ? to(input, DType::float32) : input;
  // Channels are pooled as rows would be; the elements of a plane lie side by side like channels.
  const Tensor square = reshape(x * x, {x.size(0), x.size(1), 1, -1});
  const Tensor padded = constant_pad_nd(square, {0, 0, 0, 0, size / 2, (size - 1) / 2}, 0);
  const Tensor rows = permute(padded, {0, 3, 1, 2});
  const Tensor mean = tensor_op("avg_pool2d", {rows, Dims{size, 1}, Dims{1}});
  const Tensor scale = reshape(permute(mean, {0, 2, 3, 1}), x.sizes());
  return x / pow(scale * alpha + k, beta);
}
OP_FUNCTION(local_response_norm,
            "_local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0)",
            "Divides by a power of the mean square over `size` neighbouring channels.",
            composed | no_out)

// --- Resizing ------------------------------------------------------------------------------------

struct Target {
  Dims size;
  std::vector<double> scales;  // by which coordinates are to be computed, if any
};

void check_one_of(bool has_size, bool has_scale, bool recompute) {
  CHECK(!has_size || !has_scale, ValueError, "only one of size or scale_factor should be defined");
  CHECK(!has_size || !recompute, ValueError,
        "recompute_scale_factor is not meaningful with an explicit size.");
}

std::string listed(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + to_text(value);
  return "(" + text + ")";
}

Target target_of(const Tensor& input, std::optional<IntSpan> size,
                 const std::vector<double>& scale_factor, bool recompute) {
  const IntSpan spatial = input.sizes().from(std::min<int64_t>(input.dim(), 2));
  check_one_of(size.has_value(), !scale_factor.empty(), recompute);
  if (size) {
    CHECK(size->size() == spatial.size(), ValueError,
          "Input and output must have the same number of spatial dimensions, but got input with "
          "spatial dimensions of {} and output size of {}. Please provide input tensor in (N, C, "
          "d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format.",
          spatial, *size);
    return {size->dims(), {}};
  }
  CHECK(!scale_factor.empty(), ValueError, "either size or scale_factor should be defined");
  CHECK(scale_factor.size() == spatial.size(), ValueError,
        "Input and scale_factor must have the same number of spatial dimensions, but got input "
        "with spatial dimensions of {} and scale_factor of shape {}. Please provide input tensor "
        "in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.",
        spatial, listed(scale_factor));
  Target target{{}, recompute ? std::vector<double>() : scale_factor};
  for (size_t d = 0; d < spatial.size(); ++d) {
    const double length = std::floor(static_cast<double>(spatial[d]) * scale_factor[d]);
    CHECK(std::abs(length) < 0x1p63, RuntimeError,
          "interpolate: value cannot be converted to type int64_t without overflow: size {} times "
          "scale_factor {}",
          spatial[d], scale_factor[d]);
    target.size.push_back(static_cast<int64_t>(length));
  }
  return target;
}

struct Mode {
  std::string_view name;
  int64_t rank;  // of the input; 0: any
  bool blends;   // neighbours, for which align_corners has a meaning
  bool antialiases;
};
constexpr Mode modes[] = {{"nearest", 0, false, false},  {"nearest-exact", 0, false, false},
                          {"area", 0, false, false},     {"linear", 3, true, false},
                          {"bilinear", 4, true, true},   {"bicubic", 4, true, true},
                          {"trilinear", 5, true, false}, {"lanczos", 4, true, true}};

Tensor interpolate(const Tensor& input, std::optional<IntSpan> size,
                   const std::vector<double>& scale_factor, std::string_view mode,
                   std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor,
                   bool antialias) {
  const Mode* known = std::ranges::find(modes, mode, &Mode::name);
  if (known == std::end(modes)) known = nullptr;
  CHECK(!align_corners || !known || known->blends, ValueError,
        "align_corners option can only be set with the interpolating modes: linear | bilinear | "
        "bicubic | trilinear");
  CHECK(!antialias || (known && known->antialiases && input.dim() == 4), ValueError,
        "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a "
        "4-D tensor as input");
  const int64_t rank = input.dim(), spatial = std::max<int64_t>(rank - 2, 0);
  const bool recompute = recompute_scale_factor.value_or(false);
  if (size && static_cast<int64_t>(size->size()) != spatial)
    target_of(input, size, scale_factor, recompute);  // raises
  CHECK(rank >= 3 && rank <= 5 && known, NotImplementedError,
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest "
        "| linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {})",
        rank, mode);
  const Target target = target_of(input, size, scale_factor, recompute);
  const bool aligned = align_corners.value_or(false);
  CHECK(mode != "lanczos" || antialias, ValueError, "Lanczos mode requires antialias=True");
  CHECK(mode != "lanczos" || !aligned, ValueError,
        "Lanczos mode does not support align_corners=True");
  CHECK(known->rank == 0 || known->rank == rank, NotImplementedError,
        "Got {}D input, but {} mode needs {}D input", rank, mode, known->rank);
  if (mode == "area") {
    const std::string pool = "adaptive_avg_pool" + std::to_string(spatial) + "d";
    return tensor_op(pool, {input, target.size});
  }
  return tensor_op("_upsample", {input, target.size, target.scales, mode, aligned, antialias});
}
OP_FUNCTION(interpolate,
            "_interpolate(input, size, scale_factor, mode='nearest', align_corners=None, "
            "recompute_scale_factor=None, antialias=False)",
            "Resizes the spatial dimensions to size or by scale_factor, which is empty otherwise.",
            composed | no_out)

// --- Embeddings ----------------------------------------------------------------------------------

// Shortens the rows of weight that are used.
void renorm_rows(const Tensor& weight, const Tensor& indices, std::optional<double> max_norm,
                 double norm_type) {
  if (!max_norm) return;
  const NoGrad off;
  tensor_op("embedding_renorm_", {weight, contiguous(indices), *max_norm, norm_type});
}

Tensor nn_embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                    std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                    bool sparse) {
  int64_t padding = padding_idx.value_or(-1);
  if (padding_idx) {
    const int64_t rows = weight.dim() ? weight.size(0) : 1;  // what has none is refused below
    CHECK(padding == 0 || (-rows <= padding && padding < rows), AssertionError,
          "Padding_idx must be within num_embeddings");
    if (padding < 0) padding += rows;
  }
  renorm_rows(weight, input, max_norm, norm_type);
  return embedding(weight, input, padding, scale_grad_by_freq, sparse);
}
OP_FUNCTION(nn_embedding,
            "_nn_embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, "
            "scale_grad_by_freq=False, sparse=False)",
            "Rows of weight by index, which are no longer than max_norm.",
            composed | takes_nested | no_out)

Tensor nn_embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& starts,
                        std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                        std::string_view mode, bool sparse, const Tensor& factors,
                        bool include_last_offset, std::optional<int64_t> padding_idx) {
  Tensor input = indices, offsets = starts, per_sample_weights = factors;
  const bool weighs = per_sample_weights.defined();
  CHECK(!weighs || input.sizes() == per_sample_weights.sizes(), ValueError,
        "embedding_bag: If per_sample_weights (torch.Size({})) is not None, then it must have the "
        "same shape as the input (torch.Size({}))",
        per_sample_weights.sizes(), input.sizes());
  CHECK(weight.dim() == 2, ValueError,
        "weight has to be a 2D Tensor, but got Tensor of dimension {}", weight.dim());
  CHECK(input.dim() == 1 || input.dim() == 2, ValueError,
        "input has to be 1D or 2D Tensor, but got Tensor of dimension {}", input.dim());
  if (input.dim() == 2) {
    CHECK(!offsets.defined(), ValueError,
          "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
          "fixed length sequences. However, found offsets of type <class 'torch.Tensor'>");
    offsets = tensor_op("arange", {input.size(0), options_of(input)}) * input.size(1);
    input = reshape(input, {-1});
    if (weighs) per_sample_weights = reshape(per_sample_weights, {-1});
  }
  CHECK(offsets.defined(), ValueError, "offsets has to be a 1D Tensor but got None");
  CHECK(offsets.dim() == 1, ValueError,
        "offsets has to be a 1D Tensor but got Tensor of dimension {}", offsets.dim());
  const int64_t how = mode == "sum" ? 0 : mode == "mean" ? 1 : 2;
  CHECK(how != 2 || mode == "max", ValueError, "mode has to be one of sum, mean or max");
  CHECK(how != 2 || !scale_grad_by_freq, ValueError,
        "max mode does not support scaling the gradient by the frequency");
  CHECK(how != 2 || !sparse, ValueError, "max mode does not support sparse weights");
  CHECK(!weighs || how == 0, NotImplementedError,
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
        "mode='sum' (got mode='{}'). Please open a feature request on GitHub.",
        mode);
  renorm_rows(weight, input, max_norm, norm_type);
  return call_op("embedding_bag", {weight, input, offsets, scale_grad_by_freq, how, sparse,
                                   per_sample_weights, include_last_offset, padding_idx})
      .tensors[0];
}
OP_FUNCTION(nn_embedding_bag,
            "_nn_embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, "
            "scale_grad_by_freq=False, mode='mean', sparse=False, per_sample_weights=None, "
            "include_last_offset=False, padding_idx=None)",
            "Sums, means or maxima of bags of rows of weight: of each row of a matrix of indices, "
            "or of what stands between offsets in a vector.",
            composed | no_out)

// --- Activations ---------------------------------------------------------------------------------

Tensor gumbel_softmax(const Tensor& logits, const Scalar& tau, bool hard, int64_t dim) {
  const Tensor blank = tensor_op("empty_like", {logits, MemoryFormat::contiguous});
  const Tensor noise = -log(tensor_op("exponential_", {blank}));
  Tensor soft = softmax((logits + noise) / Operand(tau), dim);
  if (!hard) return soft;
  const Tensor index = call_op("max", {soft, dim, true}).tensors[1];
  const Tensor zero = tensor_op("zeros_like", {logits, MemoryFormat::contiguous});
  const Tensor one_hot = scatter_(zero, dim, index, 1.0);
  return one_hot - detach(soft) + soft;  // the gradient is that of the soft sample
}
OP_FUNCTION(gumbel_softmax, "_gumbel_softmax(logits, tau=1, hard=False, dim=-1)",
            "Samples of the Gumbel-softmax distribution; hard ones are one-hot.", composed | no_out)

Tensor tanhshrink(const Tensor& input) { return input - tanh(input); }
OP_FUNCTION(tanhshrink, "_tanhshrink(input)", "x - tanh(x).",
            elementwise | keeps_zero | takes_nested | composed | no_out)

Tensor softsign(const Tensor& input) { return input / (abs(input) + 1); }
OP_FUNCTION(softsign, "_softsign(input)", "x / (1 + |x|).",
            elementwise | takes_nested | composed | no_out)

Tensor softmin(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  return softmax(-input, dim, dtype);
}
OP_FUNCTION(softmin, "_softmin(input, dim, dtype=None)", "softmax of the negated input.",
            along | takes_nested | composed | no_out)

}  // namespace
}  // namespace flambeau
