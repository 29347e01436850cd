#include "flambeau/nn/utils/clip_grad.h"

#include <cmath>

namespace flambeau::torch::nn::utils {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined()) all.push_back(gradient);
  return all;
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const NoGradGuard unrecorded;
  const std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  std::vector<Tensor> norms;
  for (const Tensor& gradient : gradients)
    norms.push_back(gradient.norm(Scalar(norm_type)).to(gradients[0].device()));
  const Tensor total = torch::stack(norms).norm(Scalar(norm_type));
  const auto result = total.item<double>();
  CHECK(!error_if_nonfinite || std::isfinite(result), RuntimeError,
        "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be "
        "clipped. To disable this error and scale the gradients with the non-finite norm anyway, "
        "set `error_if_nonfinite=false`",
        norm_type);
  const Tensor coefficient = torch::clamp_max(max_norm / (total + 1e-6), 1.0);
  for (const Tensor& gradient : gradients) gradient.mul_(coefficient.to(gradient.device()));
  return result;
}
double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  const NoGradGuard unrecorded;
  for (const Tensor& gradient : gradients_of(parameters))
    gradient.clamp_(Scalar(-clip_value), Scalar(clip_value));
}
void clip_grad_value_(const Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{parameter}, clip_value);
}

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& parameter : parameters) {
    CHECK(parameter.device() == parameters[0].device(), TypeError,
          "Found two parameters on different devices, this is currently not supported.");
    flat.push_back(parameter.view(-1));
  }
  return torch::cat(flat);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  int64_t position = 0;
  for (const Tensor& parameter : parameters) {
    const Tensor part = vector.narrow(0, position, parameter.numel());
    parameter.set_data(part.view(parameter.sizes()).detach());
    position += parameter.numel();
  }
}

}  // namespace flambeau::torch::nn::utils
