#include "flambeau/nn/layers/padding.h"

#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {

Tensor functional::pad(const Tensor& input, const PadFuncOptions& options) {
  const bool constant = std::holds_alternative<enumtype::kConstant>(options.mode());
  return torch::pad(input, options.pad(), enumtype::name_of(options.mode()),
                    constant ? std::optional(options.value()) : std::nullopt);
}

#define PAD(Name, mode)                                \
  Tensor Name##Impl::forward(const Tensor& input) {    \
    return torch::pad(input, options.padding(), mode); \
  }                                                    \
  SHOW(Name, OPTION(padding))
#define PADS(D)                                                               \
  PAD(ReflectionPad##D##d, "reflect")                                         \
  PAD(ReplicationPad##D##d, "replicate")                                      \
  PAD(ZeroPad##D##d, "constant")                                              \
  PAD(CircularPad##D##d, "circular")                                          \
  Tensor ConstantPad##D##dImpl::forward(const Tensor& input) {                \
    return torch::pad(input, options.padding(), "constant", options.value()); \
  }                                                                           \
  SHOW(ConstantPad##D##d, OPTION(padding) OPTION(value))
PADS(1)
PADS(2)
PADS(3)

}  // namespace flambeau::torch::nn
