// What layers are made of: Layer, which holds their options, and Print, which shows them.
#pragma once

#include <concepts>
#include <iosfwd>
#include <utility>

#include "flambeau/api/enum.h"
#include "flambeau/nn/any.h"
#include "flambeau/nn/cloneable.h"
#include "flambeau/nn/expanding_array.h"
#include "flambeau/nn/holder.h"
#include "flambeau/nn/option.h"

namespace flambeau::torch::nn {

// A layer takes its options, or whatever these are made from: MaxPool2d(3).
template <class Derived, class LayerOptions>
class Layer : public Cloneable<Derived> {
 public:
  using Options = LayerOptions;

  Layer() requires std::default_initializable<Options>
  = default;
  explicit Layer(const Options& options) : options(options) {}
  template <class... Args>
  requires(sizeof...(Args) > 0 &&
           std::constructible_from<Options, Args...>) explicit Layer(Args&&... args)
      : options(std::forward<Args>(args)...) {}
  void reset() override {}

  Options options;
};

struct NoOptions {};

// The constructor of a class whose reset() makes parameters or modules.
#define FLAMBEAU_FROM_OPTIONS(Class, Options)                                               \
  template <class... Args>                                                                  \
  requires std::constructible_from<Options, Args...>                                        \
  explicit Class(Args&&... args) : options(std::forward<Args>(args)...) { Class::reset(); } \
  Options options

// One, and the function that it calls with its options.
#define FLAMBEAU_FUNCTION_LAYER(Name, function, usual, ...)             \
  namespace functional {                                                \
  using Name##FuncOptions = Name##Options;                              \
  Tensor function(__VA_ARGS__, const Name##FuncOptions& options usual); \
  }                                                                     \
  FLAMBEAU_LAYER(Name, __VA_ARGS__)

// A layer whose reset() checks its options, or makes `members` of them.
#define FLAMBEAU_RESET_LAYER(Name, LayerOptions, arguments, members) \
  class Name##Impl : public Cloneable<Name##Impl> {                  \
   public:                                                           \
    FLAMBEAU_FROM_OPTIONS(Name##Impl, LayerOptions);                 \
    void reset() override;                                           \
    void pretty_print(std::ostream& stream) const override;          \
    Tensor forward arguments;                                        \
    members                                                          \
  };                                                                 \
  TORCH_MODULE(Name)
// With parameters, which reset_parameters() gives their initial values.
#define FLAMBEAU_PARAMETER_LAYER(Name, ...)                                                        \
  FLAMBEAU_RESET_LAYER(Name, Name##Options, (__VA_ARGS__), void reset_parameters(); Tensor weight; \
                       Tensor bias;)

// A layer without parameters: what its forward() takes; a source file says the rest.
#define FLAMBEAU_LAYER_OF(Name, LayerOptions, ...)            \
  class Name##Impl : public Layer<Name##Impl, LayerOptions> { \
   public:                                                    \
    using Layer::Layer;                                       \
    void pretty_print(std::ostream& stream) const override;   \
    Tensor forward(__VA_ARGS__);                              \
  };                                                          \
  TORCH_MODULE(Name)
#define FLAMBEAU_LAYER(Name, ...) FLAMBEAU_LAYER_OF(Name, Name##Options, __VA_ARGS__)

}  // namespace flambeau::torch::nn
