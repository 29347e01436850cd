#include "flambeau/nn/layers/dropout.h"

#include "flambeau/base/warn.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {

namespace {

void check_probability(double p) {
  CHECK(p >= 0 && p <= 1, ValueError, "dropout probability has to be between 0 and 1, but got {}",
        p);
}

// Zeroes channels of a batch of `dimensions` dimensions, or of one sample of it. (Python's
// dropout2d takes three dimensions as a batch of sequences; libtorch's does not.)
Tensor dropout_channels(const char* name, int64_t dimensions, const Tensor& input,
                        const functional::DropoutFuncOptions& options) {
  check_probability(options.p());
  const bool is_sample = input.dim() == dimensions - 1;
  if (input.dim() != dimensions && !is_sample) {
    CHECK(dimensions != 3, RuntimeError,
          "{}: Expected 2D or 3D input, but received a {}D input. Note that dropout1d exists to "
          "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, "
          "and an optional batch dimension (i.e. 2D or 3D inputs).",
          name, input.dim());
    warn(format(
        "{}: Received a {}-D input to {}, which is deprecated and will result in an error in a "
        "future release. To retain the behavior and silence this warning, please use dropout "
        "instead.",
        name, input.dim(), name));
  }
  const Tensor batch = is_sample ? input.unsqueeze(0) : input;
  Tensor result = options.inplace()
                      ? torch::feature_dropout_(batch, options.p(), options.training())
                      : torch::feature_dropout(batch, options.p(), options.training());
  if (!is_sample) return result;
  return options.inplace() ? input : result.squeeze(0);
}

}  // namespace

namespace functional {

#define DROPOUT(op)                                                               \
  check_probability(options.p());                                                 \
  return options.inplace() ? torch::op##_(input, options.p(), options.training()) \
                           : torch::op(input, options.p(), options.training())

Tensor dropout(const Tensor& input, const DropoutFuncOptions& options) { DROPOUT(dropout); }
Tensor dropout1d(const Tensor& input, const Dropout1dFuncOptions& options) {
  return dropout_channels("dropout1d", 3, input, options);
}
Tensor dropout2d(const Tensor& input, const Dropout2dFuncOptions& options) {
  return dropout_channels("dropout2d", 4, input, options);
}
Tensor dropout3d(const Tensor& input, const Dropout3dFuncOptions& options) {
  return dropout_channels("dropout3d", 5, input, options);
}
Tensor alpha_dropout(const Tensor& input, const AlphaDropoutFuncOptions& options) {
  DROPOUT(alpha_dropout);
}
Tensor feature_alpha_dropout(const Tensor& input, const FeatureAlphaDropoutFuncOptions& options) {
  DROPOUT(feature_alpha_dropout);
}
#undef DROPOUT

}  // namespace functional

#define DROPOUT(Name, function, FuncOptions)                             \
  void Name##Impl::reset() { check_probability(options.p()); }           \
  Tensor Name##Impl::forward(const Tensor& input) {                      \
    return functional::function(input, functional::FuncOptions()         \
                                           .p(options.p())               \
                                           .training(is_training())      \
                                           .inplace(options.inplace())); \
  }                                                                      \
  SHOW(Name, OPTION(p) OPTION(inplace))

DROPOUT(Dropout, dropout, DropoutFuncOptions)
DROPOUT(Dropout1d, dropout1d, DropoutFuncOptions)
DROPOUT(Dropout2d, dropout2d, DropoutFuncOptions)
DROPOUT(Dropout3d, dropout3d, DropoutFuncOptions)
DROPOUT(AlphaDropout, alpha_dropout, AlphaDropoutFuncOptions)
DROPOUT(FeatureAlphaDropout, feature_alpha_dropout, AlphaDropoutFuncOptions)

}  // namespace flambeau::torch::nn
