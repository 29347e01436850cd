#include "flambeau/optim/optimizers.h"

#include <complex>

namespace flambeau::torch::optim {
namespace {

void check_betas(const Pair& betas) {
  const auto [first, second] = betas;
  CHECK(first >= 0 && first < 1, ValueError, "Invalid beta parameter at index 0: {}", first);
  CHECK(second >= 0 && second < 1, ValueError, "Invalid beta parameter at index 1: {}", second);
}
void check_value(const char* name, double value) {
  CHECK(value >= 0, ValueError, "Invalid {} value: {}", name, value);
}
template <class Options>
void check(const Options& options) {
  CHECK(options.lr() >= 0, ValueError, "Invalid learning rate: {}", options.lr());
  if constexpr (requires { options.weight_decay(); })
    check_value("weight_decay", options.weight_decay());
  if constexpr (requires { options.eps(); }) check_value("epsilon", options.eps());
  if constexpr (requires { options.betas(); }) check_betas(options.betas());
  if constexpr (requires { options.momentum(); }) check_value("momentum", options.momentum());
  if constexpr (requires { options.nesterov(); }) {
    CHECK(!options.nesterov() || (options.momentum() > 0 && options.dampening() == 0), ValueError,
          "Nesterov momentum requires a momentum and zero dampening");
  }
  if constexpr (requires { options.centered(); }) check_value("alpha", options.alpha());
  if constexpr (requires { options.momentum_decay(); })
    check_value("momentum_decay", options.momentum_decay());
  if constexpr (requires { options.lr_decay(); }) {
    check_value("lr_decay", options.lr_decay());
    check_value("initial_accumulator_value", options.initial_accumulator_value());
  }
  if constexpr (requires { options.rho(); }) {
    CHECK(options.rho() >= 0 && options.rho() <= 1, ValueError, "Invalid rho value: {}",
          options.rho());
  }
  if constexpr (requires { options.etas(); }) {
    const auto [shrink, grow] = options.etas();
    CHECK(shrink > 0 && shrink < 1 && grow > 1, ValueError, "Invalid eta values: {}, {}", shrink,
          grow);
  }
}

// The loss, where a closure computes it; gradients are on for it alone.
Tensor loss_of(const Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const AutoGradMode recorded(true);
  return closure();
}

// Both parts of complex elements are the value, as they are updated like two numbers.
Tensor filled_like(const Tensor& param, double value) {
  const Scalar both = std::complex<double>(value, value);
  return torch::full_like(param, param.is_complex() ? both : Scalar(value));
}
Tensor number(double value) { return torch::full({}, value, DType::float32); }

void refuse_sparse(const Tensor& grad, const char* optimizer) {
  CHECK(!grad.is_sparse(), RuntimeError, "{} does not support sparse gradients", optimizer);
}

}  // namespace

// --- What all have -------------------------------------------------------------------------------

#define OPTIMIZER(Name)                                                                    \
  Name::Name(const std::vector<OptimizerParamGroup>& param_groups, Name##Options defaults) \
      : Optimizer(param_groups, std::make_unique<Name##Options>(defaults)) {               \
    check(defaults);                                                                       \
  }                                                                                        \
  MADE_FROM_PARAMETERS(Name)
#define MADE_FROM_PARAMETERS(Name)                                             \
  Name##Options::Name##Options(double lr) : lr_(lr) {}                         \
  Name::Name(std::vector<Tensor> params, Name##Options defaults)               \
      : Name(std::vector{OptimizerParamGroup(std::move(params))}, defaults) {} \
  std::unique_ptr<OptimizerParamState> Name::make_state() const {              \
    return std::make_unique<Name##ParamState>();                               \
  }
OPTIMIZER(SGD)
OPTIMIZER(Adam)
OPTIMIZER(AdamW)
OPTIMIZER(RMSprop)
OPTIMIZER(Adadelta)
OPTIMIZER(Adamax)
OPTIMIZER(ASGD)
OPTIMIZER(NAdam)
OPTIMIZER(RAdam)
OPTIMIZER(Rprop)
MADE_FROM_PARAMETERS(Adagrad)
#undef OPTIMIZER
#undef MADE_FROM_PARAMETERS

// Their values, by the names of Python's state_dict.
FLAMBEAU_FIELDS_OF(SGDOptions, lr_, momentum_, dampening_, weight_decay_, nesterov_)
FLAMBEAU_FIELDS_OF(SGDParamState, momentum_buffer_)
FLAMBEAU_FIELDS_OF(AdagradOptions, lr_, lr_decay_, weight_decay_, initial_accumulator_value_, eps_)
FLAMBEAU_FIELDS_OF(AdagradParamState, step_, sum_)
FLAMBEAU_FIELDS_OF(RMSpropOptions, lr_, alpha_, eps_, weight_decay_, momentum_, centered_)
FLAMBEAU_FIELDS_OF(RMSpropParamState, step_, square_avg_, momentum_buffer_, grad_avg_)
FLAMBEAU_FIELDS_OF(AdadeltaOptions, lr_, rho_, eps_, weight_decay_)
FLAMBEAU_FIELDS_OF(AdadeltaParamState, step_, square_avg_, acc_delta_)
FLAMBEAU_FIELDS_OF(AdamaxOptions, lr_, betas_, eps_, weight_decay_)
FLAMBEAU_FIELDS_OF(AdamaxParamState, step_, exp_avg_, exp_inf_)
FLAMBEAU_FIELDS_OF(ASGDOptions, lr_, lambd_, alpha_, t0_, weight_decay_)
FLAMBEAU_FIELDS_OF(ASGDParamState, step_, eta_, mu_, ax_)
FLAMBEAU_FIELDS_OF(NAdamOptions, lr_, betas_, eps_, weight_decay_, momentum_decay_,
                   decoupled_weight_decay_)
FLAMBEAU_FIELDS_OF(NAdamParamState, step_, mu_product_, exp_avg_, exp_avg_sq_)
FLAMBEAU_FIELDS_OF(RAdamOptions, lr_, betas_, eps_, weight_decay_, decoupled_weight_decay_)
FLAMBEAU_FIELDS_OF(RAdamParamState, step_, exp_avg_, exp_avg_sq_)
FLAMBEAU_FIELDS_OF(RpropOptions, lr_, etas_, step_sizes_)
FLAMBEAU_FIELDS_OF(RpropParamState, step_, prev_, step_size_)
FLAMBEAU_FIELDS_OF(AdamOptions, lr_, betas_, eps_, weight_decay_, amsgrad_)
FLAMBEAU_FIELDS_OF(AdamParamState, step_, exp_avg_, exp_avg_sq_, max_exp_avg_sq_)
FLAMBEAU_FIELDS_OF(AdamWOptions, lr_, betas_, eps_, weight_decay_, amsgrad_)
FLAMBEAU_FIELDS_OF(AdamWParamState, step_, exp_avg_, exp_avg_sq_, max_exp_avg_sq_)

// --- SGD -----------------------------------------------------------------------------------------

Tensor SGD::step(LossClosure closure) {
  const NoGradGuard unrecorded;
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& options = static_cast<SGDOptions&>(group.options());
    // A buffer starts as the gradient itself, which the op is told to write into it.
    struct Lists {
      std::vector<Tensor> params, grads, buffers;
    } known, fresh;
    for (const Tensor& param : group.params()) {
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      Lists* lists = &known;
      if (options.momentum() != 0) {
        auto& state = state_of<SGDParamState>(param, [] { return SGDParamState(); });
        if (!state.momentum_buffer().defined()) {
          state.momentum_buffer(grad.clone());
          lists = &fresh;
        }
        lists->buffers.push_back(state.momentum_buffer());
      }
      lists->params.push_back(param);
      lists->grads.push_back(grad);
    }
    for (const Lists* lists : {&fresh, &known}) {
      if (lists->params.empty()) continue;
      torch::_sgd_step(lists->params, lists->grads, lists->buffers, options.lr(),
                       options.momentum(), options.dampening(), options.weight_decay(),
                       options.nesterov(), /*maximize=*/false, lists == &fresh);
    }
  }
  return loss;
}

// --- Adam and AdamW ------------------------------------------------------------------------------

namespace {

template <class ParamState, class Options, class StateOf>
void adam_step(std::vector<OptimizerParamGroup>& groups, const StateOf& state_of,
               const char* optimizer, bool decoupled_weight_decay) {
  for (OptimizerParamGroup& group : groups) {
    const auto& options = static_cast<Options&>(group.options());
    std::vector<Tensor> params, grads, averages, squares, largest, steps;
    for (const Tensor& param : group.params()) {
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      refuse_sparse(grad, optimizer);
      ParamState& state = state_of(param, [&] {
        ParamState made;
        made.exp_avg(torch::zeros_like(param)).exp_avg_sq(torch::zeros_like(param));
        if (options.amsgrad()) made.max_exp_avg_sq(torch::zeros_like(param));
        return made;
      });
      params.push_back(param);
      grads.push_back(grad);
      averages.push_back(state.exp_avg());
      squares.push_back(state.exp_avg_sq());
      if (options.amsgrad()) largest.push_back(state.max_exp_avg_sq());
      steps.push_back(state.counter());
    }
    if (params.empty()) continue;
    const auto [beta1, beta2] = options.betas();
    torch::_adam_step(params, grads, averages, squares, largest, steps, options.lr(), beta1, beta2,
                      options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false,
                      decoupled_weight_decay);
  }
}

}  // namespace

#define ADAM(Name, decoupled_weight_decay)                                                   \
  Tensor Name::step(LossClosure closure) {                                                   \
    const NoGradGuard unrecorded;                                                            \
    Tensor loss = loss_of(closure);                                                          \
    const auto state = [this](const Tensor& param, const auto& start) -> Name##ParamState& { \
      return state_of<Name##ParamState>(param, start);                                       \
    };                                                                                       \
    adam_step<Name##ParamState, Name##Options>(param_groups_, state, #Name,                  \
                                               decoupled_weight_decay);                      \
    return loss;                                                                             \
  }
