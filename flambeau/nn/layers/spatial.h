// What moves elements between channels and space (PixelShuffle, Fold), resizes images (Upsample),
// and measures distances.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct CosineSimilarityOptions {
  FLAMBEAU_OPTION(int64_t, dim) = 1;
  FLAMBEAU_OPTION(double, eps) = 1e-8;
};
struct PairwiseDistanceOptions {
  FLAMBEAU_OPTION(double, p) = 2.0;
  FLAMBEAU_OPTION(double, eps) = 1e-6;
  FLAMBEAU_OPTION(bool, keepdim) = false;
};
struct PixelShuffleOptions {
  PixelShuffleOptions(int64_t upscale_factor) : upscale_factor_(upscale_factor) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, upscale_factor);
};
struct PixelUnshuffleOptions {
  PixelUnshuffleOptions(int64_t downscale_factor)
      : downscale_factor_(downscale_factor) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, downscale_factor);
};
struct ChannelShuffleOptions {
  ChannelShuffleOptions(int64_t groups) : groups_(groups) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, groups);
};
struct FoldOptions {
  FoldOptions(ExpandingArray<2> output_size, ExpandingArray<2> kernel_size)
      : output_size_(output_size), kernel_size_(kernel_size) {}
  FLAMBEAU_OPTION(ExpandingArray<2>, output_size);
  FLAMBEAU_OPTION(ExpandingArray<2>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<2>, dilation) = 1;
  FLAMBEAU_OPTION(ExpandingArray<2>, padding) = 0;
  FLAMBEAU_OPTION(ExpandingArray<2>, stride) = 1;
};
struct UnfoldOptions {
  UnfoldOptions(ExpandingArray<2> kernel_size) : kernel_size_(kernel_size) {}  // NOLINT
  FLAMBEAU_OPTION(ExpandingArray<2>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<2>, dilation) = 1;
  FLAMBEAU_OPTION(ExpandingArray<2>, padding) = 0;
  FLAMBEAU_OPTION(ExpandingArray<2>, stride) = 1;
};

namespace functional {

Tensor pdist(const Tensor& input, double p = 2.0);

}  // namespace functional

FLAMBEAU_FUNCTION_LAYER(CosineSimilarity, cosine_similarity, = {}, const Tensor& x1,
                        const Tensor& x2);
FLAMBEAU_FUNCTION_LAYER(PairwiseDistance, pairwise_distance, = {}, const Tensor& x1,
                        const Tensor& x2);
FLAMBEAU_FUNCTION_LAYER(PixelShuffle, pixel_shuffle, , const Tensor& input);
FLAMBEAU_FUNCTION_LAYER(PixelUnshuffle, pixel_unshuffle, , const Tensor& input);
FLAMBEAU_LAYER(ChannelShuffle, const Tensor& input);
FLAMBEAU_FUNCTION_LAYER(Fold, fold, , const Tensor& input);
FLAMBEAU_FUNCTION_LAYER(Unfold, unfold, , const Tensor& input);

}  // namespace flambeau::torch::nn
