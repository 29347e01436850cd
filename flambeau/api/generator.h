// A handle of a stream of random numbers.
#pragma once

#include "flambeau/api/types.h"
#include "flambeau/tensor/generator.h"

namespace flambeau::torch {

class Tensor;

class Generator {
 public:
  Generator() = default;
  Generator(GeneratorPtr state) : state_(std::move(state)) {}  // NOLINT

  [[nodiscard]] bool defined() const { return static_cast<bool>(state_); }
  [[nodiscard]] flambeau::Generator& get() const;  // raises where there is none
  [[nodiscard]] Device device() const { return get().device(); }
  [[nodiscard]] uint64_t current_seed() const { return get().initial_seed(); }
  void set_current_seed(uint64_t seed) const;
  uint64_t seed() const;
  [[nodiscard]] Generator clone() const;
  [[nodiscard]] torch::Tensor get_state() const;
  void set_state(const flambeau::Tensor& state) const;
  [[nodiscard]] uint64_t get_offset() const { return get().offset(); }
  void set_offset(uint64_t offset) const { get().set_offset(offset); }
  [[nodiscard]] std::mutex& mutex() const { return get().mutex(); }
  bool operator==(const Generator& other) const { return state_ == other.state_; }

 private:
  GeneratorPtr state_;
};

class CPUGeneratorImpl;
// make_generator<CPUGeneratorImpl>(seed)
template <class Kind>
Generator make_generator(uint64_t seed = default_seed) {
  static_assert(std::is_same_v<Kind, CPUGeneratorImpl>, "make_generator: a generator of the CPU");
  return GeneratorPtr(new CpuGenerator(seed));
}

namespace detail {
inline Generator createCPUGenerator(uint64_t seed = default_seed) {
  return make_generator<CPUGeneratorImpl>(seed);
}
const Generator& getDefaultCPUGenerator();
flambeau::Tensor state_of(const Generator& generator);
}  // namespace detail

}  // namespace flambeau::torch
