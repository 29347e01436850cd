// An example of a dataset: data and what is to be learned of it.
#pragma once

#include <utility>

#include "flambeau/torch.h"

namespace flambeau::torch::data {
namespace example {
struct NoTarget {};
}  // namespace example

template <class Data = Tensor, class Target = Tensor>
struct Example {
  using DataType = Data;
  using TargetType = Target;
  Example() = default;
  Example(Data data, Target target) : data(std::move(data)), target(std::move(target)) {}

  Data data;
  Target target;
};

// Converts to and from its data.
template <class Data>
struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;
  Example() = default;
  Example(Data data) : data(std::move(data)) {}  // NOLINT
  operator Data&() { return data; }              // NOLINT
  operator const Data&() const { return data; }  // NOLINT

  Data data;
};
using TensorExample = Example<Tensor, example::NoTarget>;

}  // namespace flambeau::torch::data
