// The optimizers whose step is an op of the core: options and state have the names and defaults
// that they have in Python.
#pragma once

#include "flambeau/optim/optimizer.h"

namespace flambeau::torch::optim {

// State that counts steps, in a tensor of one number as the ops want it.
template <class Derived>
class CountingParamState : public OptimizerCloneableParamState<Derived> {
 public:
  [[nodiscard]] int64_t step() const {
    return step_.defined() ? static_cast<int64_t>(step_.template item<double>()) : 0;
  }
  Derived& step(int64_t count) {
    step_ = torch::full({}, static_cast<double>(count), DType::float32);
    return static_cast<Derived&>(*this);
  }
  Tensor& counter() {
    if (!step_.defined()) step(0);
    return step_;
  }

 protected:
  Tensor step_;
};

// Constructors that check the options, and the step of a class of optimizer.
#define FLAMBEAU_OPTIMIZER(Name, default_options)                                      \
  class Name : public Optimizer {                                                      \
   public:                                                                             \
    explicit Name(const std::vector<OptimizerParamGroup>& param_groups,                \
                  Name##Options defaults default_options);                             \
    explicit Name(std::vector<Tensor> params, Name##Options defaults default_options); \
    Tensor step(LossClosure closure = nullptr) override;                               \
                                                                                       \
   protected:                                                                          \
    [[nodiscard]] std::unique_ptr<OptimizerParamState> make_state() const override;    \
  }

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(double, momentum) = 0;
  FLAMBEAU_OPTION(double, dampening) = 0;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_OPTION(bool, nesterov) = false;
  FLAMBEAU_FIELDS;
};
struct SGDParamState : OptimizerCloneableParamState<SGDParamState> {
  FLAMBEAU_OPTION(Tensor, momentum_buffer);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(SGD, );

#define FLAMBEAU_ADAM(Name, decay)                                  \
  struct Name##Options : OptimizerCloneableOptions<Name##Options> { \
    using betas_t = Pair;                                           \
    Name##Options(double lr = 1e-3); /* NOLINT */                   \
    FLAMBEAU_OPTION(double, lr);                                    \
    FLAMBEAU_OPTION(betas_t, betas) = {0.9, 0.999};                 \
    FLAMBEAU_OPTION(double, eps) = 1e-8;                            \
    FLAMBEAU_OPTION(double, weight_decay) = decay;                  \
    FLAMBEAU_OPTION(bool, amsgrad) = false;                         \
    FLAMBEAU_FIELDS;                                                \
  };                                                                \
  struct Name##ParamState : CountingParamState<Name##ParamState> {  \
    FLAMBEAU_OPTION(Tensor, exp_avg);                               \
    FLAMBEAU_OPTION(Tensor, exp_avg_sq);                            \
    FLAMBEAU_OPTION(Tensor, max_exp_avg_sq);                        \
    FLAMBEAU_FIELDS;                                                \
  };                                                                \
  FLAMBEAU_OPTIMIZER(Name, = {})
FLAMBEAU_ADAM(Adam, 0);
FLAMBEAU_ADAM(AdamW, 1e-2);
#undef FLAMBEAU_ADAM

struct AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(double, lr_decay) = 0;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_OPTION(double, initial_accumulator_value) = 0;
  FLAMBEAU_OPTION(double, eps) = 1e-10;
  FLAMBEAU_FIELDS;
};
struct AdagradParamState : CountingParamState<AdagradParamState> {
  FLAMBEAU_OPTION(Tensor, sum);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(Adagrad, = {});

struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(double, alpha) = 0.99;
  FLAMBEAU_OPTION(double, eps) = 1e-8;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_OPTION(double, momentum) = 0;
  FLAMBEAU_OPTION(bool, centered) = false;
  FLAMBEAU_FIELDS;
};
struct RMSpropParamState : CountingParamState<RMSpropParamState> {
  FLAMBEAU_OPTION(Tensor, square_avg);
  FLAMBEAU_OPTION(Tensor, momentum_buffer);
  FLAMBEAU_OPTION(Tensor, grad_avg);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(RMSprop, = {});

struct AdadeltaOptions : OptimizerCloneableOptions<AdadeltaOptions> {
  AdadeltaOptions(double lr = 1.0);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(double, rho) = 0.9;
  FLAMBEAU_OPTION(double, eps) = 1e-6;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_FIELDS;
};
struct AdadeltaParamState : CountingParamState<AdadeltaParamState> {
  FLAMBEAU_OPTION(Tensor, square_avg);
  FLAMBEAU_OPTION(Tensor, acc_delta);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(Adadelta, = {});

struct AdamaxOptions : OptimizerCloneableOptions<AdamaxOptions> {
  AdamaxOptions(double lr = 2e-3);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(Pair, betas) = {0.9, 0.999};
  FLAMBEAU_OPTION(double, eps) = 1e-8;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_FIELDS;
};
struct AdamaxParamState : CountingParamState<AdamaxParamState> {
  FLAMBEAU_OPTION(Tensor, exp_avg);
  FLAMBEAU_OPTION(Tensor, exp_inf);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(Adamax, = {});

struct ASGDOptions : OptimizerCloneableOptions<ASGDOptions> {
  ASGDOptions(double lr = 1e-2);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(double, lambd) = 1e-4;
  FLAMBEAU_OPTION(double, alpha) = 0.75;
  FLAMBEAU_OPTION(double, t0) = 1e6;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_FIELDS;
};
struct ASGDParamState : CountingParamState<ASGDParamState> {
  FLAMBEAU_OPTION(Tensor, eta);
  FLAMBEAU_OPTION(Tensor, mu);
  FLAMBEAU_OPTION(Tensor, ax);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(ASGD, = {});

struct NAdamOptions : OptimizerCloneableOptions<NAdamOptions> {
  NAdamOptions(double lr = 2e-3);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(Pair, betas) = {0.9, 0.999};
  FLAMBEAU_OPTION(double, eps) = 1e-8;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_OPTION(double, momentum_decay) = 4e-3;
  FLAMBEAU_OPTION(bool, decoupled_weight_decay) = false;
  FLAMBEAU_FIELDS;
};
struct NAdamParamState : CountingParamState<NAdamParamState> {
  FLAMBEAU_OPTION(Tensor, mu_product);
  FLAMBEAU_OPTION(Tensor, exp_avg);
  FLAMBEAU_OPTION(Tensor, exp_avg_sq);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(NAdam, = {});

struct RAdamOptions : OptimizerCloneableOptions<RAdamOptions> {
  RAdamOptions(double lr = 1e-3);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(Pair, betas) = {0.9, 0.999};
  FLAMBEAU_OPTION(double, eps) = 1e-8;
  FLAMBEAU_OPTION(double, weight_decay) = 0;
  FLAMBEAU_OPTION(bool, decoupled_weight_decay) = false;
  FLAMBEAU_FIELDS;
};
struct RAdamParamState : CountingParamState<RAdamParamState> {
  FLAMBEAU_OPTION(Tensor, exp_avg);
  FLAMBEAU_OPTION(Tensor, exp_avg_sq);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(RAdam, = {});

struct RpropOptions : OptimizerCloneableOptions<RpropOptions> {
  RpropOptions(double lr = 1e-2);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(Pair, etas) = {0.5, 1.2};
  FLAMBEAU_OPTION(Pair, step_sizes) = {1e-6, 50};
  FLAMBEAU_FIELDS;
};
struct RpropParamState : CountingParamState<RpropParamState> {
  FLAMBEAU_OPTION(Tensor, prev);
  FLAMBEAU_OPTION(Tensor, step_size);
  FLAMBEAU_FIELDS;
};
FLAMBEAU_OPTIMIZER(Rprop, = {});

}  // namespace flambeau::torch::optim
