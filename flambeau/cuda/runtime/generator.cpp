#include "flambeau/cuda/runtime/generator.h"

#include <cstring>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/random/philox_block.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/graph.h"

namespace flambeau::cuda {

GeneratorPtr PhiloxGenerator::clone() const {
  auto copy = make_intrusive<PhiloxGenerator>(device(), seed_);
  copy->offset_ = offset_;
  return copy;
}

void PhiloxGenerator::manual_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  ++seedings_;
}

void PhiloxGenerator::get_state(std::span<std::byte> out) const {
  CHECK(out.size() == state_size(), RuntimeError,
        "get_state: the state takes {} bytes, but the tensor holds {}", state_size(), out.size());
  std::memcpy(out.data(), &seed_, sizeof seed_);
  std::memcpy(out.data() + sizeof seed_, &offset_, sizeof offset_);
}

void PhiloxGenerator::set_state(std::span<const std::byte> state) {
  // A state without an offset is one from before it was kept.
  CHECK(state.size() == state_size() || state.size() == sizeof seed_, RuntimeError,
        "RNG state is wrong size: expected {} bytes, got {}", state_size(), state.size());
  uint64_t position = 0;
  if (state.size() == state_size())
    std::memcpy(&position, state.data() + sizeof seed_, sizeof position);
  set_offset(position);
  std::memcpy(&seed_, state.data(), sizeof seed_);
  ++seedings_;
}

void PhiloxGenerator::set_offset(uint64_t offset) {
  CHECK(offset % 4 == 0, RuntimeError, "offset must be a multiple of 4, got {}", offset);
  offset_ = offset;
}

PhiloxState PhiloxGenerator::claim(uint64_t words) {
  if (Graph* graph = capturing_graph(device().index)) return graph->claim(*this, words);
  return {seed_, take(words)};
}

uint64_t PhiloxGenerator::take(uint64_t words) {
  const uint64_t begin = offset_;
  offset_ += (words + 3) / 4 * 4;
  return begin;
}

// Of the first two words of a block of the first thread's stream, on the host.
int64_t PhiloxGenerator::draw_integer() {
  const PhiloxWords words = philox_block(seed_, take(4) / 4, 0);
  return static_cast<int64_t>((uint64_t{words.x} << 32 | words.y) & INT64_MAX);
}

namespace {

const GeneratorPtr& default_of(Device device) {
  // Seeded like the CPU's generator, so that a seed set before the device was first used counts.
  static auto* all = [] {
    auto* made = new std::vector<GeneratorPtr>;
    const uint64_t seed = default_generator(Device())->initial_seed();
    for (int i = 0; i < device_count(); ++i) {
      made->push_back(make_intrusive<PhiloxGenerator>(Device(DeviceType::cuda, i), seed));
    }
    return made;
  }();
  return (*all)[checked_index(device.index)];
}

const bool ready = [] {
  GeneratorFactory factory;
  factory.make = [](Device device) -> GeneratorPtr {
    return make_intrusive<PhiloxGenerator>(Device(DeviceType::cuda, checked_index(device.index)),
                                           default_seed);
  };
  factory.default_of = default_of;
  set_generator_factory(DeviceType::cuda, factory);
  return true;
}();

}  // namespace
}  // namespace flambeau::cuda
