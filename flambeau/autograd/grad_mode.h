// Whether ops are recorded. Per thread; the guards restore what they found.
#pragma once

#include <utility>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

struct GradState {
  bool grad_enabled = true;
  bool multithreading = true;
};
inline thread_local constinit GradState grad_state;

inline bool grad_enabled() { return grad_state.grad_enabled; }
inline bool inference_mode() { return making_inference_tensors; }

class GradGuard {
 public:
  explicit GradGuard(bool enabled) : before_(std::exchange(grad_state.grad_enabled, enabled)) {}
  ~GradGuard() { grad_state.grad_enabled = before_; }
  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;

 private:
  bool before_;
};

struct NoGrad : GradGuard {
  NoGrad() : GradGuard(false) {}
};

}  // namespace flambeau
