// data_parallel: a module over a batch on the devices there are. More than one is not implemented.
#pragma once

#include <optional>
#include <vector>

#include "flambeau/api/context.h"
#include "flambeau/nn/module.h"

namespace flambeau::torch::nn::parallel {

template <class M>
Tensor data_parallel(M module, Tensor input, std::optional<std::vector<Device>> devices = {},
                     std::optional<Device> output_device = {}, int64_t dim = 0) {
  static_cast<void>(dim);  // that a batch is split along
  if (!devices) {
    devices.emplace();
    for (size_t i = 0; i < cuda::device_count(); ++i)
      devices->emplace_back(kCUDA, static_cast<DeviceIndex>(i));
  }
  CHECK(!devices->empty(), RuntimeError, "Expected at least one CUDA device to be available");
  CHECK(devices->size() == 1, NotImplementedError,
        "data_parallel: over {} devices is not implemented; train a process for each device with "
        "torch.distributed",
        devices->size());
  module->to(devices->front());
  return module->forward(input.to(devices->front())).to(output_device.value_or(devices->front()));
}

}  // namespace flambeau::torch::nn::parallel
