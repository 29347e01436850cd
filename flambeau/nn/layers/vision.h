// Images resized (interpolate, Upsample) and sampled at points of a grid.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct UpsampleOptions {
  using mode_t = std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear,
                              enumtype::kBicubic, enumtype::kTrilinear>;
  FLAMBEAU_OPTION(std::optional<std::vector<int64_t>>, size) = {};
  FLAMBEAU_OPTION(std::optional<std::vector<double>>, scale_factor) = {};
  FLAMBEAU_OPTION(mode_t, mode) = kNearest;
  FLAMBEAU_OPTION(std::optional<bool>, align_corners) = {};
};

namespace functional {

struct InterpolateFuncOptions {
  using mode_t =
      std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear, enumtype::kBicubic,
                   enumtype::kTrilinear, enumtype::kArea, enumtype::kNearestExact>;
  FLAMBEAU_OPTION(std::optional<std::vector<int64_t>>, size) = {};
  FLAMBEAU_OPTION(std::optional<std::vector<double>>, scale_factor) = {};
  FLAMBEAU_OPTION(mode_t, mode) = kNearest;
  FLAMBEAU_OPTION(std::optional<bool>, align_corners) = {};
  FLAMBEAU_OPTION(std::optional<bool>, recompute_scale_factor) = {};
  FLAMBEAU_OPTION(bool, antialias) = false;
};
struct GridSampleFuncOptions {
  using mode_t = std::variant<enumtype::kBilinear, enumtype::kNearest, enumtype::kBicubic>;
  using padding_mode_t = std::variant<enumtype::kZeros, enumtype::kBorder, enumtype::kReflection>;
  FLAMBEAU_OPTION(mode_t, mode) = kBilinear;
  FLAMBEAU_OPTION(padding_mode_t, padding_mode) = kZeros;
  FLAMBEAU_OPTION(std::optional<bool>, align_corners) = {};
};

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});
Tensor grid_sample(const Tensor& input, const Tensor& grid,
                   const GridSampleFuncOptions& options = {});
Tensor affine_grid(const Tensor& theta, IntSpan size, bool align_corners = false);

}  // namespace functional

FLAMBEAU_LAYER(Upsample, const Tensor& input);

}  // namespace flambeau::torch::nn
