// Batch and instance normalization. Forward and first derivative are fused kernels over channels;
// a second derivative goes through the same formula written in tensor operations.
#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/nn/norm.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// The shape under which a vector of channels broadcasts against x.
Tensor per_channel(const Tensor& vector, const Tensor& x) {
  Dims shape(x.dim(), 1);
  shape[1] = x.sizes()[1];
  return reshape(vector, shape);
}

Dims all_but_channels(const Tensor& x) {
  Dims dims{0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

struct Statistics {
  Tensor mean, invstd;  // what x is normalized with
  bool from_batch;      // and so depends on x
  double eps;
};

// Whether vectors of channels can be read as statistics of this dtype.
bool are_statistics(std::initializer_list<Tensor> vectors, DType dtype) {
  return std::all_of(vectors.begin(), vectors.end(), [&](const Tensor& v) {
    return !v.defined() || (v.dtype() == dtype && v.is_contiguous());
  });
}

// The gradients in operations that can be differentiated again.
void composed_backward(const Tensor& g, const Tensor& x, const Tensor& weight, const Statistics& s,
                       Grads& out) {
  const Dims dims = all_but_channels(x);
  const IntSpan over(dims);
  Tensor mean = per_channel(s.mean, x), invstd = per_channel(s.invstd, x);
  if (s.from_batch) {
    mean = flambeau::mean(x, over, true);
    const Tensor centered = x - mean;
    invstd = rsqrt(flambeau::mean(centered * centered, over, true) + s.eps);
  }
  const Tensor normal = (x - mean) * invstd;
  const Tensor scale = weight.defined() ? invstd * per_channel(weight, x) : invstd;
  out[0] = scale * g;
  if (s.from_batch) {
    out[0] = scale *
             (g - flambeau::mean(g, over, true) - normal * flambeau::mean(g * normal, over, true));
  }
  out[1] = sum(g * normal, over, false);
  out[2] = sum(g, over, false);
}

Tensor empty_in(MemoryFormat format, const Tensor& like) {
  return make_strided(like.sizes(), format_strides(like.sizes(), format), like.dtype(),
                      like.device());
}

// The input as kernels read it. What is channels last but for the strides of dimensions of one gets
// those of the format, and so does the result.
Tensor in_known_layout(const Tensor& input) {
  const MemoryFormat last =
      input.dim() == 5 ? MemoryFormat::channels_last_3d : MemoryFormat::channels_last;
  if (!input.is_contiguous(last)) return contiguous(input, suggest_format(input));
  return make_alias(input, input.sizes(), format_strides(input.sizes(), last), input.offset());
}

void fused_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                    const Statistics& s, bool wants_x, Grads& out) {
  const MemoryFormat format = suggest_format(input);
  const Tensor x = contiguous(input, format), g = contiguous(gradient, format);
  Tensor sum_g = empty_like(s.mean), sum_gx = empty_like(s.mean);
  kernels::channel_sums(x.device_type(), g, x, s.mean, sum_g, sum_gx);
  out[2] = sum_g;
  const double count = static_cast<double>(x.numel()) / static_cast<double>(s.mean.numel());
  const bool at_once = kernels::channel_gradient_numbers.filled(x.device_type()) &&
                       are_statistics({weight}, s.mean.dtype());
  if (at_once && wants_x && s.from_batch) {
    const Tensor scale = empty_like(s.mean), slope = empty_like(s.mean),
                 offset = empty_like(s.mean);
    out[1] = empty_like(s.mean);
    kernels::channel_gradient_numbers(x.device_type(), sum_g, sum_gx, s.invstd, weight, count,
                                      out[1], scale, slope, offset);
    out[0] = empty_in(format, x);
    kernels::channel_backward(x.device_type(), g, x, s.mean, scale, slope, offset, out[0]);
    return;
  }
  out[1] = sum_gx * s.invstd;
  if (!wants_x) return;
  const Tensor scale = weight.defined() ? as_stat(weight) * s.invstd : s.invstd;
  out[0] = empty_in(format, x);
  if (!s.from_batch) {
    kernels::channel_affine(x.device_type(), g, scale, zeros_like(scale), out[0]);
    return;
  }
  const Tensor slope = scale * s.invstd * out[1] / -count, offset = scale * sum_g / -count;
  kernels::channel_backward(x.device_type(), g, x, s.mean, scale, slope, offset, out[0]);
}

struct BatchNormRule {
  Saved x, weight;
  Statistics statistics;
  bool wants[3];

  void operator()(Grads& in, Grads& out) const {
    const Tensor& g = in[0];
    if (!g.defined()) return;
    if (grad_enabled() || x().numel() == 0) {
      composed_backward(g, x(), weight(), statistics, out);
    } else {
      fused_backward(g, x(), weight(), statistics, wants[0], out);
    }
    for (int i = 0; i < 3; ++i) {
      if (!wants[i]) out[i].reset();
    }
  }
};

void check_vector(const char* name, const Tensor& vector, int64_t channels) {
  CHECK(!vector.defined() || vector.numel() == channels, RuntimeError,
        "{} should contain {} elements not {}", name, channels, vector.numel());
}

// Running statistics are updated past autograd: a gradient that somebody waits for were missing.
void check_running(const char* name, const Tensor& running, int64_t channels) {
  check_vector(name, running, channels);
  CHECK(
      !(running.defined() && running.requires_grad() && grad_enabled()), RuntimeError,
      "The function 'native_batch_norm' is not differentiable with respect to argument '{}'. This "
      "input cannot have requires_grad True.",
      name);
}

void check_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const Tensor& running_mean, const Tensor& running_var, bool training) {
  const int64_t channels = input.dim() > 1 ? input.sizes()[1] : 0;
  if (!training) {
    CHECK(running_mean.defined(), RuntimeError, "running_mean must be defined in evaluation mode");
    CHECK(running_var.defined(), RuntimeError, "running_var must be defined in evaluation mode");
  }
  check_running("running_mean", running_mean, channels);
  check_running("running_var", running_var, channels);
  check_vector("weight", weight, channels);
  check_vector("bias", bias, channels);
  CHECK(input.dim() > 0, RuntimeError, "batch_norm: expected an input with dimensions, got none");
  if (input.numel() != 0) wrap_dim("batch_norm", 1, input.dim());
  CHECK(input.is_floating(), NotImplementedError, "\"batch_norm\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  if (input.numel() == 0) return;
  check_parameter_types("batch_norm", input, {&weight, &bias, &running_mean, &running_var});
}

void update_running(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  mul_(running, 1 - momentum);
  add_scaled_(running, value, momentum);
}

struct Affine {
  Tensor scale, shift;
};

// From a batch's mean and variance to what x is multiplied with and what is added; and the running
// statistics.
Affine settle(const Tensor& x, const Tensor& var, const Tensor& weight, const Tensor& bias,
              const Tensor& running_mean, const Tensor& running_var, bool training, double momentum,
              Statistics& s) {
  const bool updates = training && x.numel() != 0;
  const double count =
      static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(s.mean.numel(), 1));
  const double unbiased = count / (count - 1);
  const Tensor none, moving_mean = updates ? running_mean : none,
                     moving_var = updates ? running_var : none;
  if (kernels::channel_numbers.filled(x.device_type()) && s.mean.numel() != 0 &&
      are_statistics({weight, bias, moving_mean, moving_var}, s.mean.dtype())) {
    s.invstd = empty_like(s.mean);
    Affine map{empty_like(s.mean), empty_like(s.mean)};
    for (const Tensor& moving : {moving_mean, moving_var}) {
      if (moving.defined()) moving.bump_version("batch_norm");
    }
    kernels::channel_numbers(x.device_type(), s.mean, var, weight, bias, moving_mean, moving_var,
                             momentum, unbiased, s.eps, s.invstd, map.scale, map.shift);
    return map;
  }
  if (updates) {
    update_running(running_mean, s.mean, momentum);
    update_running(running_var, var * unbiased, momentum);
  }
  s.invstd = rsqrt(var + s.eps);
  const Tensor scale = weight.defined() ? as_stat(weight) * s.invstd : s.invstd;
  const Tensor centered = s.mean * scale;
  return {scale, bias.defined() ? as_stat(bias) - centered : -centered};
}

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var, bool training,
                  double momentum, double eps, bool /*cudnn_enabled*/) {
  check_batch_norm(input, weight, bias, running_mean, running_var, training);
  if (input.dim() == 1) return clone(input);  // nothing, in no channels
  Statistics s{{}, {}, training, eps};
  Tensor out;
  {
    const NoGrad off;
    const Tensor x = input.is_contiguous() ? input : in_known_layout(input);
    const bool plain = input.is_contiguous() && input.numel() > 0;
    out = plain ? make_tensor(x.sizes(), x.dtype(), x.device()) : empty_like(x);
    const int64_t channels = x.sizes()[1];
    Tensor var;
    if (training) {
      s.mean = make_tensor({channels}, stat_dtype(x.dtype()), x.device());
      var = empty_like(s.mean);
      if (x.numel() != 0) kernels::channel_stats(x.device_type(), x, s.mean, var);
    } else {
      // A later update of the running statistics must not change this op's derivative.
      s.mean = clone(as_stat(running_mean));
      var = as_stat(running_var);
    }
    const auto [scale, shift] =
        settle(x, var, weight, bias, running_mean, running_var, training, momentum, s);
    if (x.numel() != 0) kernels::channel_affine(x.device_type(), x, scale, shift, out);
  }
  if (Record r{"native_batch_norm", out, {input, weight, bias}}) {
    r.all(BatchNormRule{r.save(input), r.save(weight), s, {r.wants(0), r.wants(1), r.wants(2)}});
  }
  return out;
}
OP_FUNCTION(
    batch_norm,
    "batch_norm(input, weight=None, bias=None, running_mean=None, running_var=None, training, "
    "momentum, eps, cudnn_enabled=True)",
    "Normalizes each channel with the statistics of the batch or with the running ones.", no_out)

