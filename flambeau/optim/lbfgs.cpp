#include "flambeau/optim/lbfgs.h"

#include <algorithm>
#include <cmath>

namespace flambeau::torch::optim {

FLAMBEAU_FIELDS_OF(LBFGSOptions, lr_, max_iter_, max_eval_, tolerance_grad_, tolerance_change_,
                   history_size_, line_search_fn_)
FLAMBEAU_FIELDS_OF(LBFGSParamState, func_evals_, n_iter_, t_, prev_loss_, d_, H_diag_,
                   prev_flat_grad_, old_dirs_, old_stps_, ro_, al_)

namespace {

Tensor real_pairs(const Tensor& x) { return x.is_complex() ? torch::view_as_real(x) : x; }
double largest(const Tensor& x) { return x.abs().max().item<double>(); }

// The two loops over the history, backward and forward.
Tensor inverse_hessian_times(LBFGSParamState& state, Tensor vector, int64_t history_size) {
  const auto &changes = state.old_dirs(), &moves = state.old_stps(), &inverses = state.ro();
  std::vector<Tensor> weights(static_cast<size_t>(history_size));
  for (size_t i = changes.size(); i-- > 0;) {
    weights[i] = moves[i].dot(vector) * inverses[i];
    vector = vector.add(changes[i], -weights[i].item());
  }
  vector = vector * state.H_diag();
  for (size_t i = 0; i < changes.size(); ++i) {
    const Tensor along = changes[i].dot(vector) * inverses[i];
    vector = vector.add(moves[i], (weights[i] - along).item());
  }
  state.al(std::move(weights));
  return vector;
}

}  // namespace

LBFGSOptions::LBFGSOptions(double lr) : lr_(lr) {}
LBFGS::LBFGS(std::vector<Tensor> params, LBFGSOptions defaults)
    : LBFGS(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
std::unique_ptr<OptimizerParamState> LBFGS::make_state() const {
  return std::make_unique<LBFGSParamState>();
}

LBFGS::LBFGS(const std::vector<OptimizerParamGroup>& param_groups, LBFGSOptions defaults)
    : Optimizer(param_groups, std::make_unique<LBFGSOptions>(defaults)) {
  CHECK(param_groups_.size() == 1, ValueError,
        "LBFGS doesn't support per-parameter options (parameter groups)");
  CHECK(defaults.lr() >= 0, ValueError, "Invalid learning rate: {}", defaults.lr());
  for (OptimizerOptions* options : {defaults_.get(), &param_groups_[0].options()}) {
    auto& own = static_cast<LBFGSOptions&>(*options);
    if (!own.max_eval()) own.max_eval(own.max_iter() * 5 / 4);
  }
}

// All gradients as one real vector.
Tensor LBFGS::flat_gradient() const {
  std::vector<Tensor> parts;
  for (const Tensor& param : parameters()) {
    const Tensor& grad = param.grad();
    const Tensor dense = !grad.defined()    ? torch::zeros_like(param)
                         : grad.is_sparse() ? grad.to_dense()
                                            : grad;
    parts.push_back(real_pairs(dense).reshape({-1}));
  }
  return torch::cat(parts, 0);
}

// Moves all parameters along a direction.
void LBFGS::move(double distance, const Tensor& direction) {
  int64_t position = 0;
  for (const Tensor& param : parameters()) {
    const Tensor target = real_pairs(param);
    target.add_(direction.narrow(0, position, target.numel()).view_as(target), distance);
    position += target.numel();
  }
}

// Puts the next direction into the state, and remembers the gradient for the one after.
void LBFGS::choose_direction(LBFGSParamState& state, const Tensor& gradient,
                             const LBFGSOptions& options) {
  if (state.n_iter() == 1) {
    state.d(-gradient).H_diag(torch::ones({}, TensorOptions(gradient.dtype())));
    state.old_dirs({}).old_stps({}).ro({});
  } else {
    const Tensor change = gradient - state.prev_flat_grad();
    const Tensor moved = state.d() * state.t();
    const Tensor bend = change.dot(moved);
    if (bend.item<double>() > 1e-10) {
      if (static_cast<int64_t>(state.old_dirs().size()) == options.history_size())
        for (auto* history : {&state.old_dirs(), &state.old_stps(), &state.ro()})
          history->pop_front();
      state.old_dirs().push_back(change);
      state.old_stps().push_back(moved);
      state.ro().push_back(1. / bend);
      state.H_diag(bend / change.dot(change));
    }
    state.d(inverse_hessian_times(state, -gradient, options.history_size()));
  }
  state.prev_flat_grad(gradient.clone());
}

LineSearch LBFGS::search_line(const std::function<Tensor()>& evaluate, const LinePoint& start,
                              const Tensor& direction, double distance, double tolerance_change) {
  std::vector<Tensor> before;
  for (const Tensor& param : parameters()) before.push_back(param.clone());
  const auto at = [&](double t) {
    move(t, direction);
    const double there = evaluate().item<double>();
    Tensor gradient_there = flat_gradient();
    for (size_t i = 0; i < before.size(); ++i) parameters()[i].copy_(before[i]);
    return std::pair(there, std::move(gradient_there));
  };
  constexpr int64_t max_steps = 25;
  return strong_wolfe(at, distance, direction, start, tolerance_change, max_steps);
}

Tensor LBFGS::step(LossClosure closure) {
  CHECK(closure, RuntimeError, "LBFGS requires a closure function");
  const NoGradGuard unrecorded;
  const auto evaluate = [&] {
    const AutoGradMode recorded(true);
    return closure();
  };
  const auto& options = static_cast<LBFGSOptions&>(param_groups_[0].options());
  auto& state = state_of<LBFGSParamState>(parameters().at(0), [] { return LBFGSParamState(); });

  Tensor first_loss = evaluate();
  double loss = first_loss.item<double>();
  int64_t evaluations = 1;
  state.func_evals() += 1;
  Tensor gradient = flat_gradient();
  bool done = largest(gradient) <= options.tolerance_grad();
  for (int64_t iteration = 1; !done && iteration <= options.max_iter(); ++iteration) {
    state.n_iter() += 1;
    choose_direction(state, gradient, options);
    state.prev_loss(loss);
    const Tensor direction = state.d();
    double distance = options.lr();
    if (state.n_iter() == 1) distance *= std::min(1., 1. / gradient.abs().sum().item<double>());
    state.t(distance);
    const double slope = gradient.dot(direction).item<double>();
    if (slope > -options.tolerance_change()) break;
    int64_t used = 0;
    if (options.line_search_fn()) {
      CHECK(*options.line_search_fn() == "strong_wolfe", RuntimeError,
            "only 'strong_wolfe' is supported");
      const LineSearch search = search_line(evaluate, {0, loss, gradient, slope}, direction,
                                            distance, options.tolerance_change());
      loss = search.found.loss;
      gradient = search.found.gradient;
      distance = search.found.distance;
      used = search.evaluations;
      move(distance, direction);
    } else {
      move(distance, direction);
      if (iteration != options.max_iter()) {
        loss = evaluate().item<double>();
        gradient = flat_gradient();
        used = 1;
      }
    }
    state.t(distance);
    evaluations += used;
    state.func_evals() += used;
    done = evaluations >= *options.max_eval() || largest(gradient) <= options.tolerance_grad() ||
           largest(direction * distance) <= options.tolerance_change() ||
           std::abs(loss - state.prev_loss()) < options.tolerance_change();
  }
  return first_loss;
}

}  // namespace flambeau::torch::optim
