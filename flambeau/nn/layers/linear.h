// Linear and what stands beside it: Bilinear, Identity, Functional, Flatten, Unflatten.
#pragma once

#include <functional>
#include <vector>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct LinearOptions {
  LinearOptions(int64_t in_features, int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  FLAMBEAU_OPTION(int64_t, in_features);
  FLAMBEAU_OPTION(int64_t, out_features);
  FLAMBEAU_OPTION(bool, bias) = true;
};
struct BilinearOptions {
  BilinearOptions(int64_t in1_features, int64_t in2_features, int64_t out_features)
      : in1_features_(in1_features), in2_features_(in2_features), out_features_(out_features) {}
  FLAMBEAU_OPTION(int64_t, in1_features);
  FLAMBEAU_OPTION(int64_t, in2_features);
  FLAMBEAU_OPTION(int64_t, out_features);
  FLAMBEAU_OPTION(bool, bias) = true;
};
struct FlattenOptions {
  FLAMBEAU_OPTION(int64_t, start_dim) = 1;
  FLAMBEAU_OPTION(int64_t, end_dim) = -1;
};
struct UnflattenOptions {
  UnflattenOptions(int64_t dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  FLAMBEAU_OPTION(int64_t, dim);
  FLAMBEAU_OPTION(std::vector<int64_t>, sizes);
};

namespace functional {

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                const Tensor& bias = {});

}  // namespace functional

FLAMBEAU_PARAMETER_LAYER(Linear, const Tensor& input);
FLAMBEAU_PARAMETER_LAYER(Bilinear, const Tensor& input1, const Tensor& input2);
FLAMBEAU_LAYER(Flatten, const Tensor& input);
FLAMBEAU_LAYER(Unflatten, const Tensor& input);
FLAMBEAU_LAYER_OF(Identity, NoOptions, const Tensor& input);

// A function as a module; further arguments of it are bound: Functional(torch::pow, 2).
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;

  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... Args>
  requires(sizeof...(Args) > 0) explicit FunctionalImpl(F function, Args&&... args)
      : function_(std::bind(function, std::placeholders::_1, std::forward<Args>(args)...)) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  Tensor operator()(Tensor input) { return function_(std::move(input)); }
  [[nodiscard]] bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

}  // namespace flambeau::torch::nn