// A vector of channels repeated for every sample.
Tensor repeated(const Tensor& vector, int64_t samples) {
  if (!vector.defined()) return vector;
  return reshape(expand(unsqueeze(vector, 0), {samples, vector.numel()}),
                 {samples * vector.numel()});
}

Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, bool use_input_stats,
                     double momentum, double eps, bool cudnn_enabled) {
  CHECK(use_input_stats || (running_mean.defined() && running_var.defined()), RuntimeError,
        "Expected running_mean and running_var to be defined when use_input_stats is false");
  CHECK(input.dim() > 1, RuntimeError,
        "instance_norm: expected an input of at least 2 dimensions, got {}", input.sizes());
  // Each sample's channels are channels of one large sample.
  const int64_t samples = input.sizes()[0], channels = input.sizes()[1];
  check_running("running_mean", running_mean, channels);
  check_running("running_var", running_var, channels);
  check_vector("weight", weight, channels);
  check_vector("bias", bias, channels);
  Dims shape = input.sizes().dims();
  shape[0] = 1;
  shape[1] = checked_multiply(samples, channels);
  Tensor mean = repeated(running_mean, samples), var = repeated(running_var, samples);
  // Statistics alone may be narrower than a double input; they are copies here.
  if (input.dtype() == DType::float64 && !weight.defined() && mean.defined() && var.defined())
    mean = to(mean, DType::float64), var = to(var, DType::float64);
  const Tensor out =
      batch_norm(reshape(input, shape), repeated(weight, samples), repeated(bias, samples), mean,
                 var, use_input_stats, momentum, eps, cudnn_enabled);
  if (use_input_stats) {
    const NoGrad off;
    const auto average = [&](const Tensor& running, const Tensor& each) {
      if (running.defined())
        copy_(running, flambeau::mean(reshape(each, {samples, channels}), IntSpan{0}, false));
    };
    average(running_mean, mean);
    average(running_var, var);
  }
  return reshape(out, input.sizes());
}
OP_FUNCTION(instance_norm,
            "instance_norm(input, weight=None, bias=None, running_mean=None, running_var=None, "
            "use_input_stats, momentum, eps, cudnn_enabled=True)",
            "Normalizes each channel of each sample.", no_out)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
