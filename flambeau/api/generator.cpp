#include "flambeau/api/generator.h"

#include <mutex>

#include "flambeau/base/check.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::torch {

flambeau::Generator& Generator::get() const {
  CHECK(state_, RuntimeError, "Generator: undefined, it was made without a device");
  return *state_;
}
void Generator::set_current_seed(uint64_t seed) const {
  const std::lock_guard lock(mutex());
  get().manual_seed(seed);
}
uint64_t Generator::seed() const {
  const std::lock_guard lock(mutex());
  return get().seed();
}
Generator Generator::clone() const { return get().clone(); }
void Generator::set_state(const flambeau::Tensor& state) const {
  CHECK(
      state.defined() && state.dtype() == kByte && state.device().is_cpu() && state.is_contiguous(),
      TypeError, "RNG state must be a torch.ByteTensor");
  const std::lock_guard lock(mutex());
  get().set_state({static_cast<const std::byte*>(state.raw()), static_cast<size_t>(state.numel())});
}

namespace detail {

const Generator& getDefaultCPUGenerator() {
  static const Generator generator(default_generator(flambeau::Device()));
  return generator;
}
flambeau::Tensor state_of(const Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  const flambeau::Generator& from = generator.get();
  flambeau::Tensor state =
      make_tensor(static_cast<int64_t>(from.state_size()), kByte, flambeau::Device());
  from.get_state({static_cast<std::byte*>(state.raw()), from.state_size()});
  return state;
}

}  // namespace detail
}  // namespace flambeau::torch
