// save, load, archives and IValue for programs against the printed header.
#pragma once

#include "flambeau/io/archive.h"
#include "flambeau/torch.h"

namespace flambeau {

inline torch::Tensor IValue::toTensor() const { return tensor(); }
inline List<torch::Tensor> IValue::toTensorList() const {
  expect(isTensorList(), "isTensorList()", "TensorList");
  return List<torch::Tensor>(toList().shared());
}
inline std::vector<torch::Tensor> IValue::toTensorVector() const {
  expect(isTensorList(), "isTensorList()", "TensorList");
  return to<std::vector<torch::Tensor>>();
}

}  // namespace flambeau
