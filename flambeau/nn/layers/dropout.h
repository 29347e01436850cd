// Dropout: zeroes at random while a model trains.
#pragma once

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}  // NOLINT
  FLAMBEAU_OPTION(double, p);
  FLAMBEAU_OPTION(bool, inplace) = false;
};
using Dropout1dOptions = DropoutOptions;
using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;
using AlphaDropoutOptions = DropoutOptions;
using FeatureAlphaDropoutOptions = DropoutOptions;

namespace functional {

struct DropoutFuncOptions {
  FLAMBEAU_OPTION(double, p) = 0.5;
  FLAMBEAU_OPTION(bool, training) = true;
  FLAMBEAU_OPTION(bool, inplace) = false;
};
using Dropout1dFuncOptions = DropoutFuncOptions;
using Dropout2dFuncOptions = DropoutFuncOptions;
using Dropout3dFuncOptions = DropoutFuncOptions;
struct AlphaDropoutFuncOptions {
  FLAMBEAU_OPTION(double, p) = 0.5;
  FLAMBEAU_OPTION(bool, training) = false;
  FLAMBEAU_OPTION(bool, inplace) = false;
};
using FeatureAlphaDropoutFuncOptions = AlphaDropoutFuncOptions;

Tensor dropout(const Tensor& input, const DropoutFuncOptions& options = {});
Tensor dropout1d(const Tensor& input, const Dropout1dFuncOptions& options = {});
Tensor dropout2d(const Tensor& input, const Dropout2dFuncOptions& options = {});
Tensor dropout3d(const Tensor& input, const Dropout3dFuncOptions& options = {});
Tensor alpha_dropout(const Tensor& input, const AlphaDropoutFuncOptions& options = {});
Tensor feature_alpha_dropout(const Tensor& input,
                             const FeatureAlphaDropoutFuncOptions& options = {});

}  // namespace functional

#define FLAMBEAU_DROPOUT(Name) FLAMBEAU_RESET_LAYER(Name, DropoutOptions, (const Tensor& input), )
FLAMBEAU_DROPOUT(Dropout);
FLAMBEAU_DROPOUT(Dropout1d);
FLAMBEAU_DROPOUT(Dropout2d);
FLAMBEAU_DROPOUT(Dropout3d);
FLAMBEAU_DROPOUT(AlphaDropout);
FLAMBEAU_DROPOUT(FeatureAlphaDropout);
#undef FLAMBEAU_DROPOUT

}  // namespace flambeau::torch::nn
