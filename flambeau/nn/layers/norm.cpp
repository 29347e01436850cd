#include "flambeau/nn/layers/norm.h"

#include "flambeau/base/warn.h"
#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace {

// Statistics of a channel need more than one value of it.
void check_values_per_channel(const Tensor& input, int64_t samples) {
  int64_t values = samples;
  for (int64_t d = 2; d < input.dim(); ++d) values *= input.size(d);
  CHECK(values != 1, ValueError,
        "Expected more than 1 value per channel when training, got input size {}",
        to_text(input.sizes()));
}

void reset_affine(const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

}  // namespace

namespace functional {

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options) {
  CHECK(input.dim() >= 2, ValueError, "Expected at least 2 input dimensions, but got {}",
        input.dim());
  if (options.training()) check_values_per_channel(input, input.size(0));
  return torch::batch_norm(input, options.weight(), options.bias(), running_mean, running_var,
                           options.training(), options.momentum(), options.eps());
}
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options) {
  if (options.use_input_stats()) {
    int64_t elements = 1;
    for (int64_t d = 2; d < input.dim(); ++d) elements *= input.size(d);
    CHECK(elements != 1, ValueError,
          "Expected more than 1 spatial element when training, got input size {}",
          to_text(input.sizes()));
  }
  return torch::instance_norm(input, options.weight(), options.bias(), options.running_mean(),
                              options.running_var(), options.use_input_stats(), options.momentum(),
                              options.eps());
}
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options) {
  return torch::layer_norm(input, options.normalized_shape(), options.weight(), options.bias(),
                           options.eps());
}
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options) {
  CHECK(input.dim() >= 2, RuntimeError,
        "Expected at least 2 dimensions for input tensor but received {}", input.dim());
  check_values_per_channel(input, input.size(0) * input.size(1) / options.num_groups());
  return torch::group_norm(input, options.num_groups(), options.weight(), options.bias(),
                           options.eps());
}

Tensor local_response_norm(const Tensor& input, const LocalResponseNormFuncOptions& options) {
  return torch::_local_response_norm(input, options.size(), options.alpha(), options.beta(),
                                     options.k());
}
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options) {
  if (!options.out()) return torch::_normalize(input, options.p(), options.dim(), options.eps());
  torch::_normalize_out(*options.out(), input, options.p(), options.dim(), options.eps());
  return *options.out();
}

}  // namespace functional

// --- Batch and instance normalization ------------------------------------------------------------

template <class Derived, class NormOptions>
void NormImplBase<Derived, NormOptions>::reset() {
  const bool affine = options.affine(), tracks = options.track_running_stats();
  const int64_t n = options.num_features();
  weight = this->register_empty("weight", {n}, affine);
  bias = this->register_empty("bias", {n}, affine);
  running_mean = this->register_buffer("running_mean", tracks ? zeros({n}) : Tensor());
  running_var = this->register_buffer("running_var", tracks ? ones({n}) : Tensor());
  num_batches_tracked = this->register_buffer(
      "num_batches_tracked", tracks ? zeros(std::vector<int64_t>{}, DType::int64) : Tensor());
  reset_parameters();
}

template <class Derived, class NormOptions>
void NormImplBase<Derived, NormOptions>::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

template <class Derived, class NormOptions>
void NormImplBase<Derived, NormOptions>::reset_parameters() {
  reset_running_stats();
  reset_affine(weight, bias);
}

template <class Derived, class NormOptions>
void NormImplBase<Derived, NormOptions>::print_as(std::ostream& stream, const char* name) const {
  Print print(stream, name);
  print(options.num_features())("eps", options.eps());
  const std::optional<double> momentum = options.momentum();
  momentum ? print("momentum", *momentum) : print("momentum", "None");
  print("affine", options.affine())("track_running_stats", options.track_running_stats());
}

