// Normalization over a batch, over samples and over groups of channels.
#pragma once

#include <optional>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct BatchNormOptions {
  BatchNormOptions(int64_t num_features) : num_features_(num_features) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, num_features);
  FLAMBEAU_OPTION(double, eps) = 1e-5;
  FLAMBEAU_OPTION(std::optional<double>, momentum) = 0.1;  // of the running averages; none: plain
  FLAMBEAU_OPTION(bool, affine) = true;
  FLAMBEAU_OPTION(bool, track_running_stats) = true;
};
struct InstanceNormOptions {
  InstanceNormOptions(int64_t num_features) : num_features_(num_features) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, num_features);
  FLAMBEAU_OPTION(double, eps) = 1e-5;
  FLAMBEAU_OPTION(double, momentum) = 0.1;
  FLAMBEAU_OPTION(bool, affine) = false;
  FLAMBEAU_OPTION(bool, track_running_stats) = false;
};
struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> normalized_shape)  // NOLINT
      : normalized_shape_(std::move(normalized_shape)) {}
  FLAMBEAU_OPTION(std::vector<int64_t>, normalized_shape);
  FLAMBEAU_OPTION(double, eps) = 1e-5;
  FLAMBEAU_OPTION(bool, elementwise_affine) = true;
};
struct RMSNormOptions {
  RMSNormOptions(std::vector<int64_t> normalized_shape)  // NOLINT
      : normalized_shape_(std::move(normalized_shape)) {}
  FLAMBEAU_OPTION(std::vector<int64_t>, normalized_shape);
  FLAMBEAU_OPTION(std::optional<double>, eps) = {};
  FLAMBEAU_OPTION(bool, elementwise_affine) = true;
};
struct GroupNormOptions {
  GroupNormOptions(int64_t num_groups, int64_t num_channels)
      : num_groups_(num_groups), num_channels_(num_channels) {}
  FLAMBEAU_OPTION(int64_t, num_groups);
  FLAMBEAU_OPTION(int64_t, num_channels);
  FLAMBEAU_OPTION(double, eps) = 1e-5;
  FLAMBEAU_OPTION(bool, affine) = true;
};
struct LocalResponseNormOptions {
  LocalResponseNormOptions(int64_t size) : size_(size) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, size);
  FLAMBEAU_OPTION(double, alpha) = 1e-4;
  FLAMBEAU_OPTION(double, beta) = 0.75;
  FLAMBEAU_OPTION(double, k) = 1.;
};
struct CrossMapLRN2dOptions {
  CrossMapLRN2dOptions(int64_t size) : size_(size) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, size);
  FLAMBEAU_OPTION(double, alpha) = 1e-4;
  FLAMBEAU_OPTION(double, beta) = 0.75;
  FLAMBEAU_OPTION(int64_t, k) = 1;
};

namespace functional {

struct BatchNormFuncOptions {
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(Tensor, bias) = {};
  FLAMBEAU_OPTION(bool, training) = false;
  FLAMBEAU_OPTION(double, momentum) = 0.1;
  FLAMBEAU_OPTION(double, eps) = 1e-5;
};
struct InstanceNormFuncOptions {
  FLAMBEAU_OPTION(Tensor, running_mean) = {};
  FLAMBEAU_OPTION(Tensor, running_var) = {};
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(Tensor, bias) = {};
  FLAMBEAU_OPTION(bool, use_input_stats) = true;
  FLAMBEAU_OPTION(double, momentum) = 0.1;
  FLAMBEAU_OPTION(double, eps) = 1e-5;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> normalized_shape)  // NOLINT
      : normalized_shape_(std::move(normalized_shape)) {}
  FLAMBEAU_OPTION(std::vector<int64_t>, normalized_shape);
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(Tensor, bias) = {};
  FLAMBEAU_OPTION(double, eps) = 1e-5;
};
struct GroupNormFuncOptions {
  GroupNormFuncOptions(int64_t num_groups) : num_groups_(num_groups) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, num_groups);
  FLAMBEAU_OPTION(Tensor, weight) = {};
  FLAMBEAU_OPTION(Tensor, bias) = {};
  FLAMBEAU_OPTION(double, eps) = 1e-5;
};
struct NormalizeFuncOptions {
  FLAMBEAU_OPTION(double, p) = 2.0;
  FLAMBEAU_OPTION(int64_t, dim) = 1;
  FLAMBEAU_OPTION(double, eps) = 1e-12;
  FLAMBEAU_OPTION(std::optional<Tensor>, out) = {};
};

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options = {});
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options = {});
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options);
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options);
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});

}  // namespace functional

// What batch and instance normalization have in common: affine parameters and running averages.
template <class Derived, class NormOptions>
class NormImplBase : public Cloneable<Derived> {
 public:
  FLAMBEAU_FROM_OPTIONS(NormImplBase, NormOptions);
  void reset() override;
  void reset_running_stats();
  void reset_parameters();
  [[nodiscard]] int64_t state_version() const override { return 2; }

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  void print_as(std::ostream& stream, const char* name) const;
};

#define FLAMBEAU_NORM(Name, NormOptions)                                                \
  using Name##Options = NormOptions;                                                    \
  class Name##Impl : public NormImplBase<Name##Impl, NormOptions> {                     \
   public:                                                                              \
    using NormImplBase::NormImplBase;                                                   \
    void pretty_print(std::ostream& stream) const override { print_as(stream, #Name); } \
    Tensor forward(const Tensor& input);                                                \
  };                                                                                    \
  TORCH_MODULE(Name)

FLAMBEAU_NORM(BatchNorm1d, BatchNormOptions);
FLAMBEAU_NORM(BatchNorm2d, BatchNormOptions);
FLAMBEAU_NORM(BatchNorm3d, BatchNormOptions);
FLAMBEAU_NORM(InstanceNorm1d, InstanceNormOptions);
FLAMBEAU_NORM(InstanceNorm2d, InstanceNormOptions);
FLAMBEAU_NORM(InstanceNorm3d, InstanceNormOptions);
#undef FLAMBEAU_NORM

FLAMBEAU_PARAMETER_LAYER(LayerNorm, const Tensor& input);
FLAMBEAU_PARAMETER_LAYER(RMSNorm, const Tensor& input);
FLAMBEAU_PARAMETER_LAYER(GroupNorm, const Tensor& input);
FLAMBEAU_FUNCTION_LAYER(LocalResponseNorm, local_response_norm, , const Tensor& input);
FLAMBEAU_LAYER(CrossMapLRN2d, const Tensor& input);

}  // namespace flambeau::torch::nn
