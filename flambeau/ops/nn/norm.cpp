// Layer, group and root-mean-square normalization: rows brought to mean 0 and variance 1.
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/nn/double_backward.h"
#include "flambeau/ops/nn/norm.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// The last dimensions, as many as `count`.
Dims last_dims(int64_t count) {
  Dims dims;
  for (int64_t d = -count; d < 0; ++d) dims.push_back(d);
  return dims;
}
Dims first_dims(int64_t count) {
  Dims dims;
  for (int64_t d = 0; d < count; ++d) dims.push_back(d);
  return dims;
}

struct LayerNormRule {
  Saved x, weight;
  Tensor mean, rstd;  // no mean: rows were not centered
  double eps;
  int64_t normalized;  // number of normalized dimensions
  bool wants[3];

  void operator()(Grads& in, Grads& out) const {
    const Tensor& g = in[0];
    if (!g.defined()) return;
    if (grad_enabled() || g.numel() == 0) {
      composed(g, out);
    } else {
      fused(g, out);
    }
    for (int i = 0; i < 3; ++i) {
      if (!wants[i]) out[i].reset();
    }
  }

  void fused(const Tensor& g, Grads& out) const {
    const Tensor input = contiguous(x()), w = as_stat(weight());
    const IntSpan shape = input.sizes().from(input.dim() - normalized);
    if (wants[0]) out[0] = empty_like(input);
    if (wants[1]) out[1] = make_tensor(shape, rstd.dtype(), rstd.device());
    if (wants[2]) out[2] = make_tensor(shape, rstd.dtype(), rstd.device());
    kernels::layer_norm_backward(g.device_type(), contiguous(g), input, w, mean, rstd, out[0],
                                 out[1], out[2]);
  }

  // In operations that can be differentiated again.
  void composed(const Tensor& gradient, Grads& out) const {
    const Tensor input = to(x(), rstd.dtype()), g = to(gradient, rstd.dtype()), w = weight();
    const Dims last = last_dims(normalized), first = first_dims(input.dim() - normalized);
    const IntSpan over(last);
    const auto mean_removed = [&](const Tensor& from) {
      return mean.defined() ? from - flambeau::mean(from, over, true) : from;
    };
    const Tensor centered = mean_removed(input);
    const Tensor factor = rsqrt(flambeau::mean(centered * centered, over, true) + eps);
    const Tensor normal = centered * factor, scaled = w.defined() ? g * w : g;
    out[0] = factor * (mean_removed(scaled) - normal * flambeau::mean(scaled * normal, over, true));
    out[1] = first.empty() ? g * normal : sum(g * normal, IntSpan(first), false);
    out[2] = first.empty() ? g : sum(g, IntSpan(first), false);
  }
};