namespace {

template <class Impl>
Tensor normalize_batch(Impl& layer, const Tensor& input) {
  const auto& options = layer.options;
  const bool training = layer.is_training();
  double momentum = options.momentum().value_or(0.0);
  if (training && layer.num_batches_tracked.defined()) {
    layer.num_batches_tracked.add_(1);
    // Without a momentum the running statistics are plain averages.
    if (!options.momentum()) momentum = 1.0 / layer.num_batches_tracked.template item<double>();
  }
  const bool tracked = !training || options.track_running_stats();
  return functional::batch_norm(input, tracked ? layer.running_mean : Tensor(),
                                tracked ? layer.running_var : Tensor(),
                                functional::BatchNormFuncOptions()
                                    .weight(layer.weight)
                                    .bias(layer.bias)
                                    .training(training || !layer.running_mean.defined())
                                    .momentum(momentum)
                                    .eps(options.eps()));
}

template <class Impl>
Tensor normalize_instances(Impl& layer, const Tensor& input, int64_t dimensions) {
  const auto& options = layer.options;
  const bool is_sample = input.dim() == dimensions + 1;
  CHECK(is_sample || input.dim() == dimensions + 2, ValueError,
        "expected {}D or {}D input (got {}D input)", dimensions + 1, dimensions + 2, input.dim());
  const int64_t channel_dim = is_sample ? 0 : 1;
  if (input.size(channel_dim) != options.num_features()) {
    CHECK(!options.affine(), ValueError,
          "expected input's size at dim={} to match num_features ({}), but got: {}.", channel_dim,
          options.num_features(), input.size(channel_dim));
    warn(
        format("input's size at dim={} does not match num_features. You can silence this warning "
               "by not passing in num_features, which is not used because affine=False",
               channel_dim));
  }
  const Tensor result = functional::instance_norm(
      is_sample ? input.unsqueeze(0) : input,
      functional::InstanceNormFuncOptions()
          .running_mean(layer.running_mean)
          .running_var(layer.running_var)
          .weight(layer.weight)
          .bias(layer.bias)
          .use_input_stats(layer.is_training() || !options.track_running_stats())
          .momentum(options.momentum())
          .eps(options.eps()));
  return is_sample ? result.squeeze(0) : result;
}

}  // namespace

#define BATCH_NORM(D, condition, expected)                                                    \
  Tensor BatchNorm##D##dImpl::forward(const Tensor& input) {                                  \
    CHECK(condition, ValueError, "expected " expected " input (got {}D input)", input.dim()); \
    return normalize_batch(*this, input);                                                     \
  }
BATCH_NORM(1, input.dim() == 2 || input.dim() == 3, "2D or 3D")
BATCH_NORM(2, input.dim() == 4, "4D")
BATCH_NORM(3, input.dim() == 5, "5D")

#define NORMS(D)                                                      \
  Tensor InstanceNorm##D##dImpl::forward(const Tensor& input) {       \
    return normalize_instances(*this, input, D);                      \
  }                                                                   \
  template class NormImplBase<BatchNorm##D##dImpl, BatchNormOptions>; \
  template class NormImplBase<InstanceNorm##D##dImpl, InstanceNormOptions>;
NORMS(1)
NORMS(2)
NORMS(3)

// --- Layer, group and root mean square normalization ---------------------------------------------

void LayerNormImpl::reset() {
  weight = register_empty("weight", options.normalized_shape(), options.elementwise_affine());
  bias = register_empty("bias", options.normalized_shape(), options.elementwise_affine());
  reset_parameters();
}
void LayerNormImpl::reset_parameters() { reset_affine(weight, bias); }
Tensor LayerNormImpl::forward(const Tensor& input) {
  return torch::layer_norm(input, options.normalized_shape(), weight, bias, options.eps());
}
SHOW(LayerNorm,
     (to_text(IntSpan(options.normalized_shape())))OPTION(eps) OPTION(elementwise_affine))

void RMSNormImpl::reset() {
  weight = register_empty("weight", options.normalized_shape(), options.elementwise_affine());
  reset_parameters();
}
void RMSNormImpl::reset_parameters() { reset_affine(weight, bias); }
Tensor RMSNormImpl::forward(const Tensor& input) {
  return torch::rms_norm(input, options.normalized_shape(), weight, options.eps());
}
void RMSNormImpl::pretty_print(std::ostream& stream) const {
  Print print(stream, "RMSNorm");
  print(to_text(IntSpan(options.normalized_shape())));
  options.eps() ? print("eps", *options.eps()) : print("eps", "None");
  print("elementwise_affine", options.elementwise_affine());
}

void GroupNormImpl::reset() {
  CHECK(options.num_channels() % options.num_groups() == 0, ValueError,
        "num_channels must be divisible by num_groups");
  weight = register_empty("weight", {options.num_channels()}, options.affine());
  bias = register_empty("bias", {options.num_channels()}, options.affine());
  reset_parameters();
}
void GroupNormImpl::reset_parameters() { reset_affine(weight, bias); }
Tensor GroupNormImpl::forward(const Tensor& input) {
  return functional::group_norm(input, functional::GroupNormFuncOptions(options.num_groups())
                                           .weight(weight)
                                           .bias(bias)
                                           .eps(options.eps()));
}
SHOW(GroupNorm, (options.num_groups())(options.num_channels())OPTION(eps) OPTION(affine))

Tensor LocalResponseNormImpl::forward(const Tensor& input) {
  return functional::local_response_norm(input, options);
}
SHOW(LocalResponseNorm, (options.size())OPTION(alpha) OPTION(beta) OPTION(k))

Tensor CrossMapLRN2dImpl::forward(const Tensor& input) {
  return torch::_cross_map_lrn2d(input, options.size(), options.alpha(), options.beta(),
                                 static_cast<double>(options.k()));
}
SHOW(CrossMapLRN2d, (options.size())OPTION(alpha) OPTION(beta) OPTION(k))

}  // namespace flambeau::torch::nn
