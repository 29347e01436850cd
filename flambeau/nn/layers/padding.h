// Padding of the last one, two or three dimensions: by a constant, or by what is inside.
#pragma once

#include <variant>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {
namespace detail {

template <size_t D>
struct PadOptions {
  template <class T>
  requires std::constructible_from<ExpandingArray<2 * D>, T> PadOptions(T padding)  // NOLINT
      : padding_(padding) {}
  PadOptions(std::initializer_list<int64_t> padding) : padding_(padding) {}
  FLAMBEAU_OPTION(ExpandingArray<2 * D>, padding);
};

}  // namespace detail

template <size_t D>
struct ConstantPadOptions {
  ConstantPadOptions(ExpandingArray<2 * D> padding, double value)
      : padding_(padding), value_(value) {}
  FLAMBEAU_OPTION(ExpandingArray<2 * D>, padding);
  FLAMBEAU_OPTION(double, value);
};
template <size_t D>
using ReflectionPadOptions = detail::PadOptions<D>;
template <size_t D>
using ReplicationPadOptions = detail::PadOptions<D>;
template <size_t D>
using ZeroPadOptions = detail::PadOptions<D>;
template <size_t D>
using CircularPadOptions = detail::PadOptions<D>;

namespace functional {

struct PadFuncOptions {
  using mode_t = std::variant<enumtype::kConstant, enumtype::kReflect, enumtype::kReplicate,
                              enumtype::kCircular>;
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}  // NOLINT
  FLAMBEAU_OPTION(std::vector<int64_t>, pad);
  FLAMBEAU_OPTION(mode_t, mode) = kConstant;
  FLAMBEAU_OPTION(double, value) = 0;
};

Tensor pad(const Tensor& input, const PadFuncOptions& options);

}  // namespace functional

#define FLAMBEAU_PADS(D)                                        \
  using ReflectionPad##D##dOptions = ReflectionPadOptions<D>;   \
  using ReplicationPad##D##dOptions = ReplicationPadOptions<D>; \
  using ZeroPad##D##dOptions = ZeroPadOptions<D>;               \
  using CircularPad##D##dOptions = CircularPadOptions<D>;       \
  using ConstantPad##D##dOptions = ConstantPadOptions<D>;       \
  FLAMBEAU_LAYER(ReflectionPad##D##d, const Tensor& input);     \
  FLAMBEAU_LAYER(ReplicationPad##D##d, const Tensor& input);    \
  FLAMBEAU_LAYER(ZeroPad##D##d, const Tensor& input);           \
  FLAMBEAU_LAYER(CircularPad##D##d, const Tensor& input);       \
  FLAMBEAU_LAYER(ConstantPad##D##d, const Tensor& input)

FLAMBEAU_PADS(1);
FLAMBEAU_PADS(2);
FLAMBEAU_PADS(3);
#undef FLAMBEAU_PADS

}  // namespace flambeau::torch::nn
