#include "flambeau/nn/layers/pooling.h"

#include "flambeau/nn/print.h"
#include "flambeau/nn/results.h"

namespace flambeau::torch::nn {
namespace {

// The size of the output, where a dimension that is left open keeps its own.
template <size_t D>
std::vector<int64_t> adaptive_size(const Tensor& input,
                                   const ExpandingArrayWithOptionalElem<D>& size) {
  CHECK(input.dim() > static_cast<int64_t>(D), ValueError, "Input dimension should be at least {}",
        D + 1);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < D; ++i)
    sizes.push_back((*size)[i].value_or(input.size(static_cast<int64_t>(i) - int64_t{D})));
  return sizes;
}
std::vector<int64_t> adaptive_size(const Tensor&, const ExpandingArray<1>& size) {
  return {(*size)[0]};
}

using detail::pair_of;

// What is given of the two, as the op takes it.
template <size_t D>
std::optional<std::vector<int64_t>> output_size_of(const FractionalMaxPoolOptions<D>& options) {
  if (!options.output_size()) return {};
  return std::vector<int64_t>((*options.output_size())->begin(), (*options.output_size())->end());
}
template <size_t D>
std::vector<double> ratio_of(const FractionalMaxPoolOptions<D>& options) {
  if (options.output_size() || !options.output_ratio()) return {};
  return {(*options.output_ratio())->begin(), (*options.output_ratio())->end()};
}

}  // namespace

namespace functional {

// avg_pool1d has no divisor.
Tensor avg_pool1d(const Tensor& input, const AvgPool1dFuncOptions& options) {
  return torch::avg_pool1d(input, options.kernel_size(), IntArrayRef(options.stride()),
                           options.padding(), options.ceil_mode(), options.count_include_pad());
}

#define AVG_POOL(D)                                                                           \
  Tensor avg_pool##D##d(const Tensor& input, const AvgPool##D##dFuncOptions& options) {       \
    return torch::avg_pool##D##d(input, options.kernel_size(), IntArrayRef(options.stride()), \
                                 options.padding(), options.ceil_mode(),                      \
                                 options.count_include_pad(), options.divisor_override());    \
  }
#define POOLS(D)                                                                               \
  Tensor max_pool##D##d(const Tensor& input, const MaxPool##D##dFuncOptions& options) {        \
    return torch::max_pool##D##d(input, options.kernel_size(), IntArrayRef(options.stride()),  \
                                 options.padding(), options.dilation(), options.ceil_mode());  \
  }                                                                                            \
  std::tuple<Tensor, Tensor> max_pool##D##d_with_indices(                                      \
      const Tensor& input, const MaxPool##D##dFuncOptions& options) {                          \
    return pair_of(torch::max_pool##D##d_with_indices(                                         \
        input, options.kernel_size(), IntArrayRef(options.stride()), options.padding(),        \
        options.dilation(), options.ceil_mode()));                                             \
  }                                                                                            \
  Tensor adaptive_avg_pool##D##d(const Tensor& input,                                          \
                                 const AdaptiveAvgPool##D##dFuncOptions& options) {            \
    return torch::adaptive_avg_pool##D##d(input, adaptive_size(input, options.output_size())); \
  }                                                                                            \
  std::tuple<Tensor, Tensor> adaptive_max_pool##D##d_with_indices(                             \
      const Tensor& input, const AdaptiveMaxPool##D##dFuncOptions& options) {                  \
    return pair_of(                                                                            \
        torch::adaptive_max_pool##D##d(input, adaptive_size(input, options.output_size())));   \
  }                                                                                            \
  Tensor adaptive_max_pool##D##d(const Tensor& input,                                          \
                                 const AdaptiveMaxPool##D##dFuncOptions& options) {            \
    return std::get<0>(adaptive_max_pool##D##d_with_indices(input, options));                  \
  }                                                                                            \
  Tensor lp_pool##D##d(const Tensor& input, const LPPool##D##dFuncOptions& options) {          \
    return torch::_lp_pool##D##d(input, options.norm_type(), options.kernel_size(),            \
                                 IntArrayRef(options.stride()), options.ceil_mode());          \
  }                                                                                            \
  Tensor max_unpool##D##d(const Tensor& input, const Tensor& indices,                          \
                          const MaxUnpool##D##dFuncOptions& options) {                         \
    return torch::_max_unpool##D##d(input, indices, options.kernel_size(),                     \
                                    IntArrayRef(options.stride()), options.padding(),          \
                                    options.output_size());                                    \
  }
#define FRACTIONAL_POOL(D)                                                                       \
  std::tuple<Tensor, Tensor> fractional_max_pool##D##d_with_indices(                             \
      const Tensor& input, const FractionalMaxPool##D##dFuncOptions& options) {                  \
    return pair_of(torch::_fractional_max_pool##D##d(input, options.kernel_size(),               \
                                                     output_size_of(options), ratio_of(options), \
                                                     options._random_samples()));                \
  }                                                                                              \
  Tensor fractional_max_pool##D##d(const Tensor& input,                                          \
                                   const FractionalMaxPool##D##dFuncOptions& options) {          \
    return std::get<0>(fractional_max_pool##D##d_with_indices(input, options));                  \
  }

AVG_POOL(2)
AVG_POOL(3)
POOLS(1)
POOLS(2)
POOLS(3)
FRACTIONAL_POOL(2)
FRACTIONAL_POOL(3)

}  // namespace functional

// --- Layers --------------------------------------------------------------------------------------

#define INDEXED_LAYER(Name, function, ...)                                           \
  LAYER(Name, function, __VA_ARGS__)                                                 \
  std::tuple<Tensor, Tensor> Name##Impl::forward_with_indices(const Tensor& input) { \
    return functional::function##_with_indices(input, options);                      \
  }
#define WINDOW OPTION(kernel_size) OPTION(stride)
#define LAYERS(D)                                                                                  \
  LAYER(AvgPool##D##d, avg_pool##D##d, WINDOW OPTION(padding))                                     \
  LAYER(AdaptiveAvgPool##D##d, adaptive_avg_pool##D##d, OPTION(output_size))                       \
  LAYER(LPPool##D##d, lp_pool##D##d, OPTION(norm_type) WINDOW OPTION(ceil_mode))                   \
  INDEXED_LAYER(MaxPool##D##d, max_pool##D##d,                                                     \
                WINDOW OPTION(padding) OPTION(dilation) OPTION(ceil_mode))                         \
  INDEXED_LAYER(AdaptiveMaxPool##D##d, adaptive_max_pool##D##d, OPTION(output_size))               \
  Tensor MaxUnpool##D##dImpl::forward(const Tensor& input, const Tensor& indices,                  \
                                      const std::optional<std::vector<int64_t>>& output_size) {    \
    return functional::max_unpool##D##d(input, indices,                                            \
                                        MaxUnpool##D##dOptions(options).output_size(output_size)); \
  }                                                                                                \
  SHOW(MaxUnpool##D##d, WINDOW OPTION(padding))

LAYERS(1)
LAYERS(2)
LAYERS(3)
INDEXED_LAYER(FractionalMaxPool2d, fractional_max_pool2d)
INDEXED_LAYER(FractionalMaxPool3d, fractional_max_pool3d)

}  // namespace flambeau::torch::nn
