#include "flambeau/optim/optimizers.h"

#include <complex>

namespace flambeau::torch::optim {

// --- What all have -------------------------------------------------------------------------------

#define OPTIMIZER(Name)                                                        \
  Name##Options::Name##Options(double lr) : lr_(lr) {}                         \
  Name::Name(std::vector<Tensor> params, Name##Options defaults)               \
      : Name(std::vector{OptimizerParamGroup(std::move(params))}, defaults) {} \
  std::unique_ptr<OptimizerParamState> Name::make_state() const {              \
    return std::make_unique<Name##ParamState>();                               \
  }
OPTIMIZER(SGD)
OPTIMIZER(Adam)
OPTIMIZER(AdamW)
OPTIMIZER(Adagrad)
OPTIMIZER(RMSprop)
OPTIMIZER(Adadelta)
OPTIMIZER(Adamax)
OPTIMIZER(ASGD)
OPTIMIZER(NAdam)
OPTIMIZER(RAdam)
OPTIMIZER(Rprop)
#undef OPTIMIZER

// Their values, by the names of Python's state_dict.
Fields SGDOptions::each() {
  return {{"lr", &lr_},
          {"momentum", &momentum_},
          {"dampening", &dampening_},
          {"weight_decay", &weight_decay_},
          {"nesterov", &nesterov_}};
}
Fields SGDParamState::each() { return {{"momentum_buffer", &momentum_buffer_}}; }
Fields AdagradOptions::each() {
  return {{"lr", &lr_},
          {"lr_decay", &lr_decay_},
          {"weight_decay", &weight_decay_},
          {"initial_accumulator_value", &initial_accumulator_value_},
          {"eps", &eps_}};
}
Fields AdagradParamState::each() { return {{"step", &step_}, {"sum", &sum_}}; }
Fields RMSpropOptions::each() {
  return {{"lr", &lr_},
          {"alpha", &alpha_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"momentum", &momentum_},
          {"centered", &centered_}};
}
Fields RMSpropParamState::each() {
  return {{"step", &step_},
          {"square_avg", &square_avg_},
          {"momentum_buffer", &momentum_buffer_},
          {"grad_avg", &grad_avg_}};
}
Fields AdadeltaOptions::each() {
  return {{"lr", &lr_}, {"rho", &rho_}, {"eps", &eps_}, {"weight_decay", &weight_decay_}};
}
Fields AdadeltaParamState::each() {
  return {{"step", &step_}, {"square_avg", &square_avg_}, {"acc_delta", &acc_delta_}};
}
Fields AdamaxOptions::each() {
  return {{"lr", &lr_}, {"betas", &betas_}, {"eps", &eps_}, {"weight_decay", &weight_decay_}};
}
Fields AdamaxParamState::each() {
  return {{"step", &step_}, {"exp_avg", &exp_avg_}, {"exp_inf", &exp_inf_}};
}
Fields ASGDOptions::each() {
  return {{"lr", &lr_},
          {"lambd", &lambd_},
          {"alpha", &alpha_},
          {"t0", &t0_},
          {"weight_decay", &weight_decay_}};
}
Fields ASGDParamState::each() {
  return {{"step", &step_}, {"eta", &eta_}, {"mu", &mu_}, {"ax", &ax_}};
}
Fields NAdamOptions::each() {
  return {{"lr", &lr_},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"momentum_decay", &momentum_decay_},
          {"decoupled_weight_decay", &decoupled_weight_decay_}};
}
Fields NAdamParamState::each() {
  return {{"step", &step_},
          {"mu_product", &mu_product_},
          {"exp_avg", &exp_avg_},
          {"exp_avg_sq", &exp_avg_sq_}};
}
Fields RAdamOptions::each() {
  return {{"lr", &lr_},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"decoupled_weight_decay", &decoupled_weight_decay_}};
}
Fields RAdamParamState::each() {
  return {{"step", &step_}, {"exp_avg", &exp_avg_}, {"exp_avg_sq", &exp_avg_sq_}};
}
Fields RpropOptions::each() {
  return {{"lr", &lr_}, {"etas", &etas_}, {"step_sizes", &step_sizes_}};
}
Fields RpropParamState::each() {
  return {{"step", &step_}, {"prev", &prev_}, {"step_size", &step_size_}};
}

