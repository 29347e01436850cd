// Gradients of many parameters together: their norm, and bounds on it (torch::nn::utils).
#pragma once

#include <vector>

#include "flambeau/torch.h"

namespace flambeau::torch::nn::utils {

// Scales gradients so that the norm of all together is at most max_norm; gives what it was.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       double norm_type = 2.0, bool error_if_nonfinite = false);
double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);
// Brings each element of the gradients into [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(const Tensor& parameter, double clip_value);

// Parameters as one vector of all their elements, and the reverse.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace flambeau::torch::nn::utils
