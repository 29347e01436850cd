// Convolutions and transposed convolutions over one, two or three spatial dimensions.
#pragma once

#include <variant>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {
namespace detail {

// What layers and functions take; padding({1, 2}) as well, which a variant alone would not.
#define FLAMBEAU_CONV_OPTIONS                                           \
  FLAMBEAU_OPTION(ExpandingArray<D>, stride) = 1;                       \
  FLAMBEAU_OPTION(padding_t, padding) = ExpandingArray<D>(0);           \
                                                                        \
 public:                                                                \
  auto padding(std::initializer_list<int64_t> sizes)->decltype(*this) { \
    return padding(padding_t(ExpandingArray<D>(sizes)));                \
  }                                                                     \
  FLAMBEAU_OPTION(ExpandingArray<D>, output_padding) = 0;               \
  FLAMBEAU_OPTION(ExpandingArray<D>, dilation) = 1;                     \
  FLAMBEAU_OPTION(int64_t, groups) = 1

using conv_padding_mode_t =
    std::variant<enumtype::kZeros, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
template <size_t D>
using conv_padding_t = std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame>;

// Of both kinds: what a layer has, and what a function is given beside input and weight.
template <size_t D, bool Transposed>
struct ConvNdOptions {
  using padding_t = std::conditional_t<Transposed, ExpandingArray<D>, conv_padding_t<D>>;
  using padding_mode_t = conv_padding_mode_t;

  ConvNdOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  FLAMBEAU_OPTION(int64_t, in_channels);
  FLAMBEAU_OPTION(int64_t, out_channels);
  FLAMBEAU_OPTION(ExpandingArray<D>, kernel_size);
  FLAMBEAU_CONV_OPTIONS;
  FLAMBEAU_OPTION(bool, bias) = true;
  FLAMBEAU_OPTION(padding_mode_t, padding_mode) = kZeros;
};

template <size_t D, bool Transposed>
struct ConvNdFuncOptions {
  using padding_t = typename ConvNdOptions<D, Transposed>::padding_t;

  FLAMBEAU_OPTION(Tensor, bias) = {};
  FLAMBEAU_CONV_OPTIONS;
};

#undef FLAMBEAU_CONV_OPTIONS

}  // namespace detail

template <size_t D>
using ConvOptions = detail::ConvNdOptions<D, false>;
template <size_t D>
using ConvTransposeOptions = detail::ConvNdOptions<D, true>;

namespace functional {
template <size_t D>
using ConvFuncOptions = nn::detail::ConvNdFuncOptions<D, false>;
template <size_t D>
using ConvTransposeFuncOptions = nn::detail::ConvNdFuncOptions<D, true>;
}  // namespace functional

namespace detail {

template <size_t D, bool Transposed, class Derived>
class ConvNdImpl : public Cloneable<Derived> {
 public:
  using Options = ConvNdOptions<D, Transposed>;

  FLAMBEAU_FROM_OPTIONS(ConvNdImpl, Options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  Tensor weight, bias;

 protected:
  // Applies padding of a mode other than zeros, and calls the function.
  Tensor convolve(const Tensor& input) requires(!Transposed);
  Tensor convolve(const Tensor& input,
                  const std::optional<std::vector<int64_t>>& output_size) requires Transposed;
};

}  // namespace detail

#define FLAMBEAU_CONV(D)                                                                        \
  using Conv##D##dOptions = ConvOptions<D>;                                                     \
  using ConvTranspose##D##dOptions = ConvTransposeOptions<D>;                                   \
  namespace functional {                                                                        \
  using Conv##D##dFuncOptions = ConvFuncOptions<D>;                                             \
  using ConvTranspose##D##dFuncOptions = ConvTransposeFuncOptions<D>;                           \
  Tensor conv##D##d(const Tensor& input, const Tensor& weight,                                  \
                    const Conv##D##dFuncOptions& options = {});                                 \
  Tensor conv_transpose##D##d(const Tensor& input, const Tensor& weight,                        \
                              const ConvTranspose##D##dFuncOptions& options = {});              \
  }                                                                                             \
  class Conv##D##dImpl : public detail::ConvNdImpl<D, false, Conv##D##dImpl> {                  \
   public:                                                                                      \
    using ConvNdImpl::ConvNdImpl;                                                               \
    Tensor forward(const Tensor& input);                                                        \
  };                                                                                            \
  TORCH_MODULE(Conv##D##d);                                                                     \
  class ConvTranspose##D##dImpl : public detail::ConvNdImpl<D, true, ConvTranspose##D##dImpl> { \
   public:                                                                                      \
    using ConvNdImpl::ConvNdImpl;                                                               \
    Tensor forward(const Tensor& input,                                                         \
                   const std::optional<std::vector<int64_t>>& output_size = std::nullopt);      \
                                                                                                \
   protected:                                                                                   \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<std::vector<int64_t>>())})              \
  };                                                                                            \
  TORCH_MODULE(ConvTranspose##D##d)

FLAMBEAU_CONV(1);
FLAMBEAU_CONV(2);
FLAMBEAU_CONV(3);
#undef FLAMBEAU_CONV

}  // namespace flambeau::torch::nn