namespace {

void check_rate(double lr) { CHECK(lr >= 0, ValueError, "Invalid learning rate: {}", lr); }
void check_decay(double decay) {
  CHECK(decay >= 0, ValueError, "Invalid weight_decay value: {}", decay);
}
void check_epsilon(double eps) { CHECK(eps >= 0, ValueError, "Invalid epsilon value: {}", eps); }
void check_betas(const Pair& betas) {
  const auto [first, second] = betas;
  CHECK(first >= 0 && first < 1, ValueError, "Invalid beta parameter at index 0: {}", first);
  CHECK(second >= 0 && second < 1, ValueError, "Invalid beta parameter at index 1: {}", second);
}
template <class Options>
void check_common(const Options& options) {
  check_rate(options.lr());
  if constexpr (requires { options.weight_decay(); }) check_decay(options.weight_decay());
  if constexpr (requires { options.eps(); }) check_epsilon(options.eps());
  if constexpr (requires { options.betas(); }) check_betas(options.betas());
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

// A step that calls update(options, parameter, gradient) for each parameter that has a gradient.
template <class Options, class Update>
Tensor each_parameter(const Optimizer::LossClosure& closure,
                      std::vector<OptimizerParamGroup>& groups, const Update& update) {
  const NoGradGuard unrecorded;
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const Tensor& param : group.params()) {
      const Tensor grad = param.grad();
      if (grad.defined()) update(options, param, grad);
    }
  }
  return loss;
}
void refuse_sparse(const Tensor& grad, const char* optimizer) {
  CHECK(!grad.is_sparse(), RuntimeError, "{} does not support sparse gradients", optimizer);
}

}  // namespace

// --- SGD -----------------------------------------------------------------------------------------

SGD::SGD(const std::vector<OptimizerParamGroup>& param_groups, SGDOptions defaults)
    : Optimizer(param_groups, std::make_unique<SGDOptions>(defaults)) {
  check_common(defaults);
  CHECK(defaults.momentum() >= 0, ValueError, "Invalid momentum value: {}", defaults.momentum());
  CHECK(!defaults.nesterov() || (defaults.momentum() > 0 && defaults.dampening() == 0), ValueError,
        "Nesterov momentum requires a momentum and zero dampening");
}

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
  Fields Name##Options::each() {                                                             \
    return {{"lr", &lr_},                                                                    \
            {"betas", &betas_},                                                              \
            {"eps", &eps_},                                                                  \
            {"weight_decay", &weight_decay_},                                                \
            {"amsgrad", &amsgrad_}};                                                         \
  }                                                                                          \
  Fields Name##ParamState::each() {                                                          \
    return {{"step", &step_},                                                                \
            {"exp_avg", &exp_avg_},                                                          \
            {"exp_avg_sq", &exp_avg_sq_},                                                    \
            {"max_exp_avg_sq", &max_exp_avg_sq_}};                                           \
  }                                                                                          \
  Name::Name(const std::vector<OptimizerParamGroup>& param_groups, Name##Options defaults)   \
      : Optimizer(param_groups, std::make_unique<Name##Options>(defaults)) {                 \
    check_common(defaults);                                                                  \
  }                                                                                          \
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

AdagradParamState adagrad_start(const Tensor& param, const AdagradOptions& options) {
  AdagradParamState state;
  state.sum(filled_like(param, options.initial_accumulator_value())).step(0);
  return state;
}

}  // namespace

