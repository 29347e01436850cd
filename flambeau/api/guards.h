// Modes of the thread that hold while an object lives, and are then what they were.
#pragma once

#include "flambeau/api/tensor_base.h"
#include "flambeau/ops/layers/autocast.h"

namespace flambeau::torch {

// Whether ops are recorded for backward.
struct GradMode {
  static bool is_enabled();
  static void set_enabled(bool enabled);
};
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

using AutoDispatchBelowAutograd = NoGradGuard;
using AutoDispatchBelowADInplaceOrView = NoGradGuard;
using AutoNonVariableTypeMode = NoGradGuard;

// Nothing is recorded, and new tensors never take part in a graph.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;
  static bool is_enabled();

 private:
  bool before_;
  AutoGradMode gradients_;
};

// Ops that gain by it compute in half precision: AutocastGuard region(DeviceType::cpu).
using flambeau::AutocastGuard;

namespace autocast {
inline bool is_autocast_enabled(DeviceType type) { return flambeau::autocast_enabled(type); }
inline void set_autocast_enabled(DeviceType type, bool on) {
  flambeau::set_autocast_enabled(type, on);
}
inline ScalarType get_autocast_dtype(DeviceType type) { return flambeau::autocast_dtype(type); }
inline void set_autocast_dtype(DeviceType type, ScalarType dtype) {
  flambeau::set_autocast_dtype(type, dtype);
}
inline bool is_enabled() { return is_autocast_enabled(kCUDA); }
inline void set_enabled(bool on) { autocast::set_autocast_enabled(kCUDA, on); }
inline bool is_cpu_enabled() { return is_autocast_enabled(kCPU); }
inline void set_cpu_enabled(bool on) { autocast::set_autocast_enabled(kCPU, on); }
inline void clear_cache() { clear_autocast_cache(); }
inline int increment_nesting() { return increment_autocast_nesting(); }
inline int decrement_nesting() { return decrement_autocast_nesting(); }
inline bool is_autocast_cache_enabled() { return autocast_cache_enabled(); }
inline void set_autocast_cache_enabled(bool on) { flambeau::set_autocast_cache_enabled(on); }
}  // namespace autocast

namespace autograd {
using torch::AutoGradMode;
using torch::GradMode;
}  // namespace autograd

}  // namespace flambeau::torch
