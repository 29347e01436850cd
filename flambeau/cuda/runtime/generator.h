// The random generator of a CUDA device: a seed and a position in its stream. Kernels compute any
// part of the stream (Philox 4x32-10, ten rounds of multiplications), so nothing is stored on the
// device.
#pragma once

#include "flambeau/tensor/generator.h"

namespace flambeau::cuda {

// Where a kernel's words of the stream begin. The kernels of a graph add `offset` to what each
// replay writes to memory: seed and offset (see graph.h).
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;  // in words, a multiple of four
  const uint64_t* of_replay = nullptr;
};

class PhiloxGenerator final : public Generator {
 public:
  PhiloxGenerator(Device device, uint64_t seed) : Generator(device), seed_(seed) {}

  [[nodiscard]] GeneratorPtr clone() const override;
  void manual_seed(uint64_t seed) override;
  [[nodiscard]] uint64_t initial_seed() const override { return seed_; }
  [[nodiscard]] size_t state_size() const override { return 2 * sizeof(uint64_t); }
  void get_state(std::span<std::byte> out) const override;
  void set_state(std::span<const std::byte> state) override;
  [[nodiscard]] uint64_t offset() const override { return offset_; }
  void set_offset(uint64_t offset) override;

  // Claims the next `words` words of every thread's stream, for a kernel in the current stream. The
  // caller holds the mutex.
  PhiloxState claim(uint64_t words);
  // The same, whether or not a graph is being captured; returns where the words begin.
  uint64_t take(uint64_t words);
  // An integer of 63 bits, the one that a kernel would draw for a single element.
  int64_t draw_integer();
  // How often a seed or a state was set: others who draw by this generator begin anew then.
  [[nodiscard]] uint64_t seedings() const { return seedings_; }

 private:
  uint64_t seed_, seedings_ = 0;
  uint64_t offset_ = 0;  // in words of 32 bits, a multiple of four
};

}  // namespace flambeau::cuda