Adagrad::Adagrad(const std::vector<OptimizerParamGroup>& param_groups, AdagradOptions defaults)
    : Optimizer(param_groups, std::make_unique<AdagradOptions>(defaults)) {
  check_common(defaults);
  CHECK(defaults.lr_decay() >= 0, ValueError, "Invalid lr_decay value: {}", defaults.lr_decay());
  CHECK(defaults.initial_accumulator_value() >= 0, ValueError,
        "Invalid initial_accumulator_value value: {}", defaults.initial_accumulator_value());
  for (const OptimizerParamGroup& group : param_groups_) {
    const auto& options = static_cast<const AdagradOptions&>(group.options());
    for (const Tensor& param : group.params())
      state_of<AdagradParamState>(param, [&] { return adagrad_start(param, options); });
  }
}
Tensor Adagrad::step(LossClosure closure) {
  return each_parameter<AdagradOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        auto& state =
            state_of<AdagradParamState>(param, [&] { return adagrad_start(param, options); });
        torch::_adagrad_step(param, grad, state.sum(), state.counter(), options.lr(),
                             options.lr_decay(), options.weight_decay(), options.eps());
      });
}

RMSprop::RMSprop(const std::vector<OptimizerParamGroup>& param_groups, RMSpropOptions defaults)
    : Optimizer(param_groups, std::make_unique<RMSpropOptions>(defaults)) {
  check_common(defaults);
  CHECK(defaults.momentum() >= 0, ValueError, "Invalid momentum value: {}", defaults.momentum());
  CHECK(defaults.alpha() >= 0, ValueError, "Invalid alpha value: {}", defaults.alpha());
}
Tensor RMSprop::step(LossClosure closure) {
  return each_parameter<RMSpropOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "RMSprop");
        auto& state = state_of<RMSpropParamState>(param, [&] {
          RMSpropParamState made;
          made.square_avg(torch::zeros_like(param));
          if (options.momentum() > 0) made.momentum_buffer(torch::zeros_like(param));
          if (options.centered()) made.grad_avg(torch::zeros_like(param));
          return made;
        });
        torch::_rmsprop_step(param, grad, state.square_avg(), state.counter(),
                             state.momentum_buffer(), state.grad_avg(), options.lr(),
                             options.alpha(), options.eps(), options.weight_decay(),
                             options.momentum());
      });
}

Adadelta::Adadelta(const std::vector<OptimizerParamGroup>& param_groups, AdadeltaOptions defaults)
    : Optimizer(param_groups, std::make_unique<AdadeltaOptions>(defaults)) {
  check_common(defaults);
  CHECK(defaults.rho() >= 0 && defaults.rho() <= 1, ValueError, "Invalid rho value: {}",
        defaults.rho());
}
Tensor Adadelta::step(LossClosure closure) {
  return each_parameter<AdadeltaOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "Adadelta");
        auto& state = state_of<AdadeltaParamState>(param, [&] {
          AdadeltaParamState made;
          made.square_avg(torch::zeros_like(param)).acc_delta(torch::zeros_like(param));
          return made;
        });
        torch::_adadelta_step(param, grad, state.square_avg(), state.acc_delta(), state.counter(),
                              options.lr(), options.rho(), options.eps(), options.weight_decay());
      });
}

Adamax::Adamax(const std::vector<OptimizerParamGroup>& param_groups, AdamaxOptions defaults)
    : Optimizer(param_groups, std::make_unique<AdamaxOptions>(defaults)) {
  check_common(defaults);
}
Tensor Adamax::step(LossClosure closure) {
  return each_parameter<AdamaxOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "Adamax");
        auto& state = state_of<AdamaxParamState>(param, [&] {
          AdamaxParamState made;
          made.exp_avg(torch::zeros_like(param)).exp_inf(torch::zeros_like(param));
          return made;
        });
        const auto [beta1, beta2] = options.betas();
        torch::_adamax_step(param, grad, state.exp_avg(), state.exp_inf(), state.counter(),
                            options.lr(), beta1, beta2, options.eps(), options.weight_decay());
      });
}