ADAM(Adam, false)
ADAM(AdamW, true)
#undef ADAM

// --- Those that go parameter by parameter --------------------------------------------------------

namespace {

// What is remembered of a parameter at first, and a step of it.

AdagradParamState start(const AdagradOptions& options, const Tensor& param) {
  AdagradParamState state;
  state.sum(filled_like(param, options.initial_accumulator_value())).step(0);
  return state;
}
void update(const AdagradOptions& options, const Tensor& param, const Tensor& grad,
            AdagradParamState& state) {
  torch::_adagrad_step(param, grad, state.sum(), state.counter(), options.lr(), options.lr_decay(),
                       options.weight_decay(), options.eps());
}

RMSpropParamState start(const RMSpropOptions& options, const Tensor& param) {
  RMSpropParamState state;
  state.square_avg(torch::zeros_like(param));
  if (options.momentum() > 0) state.momentum_buffer(torch::zeros_like(param));
  if (options.centered()) state.grad_avg(torch::zeros_like(param));
  return state;
}
void update(const RMSpropOptions& options, const Tensor& param, const Tensor& grad,
            RMSpropParamState& state) {
  torch::_rmsprop_step(param, grad, state.square_avg(), state.counter(), state.momentum_buffer(),
                       state.grad_avg(), options.lr(), options.alpha(), options.eps(),
                       options.weight_decay(), options.momentum());
}

AdadeltaParamState start(const AdadeltaOptions&, const Tensor& param) {
  AdadeltaParamState state;
  state.square_avg(torch::zeros_like(param)).acc_delta(torch::zeros_like(param));
  return state;
}
void update(const AdadeltaOptions& options, const Tensor& param, const Tensor& grad,
            AdadeltaParamState& state) {
  torch::_adadelta_step(param, grad, state.square_avg(), state.acc_delta(), state.counter(),
                        options.lr(), options.rho(), options.eps(), options.weight_decay());
}

AdamaxParamState start(const AdamaxOptions&, const Tensor& param) {
  AdamaxParamState state;
  state.exp_avg(torch::zeros_like(param)).exp_inf(torch::zeros_like(param));
  return state;
}
void update(const AdamaxOptions& options, const Tensor& param, const Tensor& grad,
            AdamaxParamState& state) {
  const auto [beta1, beta2] = options.betas();
  torch::_adamax_step(param, grad, state.exp_avg(), state.exp_inf(), state.counter(), options.lr(),
                      beta1, beta2, options.eps(), options.weight_decay());
}

ASGDParamState start(const ASGDOptions& options, const Tensor& param) {
  ASGDParamState state;
  state.eta(number(options.lr())).mu(number(1)).ax(torch::zeros_like(param));
  return state;
}
void update(const ASGDOptions& options, const Tensor& param, const Tensor& grad,
            ASGDParamState& state) {
  torch::_asgd_step(param, grad, state.ax(), state.eta(), state.mu(), state.counter(), options.lr(),
                    options.lambd(), options.alpha(), options.t0(), options.weight_decay());
}

NAdamParamState start(const NAdamOptions&, const Tensor& param) {
  NAdamParamState state;
  state.mu_product(number(1)).exp_avg(torch::zeros_like(param));
  state.exp_avg_sq(torch::zeros_like(param));
  return state;
}
void update(const NAdamOptions& options, const Tensor& param, const Tensor& grad,
            NAdamParamState& state) {
  const auto [beta1, beta2] = options.betas();
  torch::_nadam_step(param, grad, state.exp_avg(), state.exp_avg_sq(), state.mu_product(),
                     state.counter(), options.lr(), beta1, beta2, options.eps(),
                     options.weight_decay(), options.momentum_decay(),
                     options.decoupled_weight_decay());
}

RAdamParamState start(const RAdamOptions&, const Tensor& param) {
  RAdamParamState state;
  state.exp_avg(torch::zeros_like(param)).exp_avg_sq(torch::zeros_like(param));
  return state;
}
void update(const RAdamOptions& options, const Tensor& param, const Tensor& grad,
            RAdamParamState& state) {
  const auto [beta1, beta2] = options.betas();
  torch::_radam_step(param, grad, state.exp_avg(), state.exp_avg_sq(), state.counter(),
                     options.lr(), beta1, beta2, options.eps(), options.weight_decay(),
                     options.decoupled_weight_decay());
}

RpropParamState start(const RpropOptions& options, const Tensor& param) {
  RpropParamState state;
  state.prev(torch::zeros_like(param)).step_size(filled_like(param, options.lr()));
  return state;
}
void update(const RpropOptions& options, const Tensor& param, const Tensor& grad,
            RpropParamState& state) {
  const auto [shrink, grow] = options.etas();
  const auto [smallest, largest] = options.step_sizes();
  torch::_rprop_step(param, grad, state.prev(), state.step_size(), state.counter(), shrink, grow,
                     smallest, largest);
}

}  // namespace

