// Modes of the thread that hold while an object lives, and are then what they were.
#pragma once

#include "flambeau/api/tensor_base.h"
#include "flambeau/ops/layers/autocast.h"

namespace flambeau::torch {

// Whether ops are recorded for backward.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};

// Nothing is recorded, and new tensors never take part in a graph.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  bool before_;
  AutoGradMode gradients_;
};

// Ops that gain by it compute in half precision: AutocastGuard region(DeviceType::cpu).
using flambeau::AutocastGuard;

void manual_seed(uint64_t seed);  // of the generator that the CPU's ops draw from by default

}  // namespace flambeau::torch
