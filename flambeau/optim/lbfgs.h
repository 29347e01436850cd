// LBFGS: a quasi-Newton method, which asks its closure for the loss several times a step.
#pragma once

#include "flambeau/optim/line_search.h"
#include "flambeau/optim/optimizer.h"

namespace flambeau::torch::optim {

struct LBFGSOptions : OptimizerCloneableOptions<LBFGSOptions> {
  LBFGSOptions(double lr = 1);  // NOLINT
  FLAMBEAU_OPTION(double, lr);
  FLAMBEAU_OPTION(int64_t, max_iter) = 20;
  FLAMBEAU_OPTION(std::optional<int64_t>, max_eval);
  FLAMBEAU_OPTION(double, tolerance_grad) = 1e-7;
  FLAMBEAU_OPTION(double, tolerance_change) = 1e-9;
  FLAMBEAU_OPTION(int64_t, history_size) = 100;
  FLAMBEAU_OPTION(std::optional<std::string>, line_search_fn);
  FLAMBEAU_FIELDS;
};

struct LBFGSParamState : OptimizerCloneableParamState<LBFGSParamState> {
  FLAMBEAU_OPTION(int64_t, func_evals) = 0;
  FLAMBEAU_OPTION(int64_t, n_iter) = 0;
  FLAMBEAU_OPTION(double, t) = 0;
  FLAMBEAU_OPTION(double, prev_loss) = 0;
  FLAMBEAU_OPTION(Tensor, d);
  FLAMBEAU_OPTION(Tensor, H_diag);
  FLAMBEAU_OPTION(Tensor, prev_flat_grad);
  FLAMBEAU_OPTION(std::deque<Tensor>, old_dirs);
  FLAMBEAU_OPTION(std::deque<Tensor>, old_stps);
  FLAMBEAU_OPTION(std::deque<Tensor>, ro);
  FLAMBEAU_OPTION(std::optional<std::vector<Tensor>>, al);
  FLAMBEAU_FIELDS;
};

class LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<OptimizerParamGroup>& param_groups, LBFGSOptions defaults = {});
  explicit LBFGS(std::vector<Tensor> params, LBFGSOptions defaults = {});
  Tensor step(LossClosure closure) override;  // the loss before the first iteration

 protected:
  [[nodiscard]] std::unique_ptr<OptimizerParamState> make_state() const override;

 private:
  [[nodiscard]] Tensor flat_gradient() const;
  void move(double distance, const Tensor& direction);
  LineSearch search_line(const std::function<Tensor()>& evaluate, const LinePoint& start,
                         const Tensor& direction, double distance, double tolerance_change);
  static void choose_direction(LBFGSParamState& state, const Tensor& gradient,
                               const LBFGSOptions& options);
};

}  // namespace flambeau::torch::optim
