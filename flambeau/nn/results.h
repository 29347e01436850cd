// The results of ops that give several: as a list, however many there are.
#pragma once

#include <tuple>
#include <vector>

#include "flambeau/torch.h"

namespace flambeau::torch::nn::detail {

inline std::vector<Tensor> list_of(std::vector<Tensor> all) { return all; }
template <class... Tensors>
std::vector<Tensor> list_of(const std::tuple<Tensors...>& all) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, all);
}
std::tuple<Tensor, Tensor> pair_of(const auto& both) {
  const std::vector<Tensor> all = list_of(both);
  return {all.at(0), all.at(1)};
}
Tensor first_of(const auto& results) { return list_of(results).at(0); }

}  // namespace flambeau::torch::nn::detail