#define STEP(Name)                                                                        \
  Tensor Name::step(LossClosure closure) {                                                \
    const NoGradGuard unrecorded;                                                         \
    Tensor loss = loss_of(closure);                                                       \
    for (OptimizerParamGroup & group : param_groups_) {                                   \
      const auto& options = static_cast<const Name##Options&>(group.options());           \
      for (const Tensor& param : group.params()) {                                        \
        const Tensor& grad = param.grad();                                                \
        if (!grad.defined()) continue;                                                    \
        if (!std::is_same_v<Name, Adagrad>) refuse_sparse(grad, #Name);                   \
        update(options, param, grad,                                                      \
               state_of<Name##ParamState>(param, [&] { return start(options, param); })); \
      }                                                                                   \
    }                                                                                     \
    return loss;                                                                          \
  }
STEP(Adagrad)
STEP(RMSprop)
STEP(Adadelta)
STEP(Adamax)
STEP(ASGD)
STEP(NAdam)
STEP(RAdam)
STEP(Rprop)
#undef STEP

// It remembers its parameters from the beginning.
Adagrad::Adagrad(const std::vector<OptimizerParamGroup>& param_groups, AdagradOptions defaults)
    : Optimizer(param_groups, std::make_unique<AdagradOptions>(defaults)) {
  check(defaults);
  for (const OptimizerParamGroup& group : param_groups_) {
    const auto& options = static_cast<const AdagradOptions&>(group.options());
    for (const Tensor& param : group.params())
      state_of<AdagradParamState>(param, [&] { return start(options, param); });
  }
}

}  // namespace flambeau::torch::optim