// The samples' channels are channels of one batch. Running statistics that all share cannot hold
// those of each.
bool batch_batch_norm(Batching& batch, Result& result) {
  const Tensor input = batch.tensor(0);
  const int mean = batch.find("running_mean"), var = batch.find("running_var");
  const bool training = batch.flag("training");
  CHECK(!training || !batch.is_batched(0) || !batch.given(mean) || batch.is_batched(mean),
        SampleError,
        "Batch norm got a batched tensor as input while the running_mean or running_var, which "
        "will be updated in place, were not batched.");
  if (input.dim() < 2) return false;
  const int64_t channels = input.size(1);
  const Tensor x = tensor_op("movedim", {batch.whole(0), 0, 1});
  batch.rewrite().set(0, tensor_op("flatten", {x, 1, 2}));
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    const int i = batch.find(name);
    if (!batch.tensor(i).defined()) continue;
    const Tensor vector = batch.whole(i);
    batch.rewrite().set(i, reshape_to(vector, {batch.size() * channels}));
  }
  // Statistics that lie in order are views, and are written to.
  const bool views = !training || !batch.given(mean) ||
                     (batch.samples(mean).is_contiguous() && batch.samples(var).is_contiguous());
  if (!views) return false;
  batch.run(result);
  const Tensor y = tensor_op("unflatten", {result.tensor, 1, Dims{batch.size(), channels}});
  result.tensor = tensor_op("movedim", {y, 1, 0});
  return true;
}
// Each item is normalized for itself, so that those of all samples may follow one another.
bool batch_instance_norm(Batching& batch, Result& result) {
  if (!batch.is_batched(0) || !batch.only(0) || batch.rank(0) < 2) return false;
  if (batch.given(batch.find("running_mean")) && batch.flag("use_input_stats")) return false;
  batch.rewrite().set(0, fold_batch(batch.samples(0)));
  batch.run(result);
  result.tensor = tensor_op("unflatten", {result.tensor, 0, Dims{batch.size(), -1}});
  return true;
}
}  // namespace
BATCH(batch_norm, batch_batch_norm)
BATCH(instance_norm, batch_instance_norm)

// What PyTorch makes of it.
static Tensor native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                const Tensor& running_mean, const Tensor& running_var,
                                bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, true);
}
OP_FUNCTION(native_batch_norm,
            "_native_batch_norm.native_batch_norm.default(input, weight, bias, running_mean, "
            "running_var, training, momentum, eps)",
            "batch_norm.")
static Tensor batch_norm_steps(const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Tensor& running_mean, const Tensor& running_var, bool training,
                               double momentum, double eps, bool /*cudnn_enabled*/) {
  return tensor_op("_native_batch_norm",
                   {input, weight, bias, running_mean, running_var, training, momentum, eps});
}
STEPS(batch_norm, batch_norm_steps)

}  // namespace flambeau