// Normalizes over the last `normalized` dimensions, by the mean as well or by the mean square
// alone.
Tensor normalize_rows(const char* op, const Tensor& input, int64_t normalized, const Tensor& weight,
                      const Tensor& bias, double eps, bool center = true) {
  CHECK(input.is_floating(), NotImplementedError,
        "\"LayerNormKernelImpl\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const IntSpan outer = input.sizes().first(input.dim() - normalized);
  Tensor out, mean, rstd = make_tensor(outer, stat_dtype(input.dtype()), input.device());
  if (center) mean = empty_like(rstd);
  {
    const NoGrad off;
    const Tensor x = contiguous(input);
    out = make_tensor(x.sizes(), x.dtype(), x.device());
    if (x.numel() != 0) {
      kernels::layer_norm(x.device_type(), x, as_stat(weight), as_stat(bias), eps, out, mean, rstd);
    }
  }
  if (Record r{op, out, {input, weight, bias}}) {
    r.all(LayerNormRule{r.save(input),
                        r.save(weight),
                        mean,
                        rstd,
                        eps,
                        normalized,
                        {r.wants(0), r.wants(1), r.wants(2)}});
  }
  return out;
}

void check_normalized(const Tensor& input, IntSpan shape, const Tensor& weight,
                      const Tensor& bias) {
  CHECK(!shape.empty(), RuntimeError,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
        "element, "
        "but got normalized_shape = {}",
        shape);
  CHECK(!weight.defined() || weight.sizes() == shape, RuntimeError,
        "Expected weight to be of same shape as normalized_shape, but got weight of shape {} and "
        "normalized_shape = {}",
        weight.sizes(), shape);
  CHECK(!bias.defined() || bias.sizes() == shape, RuntimeError,
        "Expected bias to be of same shape as normalized_shape, but got bias of shape {} and "
        "normalized_shape = {}",
        bias.sizes(), shape);
  const size_t rank = input.dim();
  if (rank < shape.size() || !(input.sizes().from(rank - shape.size()) == shape)) {
    std::string wanted = "[*";
    for (const int64_t size : shape) wanted += ", " + std::to_string(size);
    fail<RuntimeError>(
        "Given normalized_shape={}, expected input with shape {}], but got input of size{}", shape,
        wanted, input.sizes());
  }
}

Tensor layer_norm(const Tensor& input, IntSpan normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps, bool /*cudnn_enable*/) {
  check_normalized(input, normalized_shape, weight, bias);
  check_parameter_types("layer_norm", input, {&weight, &bias});
  return normalize_rows("native_layer_norm", input, static_cast<int64_t>(normalized_shape.size()),
                        weight, bias, eps);
}
OP_FUNCTION(
    layer_norm,
    "layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True)",
    "Normalizes over the last dimensions to mean 0 and variance 1, then scales and shifts.",
    cuda_exact | takes_nested | no_out | composed)

// What PyTorch makes of it.
Tensor native_layer_norm(const Tensor& input, IntSpan normalized_shape, const Tensor& weight,
                         const Tensor& bias, double eps) {
  return layer_norm(input, normalized_shape, weight, bias, eps, true);
}
OP_FUNCTION(native_layer_norm,
            "_native_layer_norm.native_layer_norm.default(input, normalized_shape, weight, bias, "
            "eps)",
            "layer_norm.")
Tensor layer_norm_steps(const Tensor& input, IntSpan normalized_shape, const Tensor& weight,
                        const Tensor& bias, double eps, bool /*cudnn_enable*/) {
  return tensor_op("_native_layer_norm", {input, normalized_shape, weight, bias, eps});
}
STEPS(layer_norm, layer_norm_steps)

Tensor rms_norm(const Tensor& input, IntSpan normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  CHECK(static_cast<size_t>(input.dim()) >= normalized_shape.size(), ValueError,
        "Input tensor must have at least {} dimensions, but got {}", normalized_shape.size(),
        input.dim());
  check_normalized(input, normalized_shape, weight, {});
  CHECK(is_differentiable(input.dtype()), NotImplementedError,
        "\"rms_norm\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const bool is_double = to_real(input.dtype()) == DType::float64;
  const double smallest = is_double ? std::numeric_limits<double>::epsilon()
                                    : static_cast<double>(std::numeric_limits<float>::epsilon());
  const auto count = static_cast<int64_t>(normalized_shape.size());
  const bool by_rows = suggest_format(input) == MemoryFormat::contiguous && input.is_floating() &&
                       input.numel() != 0;
  if (by_rows && (!weight.defined() || stat_dtype(weight.dtype()) == stat_dtype(input.dtype()))) {
    return normalize_rows("_fused_rms_norm", input, count, weight, {}, eps.value_or(smallest),
                          false);
  }
  const Tensor rows = contiguous(input, suggest_format(input));
  const Tensor x = dtypes::Reduced.has(input.dtype()) ? to(rows, DType::float32) : rows;
  const Dims last = last_dims(count);
  Tensor result = x * rsqrt(mean(x * x, IntSpan(last), true) + eps.value_or(smallest));
  if (weight.defined()) result = result * weight;
  return result.dtype() == input.dtype() ? result : to(result, input.dtype());
}
OP_FUNCTION(rms_norm, "rms_norm(input, normalized_shape, weight=None, eps=None)",
            "Divides by the root mean square over the last dimensions, then scales.",
            takes_nested | no_out)

// --- Groups of channels --------------------------------------------------------------------------

// The same numbers of group normalization in operations that can be differentiated again.
Tensor composed_group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight,
                           const Tensor& bias, double eps) {
  const int64_t samples = input.sizes()[0];
  const int64_t width = input.numel() / std::max<int64_t>(samples * num_groups, 1);
  // Before it is scaled and shifted, half precision is not rounded.
  const bool widens = dtypes::Reduced.has(input.dtype()) && (weight.defined() || bias.defined());
  const Tensor groups =
      reshape(widens ? to(input, DType::float32) : input, {samples, num_groups, width});
  Tensor out = reshape(normalize_rows("native_group_norm", groups, 1, {}, {}, eps), input.sizes());
  Dims shape(input.dim() - 1, 1);
  shape[0] = input.sizes()[1];
  if (weight.defined()) out = out * reshape(weight, shape);
  if (bias.defined()) out = out + reshape(bias, shape);
  return to(out, {}, input.dtype(), false, false, suggest_format(input));
}

// To batch normalization's kernels, the groups of all samples are the channels of one sample, which
// have statistics, and so are the planes of all channels, which are scaled and shifted.
struct Groups {
  int64_t samples, groups, channels, plane;  // channels of a group, elements of a channel

  Groups(const Tensor& x, int64_t num_groups)
      : samples(x.sizes()[0]),
        groups(num_groups),
        channels(x.sizes()[1] / num_groups),
        plane(x.numel() / (samples * x.sizes()[1])) {}

  [[nodiscard]] Tensor as_groups(const Tensor& x) const {
    return view(x, {1, samples * groups, channels * plane});
  }
  [[nodiscard]] Tensor as_planes(const Tensor& x) const {
    return view(x, {1, samples * groups * channels, plane});
  }
  // Numbers of groups or of channels as (samples, groups, channels), and back to a vector.
  [[nodiscard]] Tensor of_groups(const Tensor& x) const { return view(x, {samples, groups, 1}); }
  [[nodiscard]] Tensor of_channels(const Tensor& x) const {
    return reshape(as_stat(x), {-1, groups, channels});
  }
  [[nodiscard]] Tensor vector(const Tensor& x) const {
    return view(contiguous(expand(x, {samples, groups, channels})), {-1});
  }
};

struct GroupNormRule {
  Saved x, weight, bias;
  Tensor mean, rstd;  // of every group
  int64_t num_groups;
  double eps;
  bool wants[3];

  void operator()(Grads& in, Grads& out) const {
    if (!in[0].defined()) return;
    if (grad_enabled()) {
      double_backward_gradients(
          {x(), weight(), bias()}, in, out, [this](const std::vector<Tensor>& again) {
            return std::vector{composed_group_norm(again[0], num_groups, again[1], again[2], eps)};
          });
    } else {
      fused(in[0], out);
    }
    for (int i = 0; i < 3; ++i) {
      if (!wants[i]) out[i].reset();
    }
  }

  void fused(const Tensor& gradient, Grads& out) const {
    const Tensor input = contiguous(x()), g = contiguous(gradient), w = weight();
    const Groups all(input, num_groups);
    const Tensor r = all.of_groups(rstd), means = all.vector(all.of_groups(mean));
    const Tensor sum_g = empty_like(means), sum_gx = empty_like(means);
    const DeviceType device = g.device_type();
    kernels::channel_sums(device, all.as_planes(g), all.as_planes(input), means, sum_g, sum_gx);
    const Tensor each_g = all.of_channels(sum_g), each_gx = all.of_channels(sum_gx) * r;
    const int64_t channels = all.groups * all.channels;
    if (wants[1]) out[1] = reshape(sum(each_gx, IntSpan{0}, false), {channels});
    if (wants[2]) out[2] = reshape(sum(each_g, IntSpan{0}, false), {channels});
    if (!wants[0]) return;
    const Tensor scale = w.defined() ? all.of_channels(w) * r : r;
    const double count = -1.0 / static_cast<double>(all.channels * all.plane);
    const Tensor slope = sum(scale * each_gx, IntSpan{2}, true) * r * count;
    const Tensor offset = sum(scale * each_g, IntSpan{2}, true) * count;
    const Tensor grad_x = empty_like(input);
    kernels::channel_backward(device, all.as_planes(g), all.as_planes(input), means,
                              all.vector(scale), all.vector(slope), all.vector(offset),
                              all.as_planes(grad_x));
    out[0] = contiguous(grad_x, suggest_format(x()));
  }
};

void check_group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight,
                      const Tensor& bias) {
  CHECK(input.dim() >= 2, RuntimeError,
        "Expected at least 2 dimensions for input tensor but received {}", input.dim());
  const int64_t channels = input.sizes()[1];
  CHECK(num_groups > 0, RuntimeError, "Expected num groups to be greater than 0, got {}",
        num_groups);
  CHECK(channels > 0, RuntimeError, "Expected number of channels to be greater than 0, got {}",
        channels);
  CHECK(channels % num_groups == 0, RuntimeError,
        "Expected number of channels in input to be divisible by num_groups, but got input of "
        "shape {} "
        "and num_groups={}",
        input.sizes(), num_groups);
  const auto check_vector = [&](const char* name, const Tensor& vector) {
    CHECK(!vector.defined() || (vector.dim() == 1 && vector.numel() == channels), RuntimeError,
          "Expected {} to be a vector of size equal to the number of channels in input, but got {} "
          "of "
          "shape {} and input of shape {}",
          name, name, vector.sizes(), input.sizes());
  };
  check_vector("weight", weight);
  check_vector("bias", bias);
  check_parameter_types("group_norm", input, {&weight, &bias});
  for (int64_t d = 2; d < input.dim(); ++d) {
    CHECK(input.sizes()[d] > 0, RuntimeError,
          "Expected HxW to be greater than 0, got 0 for input of shape {}", input.sizes());
  }
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps, bool /*cudnn_enabled*/) {
  check_group_norm(input, num_groups, weight, bias);
  const bool is_plain =
      !weight.defined() && !bias.defined() && suggest_format(input) == MemoryFormat::contiguous;
  if (input.numel() == 0 || is_plain) {  // rows are all there is to do
    return composed_group_norm(input, num_groups, weight, bias, eps);
  }
  CHECK(input.is_floating(), NotImplementedError,
        "\"GroupNormKernelImpl\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const Groups all(input, num_groups);
  Tensor out, mean, rstd;
  {
    const NoGrad off;
    const Tensor x = contiguous(input);
    mean = make_tensor({all.samples * num_groups}, stat_dtype(x.dtype()), x.device());
    const Tensor var = empty_like(mean);
    kernels::channel_stats(x.device_type(), all.as_groups(x), mean, var);
    rstd = rsqrt(var + eps);
    Tensor scale = all.of_groups(rstd), shift = all.of_groups(mean);
    if (weight.defined()) scale = all.of_channels(weight) * scale;
    shift = bias.defined() ? all.of_channels(bias) - shift * scale : -(shift * scale);
    out = empty_like(x);
    kernels::channel_affine(x.device_type(), all.as_planes(x), all.vector(scale), all.vector(shift),
                            all.as_planes(out));
    out = contiguous(out, suggest_format(input));
  }
  if (Record r{"native_group_norm", out, {input, weight, bias}}) {
    r.all(GroupNormRule{r.save(input),
                        r.save(weight),
                        r.save(bias),
                        mean,
                        rstd,
                        num_groups,
                        eps,
                        {r.wants(0), r.wants(1), r.wants(2)}});
  }
  return out;
}
OP_FUNCTION((one_step<group_norm, "native_group_norm">),
            "group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True)",
            "Normalizes groups of channels of each sample.", cuda_exact | no_out)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
// Scales and shifts the result by what each sample has its own of; `shape` fits it to a sample.
void scale_samples(const Batching& batch, Result& result, const Tensor& weight, const Tensor& bias,
                   const Dims& shape) {
  const AtVmapLevel inside(batch.level());
  Tensor one = add_batch_dim(result.tensor, 0, batch.level());
  if (weight.defined()) one = tensor_op("mul", {one, tensor_op("reshape", {weight, shape})});
  if (bias.defined()) one = tensor_op("add", {one, tensor_op("reshape", {bias, shape})});
  result.tensor = batch.samples(one);
}
bool scaled_after(Batching& batch, Result& result, const Dims& shape) {
  const int weight = batch.find("weight"), bias = batch.find("bias");
  const Tensor w = batch.tensor(weight), b = bias < 0 ? Tensor() : batch.tensor(bias);
  for (const int i : {weight, bias}) {
    if (i >= 0) batch.rewrite().values()[i].given = false;
  }
  batch.run(result);
  scale_samples(batch, result, w, b, shape);
  return true;
}
bool batch_layer_norm(Batching& batch, Result& result) {
  const Dims shape = batch.ints("normalized_shape");
  if (!batch.is_batched(0) || batch.rank(0) < static_cast<int64_t>(shape.size())) return false;
  batch.use_samples();
  if (!batch.only(0)) return scaled_after(batch, result, shape);
  batch.run(result);
  return true;
}
bool batch_group_norm(Batching& batch, Result& result) {
  const Tensor input = batch.tensor(0);
  if (!batch.is_batched(0) || input.dim() < 2) return false;
  const bool shared = batch.only(0);
  const int weight = batch.find("weight"), bias = batch.find("bias");
  const Tensor w = batch.tensor(weight), b = batch.tensor(bias);
  batch.rewrite().set(0, fold_batch(batch.samples(0)));
  if (!shared) {
    batch.rewrite().values()[weight].given = false;
    batch.rewrite().values()[bias].given = false;
  }
  batch.run(result);
  Dims size = input.sizes().dims(), shape(input.dim(), 1);
  size.insert(size.begin(), batch.size());
  result.tensor = reshape_to(result.tensor, size);
  if (shared) return true;
  shape[1] = input.size(1);
  scale_samples(batch, result, w, b, shape);
  return true;
}
}  // namespace
BATCH(layer_norm, batch_layer_norm)
BATCH(rms_norm, batch_layer_norm)
BATCH(group_norm, batch_group_norm)

// What PyTorch makes of it.
static Tensor native_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                int64_t /*N*/, int64_t /*C*/, int64_t /*HxW*/, int64_t group,
                                double eps) {
  return group_norm(input, group, weight, bias, eps, true);
}
OP_FUNCTION(native_group_norm,
            "_native_group_norm.native_group_norm.default(input, weight, bias, N, C, HxW, group, "
            "eps)",
            "group_norm.")
static Tensor group_norm_steps(const Tensor& input, int64_t num_groups, const Tensor& weight,
                               const Tensor& bias, double eps, bool /*cudnn_enabled*/) {
  const int64_t samples = input.size(0), channels = input.size(1);
  const int64_t inner = input.numel() / std::max<int64_t>(samples * channels, 1);
  return tensor_op("_native_group_norm",
                   {input, weight, bias, samples, channels, inner, num_groups, eps});
}
STEPS(group_norm, group_norm_steps)

}  // namespace flambeau
