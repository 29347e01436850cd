// Pooling: one value a window, over one, two or three spatial dimensions.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

template <size_t D>
struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel_size)  // NOLINT
      : kernel_size_(kernel_size), stride_(kernel_size) {}
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<D>, stride);
  FLAMBEAU_OPTION(ExpandingArray<D>, padding) = 0;
  FLAMBEAU_OPTION(bool, ceil_mode) = false;
  FLAMBEAU_OPTION(bool, count_include_pad) = true;
  FLAMBEAU_OPTION(std::optional<int64_t>, divisor_override) = {};
};
template <size_t D>
struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel_size)  // NOLINT
      : kernel_size_(kernel_size), stride_(kernel_size) {}
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<D>, stride);
  FLAMBEAU_OPTION(ExpandingArray<D>, padding) = 0;
  FLAMBEAU_OPTION(ExpandingArray<D>, dilation) = 1;
  FLAMBEAU_OPTION(bool, ceil_mode) = false;
};
template <size_t D>
struct MaxUnpoolOptions {  // output_size is of the function: the layer is given it by forward()
  MaxUnpoolOptions(ExpandingArray<D> kernel_size)  // NOLINT
      : kernel_size_(kernel_size), stride_(kernel_size) {}
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<D>, stride);
  FLAMBEAU_OPTION(ExpandingArray<D>, padding) = 0;
  FLAMBEAU_OPTION(std::optional<std::vector<int64_t>>, output_size) = {};
};
template <size_t D>
struct LPPoolOptions {
  LPPoolOptions(double norm_type, ExpandingArray<D> kernel_size)
      : norm_type_(norm_type), kernel_size_(kernel_size), stride_(kernel_size) {}
  FLAMBEAU_OPTION(double, norm_type);
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_OPTION(ExpandingArray<D>, stride);
  FLAMBEAU_OPTION(bool, ceil_mode) = false;
};
template <size_t D>
struct FractionalMaxPoolOptions {
  using ExpandingArrayDouble = ExpandingArray<D, double>;
  FractionalMaxPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size) {}  // NOLINT
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_OPTION(std::optional<ExpandingArray<D>>, output_size) = {};
  FLAMBEAU_OPTION(std::optional<ExpandingArrayDouble>, output_ratio) = {};
  FLAMBEAU_OPTION(Tensor, _random_samples) = {};
};
namespace functional {
template <size_t D>
using MaxUnpoolFuncOptions = MaxUnpoolOptions<D>;
}  // namespace functional
template <class OutputSize>
struct AdaptivePoolOptions {
  AdaptivePoolOptions(OutputSize output_size) : output_size_(output_size) {}  // NOLINT
  FLAMBEAU_OPTION(OutputSize, output_size);
};
template <class OutputSize>
using AdaptiveMaxPoolOptions = AdaptivePoolOptions<OutputSize>;
template <class OutputSize>
using AdaptiveAvgPoolOptions = AdaptivePoolOptions<OutputSize>;

namespace detail {
// Only one dimension has always a size of its own.
template <size_t D>
using adaptive_size_t =
    std::conditional_t<D == 1, ExpandingArray<1>, ExpandingArrayWithOptionalElem<D>>;
}  // namespace detail

// A layer whose function has its name and takes its options.
#define FLAMBEAU_POOL(D, Kind, function, PoolOptions)                               \
  using Kind##D##dOptions = PoolOptions;                                            \
  namespace functional {                                                            \
  using Kind##D##dFuncOptions = Kind##D##dOptions;                                  \
  Tensor function##D##d(const Tensor& input, const Kind##D##dFuncOptions& options); \
  }
#define FLAMBEAU_POOL_LAYER(D, Kind, function, PoolOptions) \
  FLAMBEAU_POOL(D, Kind, function, PoolOptions)             \
  FLAMBEAU_LAYER(Kind##D##d, const Tensor& input)
// One that says where it found its values, if asked.
#define FLAMBEAU_INDEXED_POOL(D, Kind, function, PoolOptions)                                   \
  FLAMBEAU_POOL(D, Kind, function, PoolOptions)                                                 \
  namespace functional {                                                                        \
  std::tuple<Tensor, Tensor> function##D##d_with_indices(const Tensor& input,                   \
                                                         const Kind##D##dFuncOptions& options); \
  }                                                                                             \
  class Kind##D##dImpl : public Layer<Kind##D##dImpl, Kind##D##dOptions> {                      \
   public:                                                                                      \
    using Layer::Layer;                                                                         \
    void pretty_print(std::ostream& stream) const override;                                     \
    Tensor forward(const Tensor& input);                                                        \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);                       \
  };                                                                                            \
  TORCH_MODULE(Kind##D##d)

#define FLAMBEAU_POOLS(D)                                                                  \
  FLAMBEAU_POOL_LAYER(D, AvgPool, avg_pool, AvgPoolOptions<D>);                            \
  FLAMBEAU_POOL_LAYER(D, AdaptiveAvgPool, adaptive_avg_pool,                               \
                      AdaptiveAvgPoolOptions<detail::adaptive_size_t<D>>);                 \
  FLAMBEAU_POOL_LAYER(D, LPPool, lp_pool, LPPoolOptions<D>);                               \
  FLAMBEAU_INDEXED_POOL(D, MaxPool, max_pool, MaxPoolOptions<D>);                          \
  FLAMBEAU_INDEXED_POOL(D, AdaptiveMaxPool, adaptive_max_pool,                             \
                        AdaptiveMaxPoolOptions<detail::adaptive_size_t<D>>);               \
  using MaxUnpool##D##dOptions = MaxUnpoolOptions<D>;                                      \
  namespace functional {                                                                   \
  using MaxUnpool##D##dFuncOptions = MaxUnpoolOptions<D>;                                  \
  Tensor max_unpool##D##d(const Tensor& input, const Tensor& indices,                      \
                          const MaxUnpool##D##dFuncOptions& options);                      \
  }                                                                                        \
  class MaxUnpool##D##dImpl : public Layer<MaxUnpool##D##dImpl, MaxUnpool##D##dOptions> {  \
   public:                                                                                 \
    using Layer::Layer;                                                                    \
    void pretty_print(std::ostream& stream) const override;                                \
    Tensor forward(const Tensor& input, const Tensor& indices,                             \
                   const std::optional<std::vector<int64_t>>& output_size = std::nullopt); \
                                                                                           \
   protected:                                                                              \
    FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(std::optional<std::vector<int64_t>>())})         \
  };                                                                                       \
  TORCH_MODULE(MaxUnpool##D##d)

FLAMBEAU_POOLS(1);
FLAMBEAU_POOLS(2);
FLAMBEAU_POOLS(3);
FLAMBEAU_INDEXED_POOL(2, FractionalMaxPool, fractional_max_pool, FractionalMaxPoolOptions<2>);
FLAMBEAU_INDEXED_POOL(3, FractionalMaxPool, fractional_max_pool, FractionalMaxPoolOptions<3>);
#undef FLAMBEAU_POOLS
#undef FLAMBEAU_INDEXED_POOL
#undef FLAMBEAU_POOL_LAYER
#undef FLAMBEAU_POOL

}  // namespace flambeau::torch::nn
