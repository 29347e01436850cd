#include "flambeau/api/guards.h"

#include <mutex>
#include <utility>

#include "flambeau/autograd/grad_mode.h"

namespace flambeau::torch {

AutoGradMode::AutoGradMode(bool enabled)
    : before_(std::exchange(grad_state.grad_enabled, enabled)) {}
AutoGradMode::~AutoGradMode() { grad_state.grad_enabled = before_; }

InferenceMode::InferenceMode(bool enabled)
    : before_(std::exchange(making_inference_tensors, enabled)), gradients_(!enabled) {}
InferenceMode::~InferenceMode() { making_inference_tensors = before_; }

void manual_seed(uint64_t seed) {
  Generator& generator = *default_generator(Device());
  const std::lock_guard lock(generator.mutex());
  generator.manual_seed(seed);
}

}  // namespace flambeau::torch
