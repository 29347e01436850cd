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

using CosineSimilarityFuncOptions = CosineSimilarityOptions;
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
using PixelShuffleFuncOptions = PixelShuffleOptions;
using PixelUnshuffleFuncOptions = PixelUnshuffleOptions;
using FoldFuncOptions = FoldOptions;
using UnfoldFuncOptions = UnfoldOptions;

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2,
                         const CosineSimilarityFuncOptions& options = {});
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                         const PairwiseDistanceFuncOptions& options = {});
Tensor pdist(const Tensor& input, double p = 2.0);
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options);
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options);
Tensor fold(const Tensor& input, const FoldFuncOptions& options);
Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options);

}  // namespace functional

FLAMBEAU_LAYER(CosineSimilarity, const Tensor& x1, const Tensor& x2);
FLAMBEAU_LAYER(PairwiseDistance, const Tensor& x1, const Tensor& x2);
FLAMBEAU_LAYER(PixelShuffle, const Tensor& input);
FLAMBEAU_LAYER(PixelUnshuffle, const Tensor& input);
FLAMBEAU_LAYER(ChannelShuffle, const Tensor& input);
FLAMBEAU_LAYER(Fold, const Tensor& input);
FLAMBEAU_LAYER(Unfold, const Tensor& input);

}  // namespace flambeau::torch::nn