ASGD::ASGD(const std::vector<OptimizerParamGroup>& param_groups, ASGDOptions defaults)
    : Optimizer(param_groups, std::make_unique<ASGDOptions>(defaults)) {
  check_common(defaults);
}
Tensor ASGD::step(LossClosure closure) {
  return each_parameter<ASGDOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "ASGD");
        auto& state = state_of<ASGDParamState>(param, [&] {
          ASGDParamState made;
          made.eta(number(options.lr())).mu(number(1)).ax(torch::zeros_like(param));
          return made;
        });
        torch::_asgd_step(param, grad, state.ax(), state.eta(), state.mu(), state.counter(),
                          options.lr(), options.lambd(), options.alpha(), options.t0(),
                          options.weight_decay());
      });
}

NAdam::NAdam(const std::vector<OptimizerParamGroup>& param_groups, NAdamOptions defaults)
    : Optimizer(param_groups, std::make_unique<NAdamOptions>(defaults)) {
  check_common(defaults);
  CHECK(defaults.momentum_decay() >= 0, ValueError, "Invalid momentum_decay value: {}",
        defaults.momentum_decay());
}
Tensor NAdam::step(LossClosure closure) {
  return each_parameter<NAdamOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "NAdam");
        auto& state = state_of<NAdamParamState>(param, [&] {
          NAdamParamState made;
          made.mu_product(number(1)).exp_avg(torch::zeros_like(param));
          made.exp_avg_sq(torch::zeros_like(param));
          return made;
        });
        const auto [beta1, beta2] = options.betas();
        torch::_nadam_step(param, grad, state.exp_avg(), state.exp_avg_sq(), state.mu_product(),
                           state.counter(), options.lr(), beta1, beta2, options.eps(),
                           options.weight_decay(), options.momentum_decay(),
                           options.decoupled_weight_decay());
      });
}

RAdam::RAdam(const std::vector<OptimizerParamGroup>& param_groups, RAdamOptions defaults)
    : Optimizer(param_groups, std::make_unique<RAdamOptions>(defaults)) {
  check_common(defaults);
}
Tensor RAdam::step(LossClosure closure) {
  return each_parameter<RAdamOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "RAdam");
        auto& state = state_of<RAdamParamState>(param, [&] {
          RAdamParamState made;
          made.exp_avg(torch::zeros_like(param)).exp_avg_sq(torch::zeros_like(param));
          return made;
        });
        const auto [beta1, beta2] = options.betas();
        torch::_radam_step(param, grad, state.exp_avg(), state.exp_avg_sq(), state.counter(),
                           options.lr(), beta1, beta2, options.eps(), options.weight_decay(),
                           options.decoupled_weight_decay());
      });
}

Rprop::Rprop(const std::vector<OptimizerParamGroup>& param_groups, RpropOptions defaults)
    : Optimizer(param_groups, std::make_unique<RpropOptions>(defaults)) {
  check_common(defaults);
  const auto [shrink, grow] = defaults.etas();
  CHECK(shrink > 0 && shrink < 1 && grow > 1, ValueError, "Invalid eta values: {}, {}", shrink,
        grow);
}
Tensor Rprop::step(LossClosure closure) {
  return each_parameter<RpropOptions>(
      closure, param_groups_, [this](const auto& options, const Tensor& param, const Tensor& grad) {
        refuse_sparse(grad, "Rprop");
        auto& state = state_of<RpropParamState>(param, [&] {
          RpropParamState made;
          const double lr = options.lr();
          made.prev(torch::zeros_like(param));
          made.step_size(filled_like(param, lr));
          return made;
        });
        const auto [shrink, grow] = options.etas();
        const auto [smallest, largest] = options.step_sizes();
        torch::_rprop_step(param, grad, state.prev(), state.step_size(), state.counter(), shrink,
                           grow, smallest, largest);
      });
}

}  // namespace flambeau::torch::optim
