#include "flambeau/optim/schedulers.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace flambeau::torch::optim {

void LRScheduler::step() {
  ++step_count_;
  const std::vector<double> rates = get_lrs();
  std::vector<OptimizerParamGroup>& groups = optimizer_.param_groups();
  CHECK(rates.size() == groups.size(), RuntimeError,
        "Number of learning rates not equal to the number of param groups\nNumber of learning "
        "rates given: {}\nNumber of param groups: {}",
        rates.size(), groups.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}

std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& group : std::as_const(optimizer_).param_groups())
    rates.push_back(group.options().get_lr());
  return rates;
}

std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ != 0 && step_count_ % step_size_ == 0)
    for (double& rate : rates) rate *= gamma_;
  return rates;
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode,
                                                       float factor, int patience, double threshold,
                                                       ThresholdMode threshold_mode, int cooldown,
                                                       const std::vector<float>& min_lr, double eps,
                                                       bool verbose)
    : optimizer_(optimizer),
      mode_(mode),
      factor_(factor),
      patience_(patience),
      threshold_(threshold),
      threshold_mode_(threshold_mode),
      cooldown_(cooldown),
      min_lrs_(min_lr),
      eps_(eps),
      best_(mode == min ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest()),
      verbose_(verbose) {
  CHECK(factor < 1, ValueError, "Factor should be < 1.0.");
  const size_t groups = optimizer.param_groups().size();
  if (min_lrs_.empty()) min_lrs_.assign(groups, 0);
  CHECK(min_lrs_.size() == groups, ValueError,
        "Number of learning rates not equal to the number of param groups\nNumber of learning "
        "rates given: {}\nNumber of param groups: {}",
        min_lrs_.size(), groups);
}

void ReduceLROnPlateauScheduler::step(float metric) {
  ++epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (left_of_cooldown_ > 0) {
    --left_of_cooldown_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > patience_) {
    reduce();
    left_of_cooldown_ = cooldown_;
    bad_epochs_ = 0;
  }
}

bool ReduceLROnPlateauScheduler::is_better(float metric) const {
  const double sign = mode_ == min ? -1 : 1;
  if (threshold_mode_ == rel) {
    const double bound = best_ * (1 + sign * threshold_);
    return mode_ == min ? metric < bound : metric > bound;
  }
  const double bound = best_ + sign * threshold_;
  return mode_ == min ? metric < bound : metric > bound;
}

void ReduceLROnPlateauScheduler::reduce() {
  std::vector<OptimizerParamGroup>& groups = optimizer_.param_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const double before = groups[i].options().get_lr();
    const double rate = std::max(before * factor_, static_cast<double>(min_lrs_[i]));
    if (before - rate <= eps_) continue;
    groups[i].options().set_lr(rate);
    if (verbose_)
      std::printf("Epoch %d: reducing learning rate of group %zu to %g\n", epoch_, i, rate);
  }
}

}  // namespace flambeau::torch::optim
