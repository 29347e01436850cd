#include "flambeau/nn/layers/conv.h"

#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace {

using detail::ConvNdImpl;

// The op of D dimensions.
template <size_t D, class... Args>
Tensor conv(const Args&... args) {
  if constexpr (D == 1) return torch::conv1d(args...);
  if constexpr (D == 2) return torch::conv2d(args...);
  if constexpr (D == 3) return torch::conv3d(args...);
}
template <size_t D, class Options>
Tensor transposed_conv(const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const Options& options, const ExpandingArray<D>& output_padding) {
  const auto apply = [&](auto op) {
    return op(input, weight, bias, options.stride(), options.padding(), output_padding,
              options.groups(), options.dilation());
  };
#define CALL(...) [](const auto&... args) { return torch::__VA_ARGS__(args...); }
  if constexpr (D == 1) return apply(CALL(conv_transpose1d));
  if constexpr (D == 2) return apply(CALL(conv_transpose2d));
  if constexpr (D == 3) return apply(CALL(conv_transpose3d));
#undef CALL
}

// With padding in numbers, or as a word.
template <size_t D, class Options>
Tensor convolve_with(const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Options& options, const detail::conv_padding_t<D>& padding) {
  return std::visit(
      [&](const auto& how) {
        if constexpr (std::is_same_v<decltype(how), const ExpandingArray<D>&>) {
          return conv<D>(input, weight, bias, options.stride(), IntArrayRef(how),
                         options.dilation(), options.groups());
        } else {
          return conv<D>(input, weight, bias, options.stride(), how.word, options.dilation(),
                         options.groups());
        }
      },
      padding);
}

// What pad() is given to do beforehand: the last dimension first, before and after it.
template <size_t D>
std::vector<int64_t> padding_of(const ConvOptions<D>& options) {
  std::vector<int64_t> padding;
  for (size_t i = D; i-- > 0;) {
    int64_t before = 0, after = 0;
    if (const auto* sizes = std::get_if<ExpandingArray<D>>(&options.padding())) {
      before = after = (**sizes)[i];
    } else if (std::holds_alternative<enumtype::kSame>(options.padding())) {
      const int64_t total = (*options.dilation())[i] * ((*options.kernel_size())[i] - 1);
      before = total / 2;
      after = total - before;
    }
    padding.insert(padding.end(), {before, after});
  }
  return padding;
}

// The output padding by which the output gets the size that is asked for.
template <size_t D>
ExpandingArray<D> output_padding_for(const Tensor& input, const ConvTransposeOptions<D>& options,
                                     const std::vector<int64_t>& output_size) {
  const size_t outer = static_cast<size_t>(input.dim()) == D + 2 ? 2 : 1;
  IntSpan wanted = output_size;
  if (wanted.size() == outer + D) wanted = wanted.from(outer);
  CHECK(wanted.size() == D, ValueError,
        "ConvTranspose{}D: for {}D input, output_size must have {} or {} elements (got {})", D,
        input.dim(), D, outer + D, output_size.size());
  std::vector<int64_t> smallest, largest, extra;
  for (size_t i = 0; i < D; ++i) {
    const int64_t stride = (*options.stride())[i];
    smallest.push_back((input.size(static_cast<int64_t>(i + outer)) - 1) * stride -
                       2 * (*options.padding())[i] +
                       (*options.dilation())[i] * ((*options.kernel_size())[i] - 1) + 1);
    largest.push_back(smallest.back() + stride - 1);
    extra.push_back(wanted[i] - smallest.back());
  }
  for (size_t i = 0; i < D; ++i) {
    CHECK(wanted[i] >= smallest[i] && wanted[i] <= largest[i], ValueError,
          "requested an output size of {}, but valid sizes range from {} to {} (for an input of "
          "{})",
          to_text(wanted), to_text(IntSpan(smallest)), to_text(IntSpan(largest)),
          to_text(input.sizes()));
  }
  return extra;
}

}  // namespace

