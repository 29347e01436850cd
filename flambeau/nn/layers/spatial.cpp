#include "flambeau/nn/layers/spatial.h"

#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace functional {

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2,
                         const CosineSimilarityFuncOptions& options) {
  return torch::cosine_similarity(x1, x2, options.dim(), options.eps());
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                         const PairwiseDistanceFuncOptions& options) {
  return torch::pairwise_distance(x1, x2, options.p(), options.eps(), options.keepdim());
}
Tensor pdist(const Tensor& input, double p) { return torch::pdist(input, p); }
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options) {
  return torch::pixel_shuffle(input, options.upscale_factor());
}
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options) {
  return torch::pixel_unshuffle(input, options.downscale_factor());
}
Tensor fold(const Tensor& input, const FoldFuncOptions& options) {
  return torch::col2im(input, options.output_size(), options.kernel_size(), options.dilation(),
                       options.padding(), options.stride());
}
Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options) {
  return torch::im2col(input, options.kernel_size(), options.dilation(), options.padding(),
                       options.stride());
}

}  // namespace functional

#define WINDOW OPTION(kernel_size) OPTION(dilation) OPTION(padding) OPTION(stride)

PAIR_LAYER(CosineSimilarity, cosine_similarity, OPTION(dim) OPTION(eps))
PAIR_LAYER(PairwiseDistance, pairwise_distance, OPTION(p) OPTION(eps) OPTION(keepdim))
LAYER(PixelShuffle, pixel_shuffle, OPTION(upscale_factor))
LAYER(PixelUnshuffle, pixel_unshuffle, OPTION(downscale_factor))
LAYER(Fold, fold, OPTION(output_size) WINDOW)
LAYER(Unfold, unfold, WINDOW)

Tensor ChannelShuffleImpl::forward(const Tensor& input) {
  return torch::channel_shuffle(input, options.groups());
}
SHOW(ChannelShuffle, OPTION(groups))

}  // namespace flambeau::torch::nn
