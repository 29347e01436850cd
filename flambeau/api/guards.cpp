#include "flambeau/api/guards.h"

#include <utility>

#include "flambeau/autograd/grad_mode.h"

namespace flambeau::torch {

bool GradMode::is_enabled() { return grad_enabled(); }
void GradMode::set_enabled(bool enabled) { grad_state.grad_enabled = enabled; }

AutoGradMode::AutoGradMode(bool enabled)
    : before_(std::exchange(grad_state.grad_enabled, enabled)) {}
AutoGradMode::~AutoGradMode() { grad_state.grad_enabled = before_; }

InferenceMode::InferenceMode(bool enabled)
    : before_(std::exchange(making_inference_tensors, enabled)), gradients_(!enabled) {}
InferenceMode::~InferenceMode() { making_inference_tensors = before_; }

bool InferenceMode::is_enabled() { return inference_mode(); }

}  // namespace flambeau::torch