namespace detail {

template <size_t D, bool Transposed, class Derived>
void ConvNdImpl<D, Transposed, Derived>::reset() {
  const int64_t in = options.in_channels(), out = options.out_channels(), groups = options.groups();
  CHECK(in > 0 && groups > 0 && out > 0, ValueError,
        "in_channels, groups and out_channels must be a positive integer.");
  CHECK(in % groups == 0, ValueError, "in_channels must be divisible by groups");
  CHECK(out % groups == 0, ValueError, "out_channels must be divisible by groups");
  if constexpr (Transposed) {
    CHECK(std::holds_alternative<enumtype::kZeros>(options.padding_mode()), ValueError,
          "Only \"zeros\" padding mode is supported for ConvTranspose{}d", D);
  } else if (std::holds_alternative<enumtype::kSame>(options.padding())) {
    CHECK(options.stride() == ExpandingArray<D>(1), ValueError,
          "padding='same' is not supported for strided convolutions");
  }
  std::vector<int64_t> sizes{Transposed ? in : out, (Transposed ? out : in) / groups};
  sizes.insert(sizes.end(), options.kernel_size()->begin(), options.kernel_size()->end());
  weight = this->register_empty("weight", sizes);
  bias = this->register_empty("bias", {out}, options.bias());
  reset_parameters();
}

template <size_t D, bool Transposed, class Derived>
void ConvNdImpl<D, Transposed, Derived>::reset_parameters() {
  reset_weight_and_bias(weight, bias);
}

template <size_t D, bool Transposed, class Derived>
void ConvNdImpl<D, Transposed, Derived>::pretty_print(std::ostream& stream) const {
  const ExpandingArray<D> zeros = 0, ones = 1;
  Print print(stream, (Transposed ? "ConvTranspose" : "Conv") + std::to_string(D) + "d");
  print(options.in_channels())(options.out_channels())("kernel_size", options.kernel_size())(
      "stride", options.stride());
  const auto padding = [&](const auto& how) {
    if constexpr (std::is_same_v<decltype(how), const ExpandingArray<D>&>)
      print.unless(zeros, "padding", how);
    else
      print("padding", '\'' + std::string(how.word) + '\'');
  };
  if constexpr (Transposed)
    padding(std::as_const(options.padding()));
  else
    std::visit(padding, std::as_const(options.padding()));
  print.unless(ones, "dilation", options.dilation())
      .unless(zeros, "output_padding", options.output_padding())
      .unless(int64_t{1}, "groups", options.groups())
      .unless(true, "bias", options.bias())
      .unless(std::string("kZeros"), "padding_mode",
              enumtype::get_enum_name(options.padding_mode()));
}

template <size_t D, bool Transposed, class Derived>
Tensor ConvNdImpl<D, Transposed, Derived>::convolve(const Tensor& input) requires(!Transposed) {
  if (std::holds_alternative<enumtype::kZeros>(options.padding_mode()))
    return convolve_with<D>(input, weight, bias, options, options.padding());
  const Tensor padded =
      torch::pad(input, padding_of<D>(options), enumtype::name_of(options.padding_mode()));
  return convolve_with<D>(padded, weight, bias, options, ExpandingArray<D>(0));
}

template <size_t D, bool Transposed, class Derived>
Tensor ConvNdImpl<D, Transposed, Derived>::convolve(
    const Tensor& input,
    const std::optional<std::vector<int64_t>>& output_size) requires Transposed {
  return transposed_conv<D>(
      input, weight, bias, options,
      output_size ? output_padding_for<D>(input, options, *output_size) : options.output_padding());
}

}  // namespace detail

#define CONV(D)                                                                                  \
  Tensor functional::conv##D##d(const Tensor& input, const Tensor& weight,                       \
                                const Conv##D##dFuncOptions& options) {                          \
    return convolve_with<D>(input, weight, options.bias(), options, options.padding());          \
  }                                                                                              \
  Tensor functional::conv_transpose##D##d(const Tensor& input, const Tensor& weight,             \
                                          const ConvTranspose##D##dFuncOptions& options) {       \
    return transposed_conv<D>(input, weight, options.bias(), options, options.output_padding()); \
  }                                                                                              \
  Tensor Conv##D##dImpl::forward(const Tensor& input) { return convolve(input); }                \
  Tensor ConvTranspose##D##dImpl::forward(                                                       \
      const Tensor& input, const std::optional<std::vector<int64_t>>& output_size) {             \
    return convolve(input, output_size);                                                         \
  }                                                                                              \
  template class detail::ConvNdImpl<D, false, Conv##D##dImpl>;                                   \
  template class detail::ConvNdImpl<D, true, ConvTranspose##D##dImpl>;

CONV(1)
CONV(2)
CONV(3)

}  // namespace flambeau::torch::nn
