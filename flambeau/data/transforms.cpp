#include "flambeau/data/transforms.h"

namespace flambeau::torch::data::transforms {

Tensor detail::channels(ArrayRef<double> values) {
  return torch::tensor(values, torch::kFloat32).view({-1, 1, 1});
}

Example<> Stack<Example<>>::apply_batch(std::vector<Example<>> examples) {
  std::vector<Tensor> data, targets;
  for (Example<>& each : examples) {
    data.push_back(std::move(each.data));
    targets.push_back(std::move(each.target));
  }
  return {torch::stack(data), torch::stack(targets)};
}
TensorExample Stack<TensorExample>::apply_batch(std::vector<TensorExample> examples) {
  std::vector<Tensor> data;
  for (TensorExample& each : examples) data.push_back(std::move(each.data));
  return {torch::stack(data)};
}

}  // namespace flambeau::torch::data::transforms
