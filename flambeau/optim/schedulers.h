// Learning rates that change: each keeps a reference to its optimizer, which must outlive it.
#pragma once

#include "flambeau/optim/optimizer.h"

namespace flambeau::torch::optim {

class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual ~LRScheduler() = default;
  void step();

 protected:
  virtual std::vector<double> get_lrs() = 0;  // one for each group
  [[nodiscard]] std::vector<double> get_current_lrs() const;

  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};

class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1)
      : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

 private:
  std::vector<double> get_lrs() override;
  unsigned step_size_;
  double gamma_;
};

// Lowers the rate when a metric has stopped to improve.
class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  explicit ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min,
                                      float factor = 0.1, int patience = 10,
                                      double threshold = 1e-4, ThresholdMode threshold_mode = rel,
                                      int cooldown = 0, const std::vector<float>& min_lr = {},
                                      double eps = 1e-8, bool verbose = false);
  virtual ~ReduceLROnPlateauScheduler() = default;
  void step(float metric);

 private:
  [[nodiscard]] bool is_better(float metric) const;
  void reduce();

  Optimizer& optimizer_;
  SchedulerMode mode_;
  float factor_;
  int patience_;
  double threshold_;
  ThresholdMode threshold_mode_;
  int cooldown_, left_of_cooldown_ = 0;
  std::vector<float> min_lrs_;
  double eps_;
  float best_;
  bool verbose_;
  int epoch_ = 0, bad_epochs_ = 0;
};

}  // namespace flambeau::torch::optim
