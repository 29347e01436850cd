#include "flambeau/nn/init.h"

#include <cmath>

#include "flambeau/api/guards.h"

namespace flambeau::torch::nn::init {

using enumtype::name_of;

Fan::Fan(const Tensor& tensor)
    : in(torch::_init_fan(tensor, "fan_in")), out(torch::_init_fan(tensor, "fan_out")) {}

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  const Fan fan(tensor);
  return {fan.in, fan.out};
}
double calculate_gain(NonlinearityType nonlinearity, double param) {
  return torch::_init_calculate_gain(name_of(nonlinearity), param).to_double();
}

Tensor constant_(const Tensor& tensor, const Scalar& value) {
  return torch::_init_constant(tensor, value);
}
Tensor dirac_(const Tensor& tensor, int64_t groups) { return torch::_init_dirac(tensor, groups); }
Tensor eye_(const Tensor& matrix) { return torch::_init_eye(matrix); }
Tensor normal_(const Tensor& tensor, double mean, double std) {
  return torch::_init_normal(tensor, mean, std);
}
Tensor trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b) {
  return torch::_init_trunc_normal(tensor, mean, std, a, b);
}
Tensor ones_(const Tensor& tensor) { return torch::_init_constant(tensor, 1); }
Tensor orthogonal_(const Tensor& tensor, double gain) {
  return torch::_init_orthogonal(tensor, gain);
}
Tensor sparse_(const Tensor& tensor, double sparsity, double std) {
  return torch::_init_sparse(tensor, sparsity, std);
}
Tensor uniform_(const Tensor& tensor, double low, double high) {
  return torch::_init_uniform(tensor, low, high);
}
Tensor kaiming_normal_(const Tensor& tensor, double a, FanModeType mode,
                       NonlinearityType nonlinearity) {
  return torch::_init_kaiming_normal(tensor, a, name_of(mode), name_of(nonlinearity));
}
Tensor kaiming_uniform_(const Tensor& tensor, double a, FanModeType mode,
                        NonlinearityType nonlinearity) {
  return torch::_init_kaiming_uniform(tensor, a, name_of(mode), name_of(nonlinearity));
}
Tensor xavier_normal_(const Tensor& tensor, double gain) {
  return torch::_init_xavier_normal(tensor, gain);
}
Tensor xavier_uniform_(const Tensor& tensor, double gain) {
  return torch::_init_xavier_uniform(tensor, gain);
}
Tensor zeros_(const Tensor& tensor) { return torch::_init_zeros(tensor); }

}  // namespace flambeau::torch::nn::init

namespace flambeau::torch::nn::detail {

void reset_weight_and_bias(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const int64_t fan_in = torch::_init_fan(weight, "fan_in");
  if (fan_in == 0) return;
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  init::uniform_(bias, -bound, bound);
}

}  // namespace flambeau::torch::nn::detail
