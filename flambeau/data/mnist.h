// The MNIST database of handwritten digits, from the four files it comes in.
#pragma once

#include <string>

#include "flambeau/data/datasets.h"

namespace flambeau::torch::data::datasets {

class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  [[nodiscard]] std::optional<size_t> size() const override;
  [[nodiscard]] bool is_train() const noexcept;
  [[nodiscard]] const Tensor& images() const { return images_; }    // floats from 0 to 1
  [[nodiscard]] const Tensor& targets() const { return targets_; }  // int64

 private:
  Tensor images_, targets_;
};

}  // namespace flambeau::torch::data::datasets
