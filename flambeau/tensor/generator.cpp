// The Mersenne twister, and the byte layout of its state that PyTorch writes and reads.
#include "flambeau/tensor/generator.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "flambeau/base/check.h"
#include "flambeau/tensor/backend.h"

namespace flambeau {

namespace {

constexpr size_t middle = 397;

// Drawing is bound by how fast words are made, and this file is compiled for any x86-64 at -O2.
// (ThreadSanitizer would be called while the library is still being linked, to choose the clone.)
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FLAMBEAU_VECTORISED __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define FLAMBEAU_VECTORISED
#endif

inline uint32_t twist(uint32_t high, uint32_t low) {
  uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ ((low & 1u) ? 0x9908b0dfu : 0u);
}

inline uint32_t tempered(uint32_t word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

// PyTorch's serialized CPU generator: 5056 bytes, little-endian, with the padding of this struct.
struct SerializedState {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t words[MersenneTwister::word_count];
  double normal_x;    // unused, always 0
  double normal_y;    // the waiting double sample
  double normal_rho;  // unused, always 0
  int32_t normal_is_valid;
  int32_t padding;
  float float_normal;
  uint8_t float_normal_is_valid;
  uint8_t tail_padding[3];
};
static_assert(sizeof(SerializedState) == 5056);

// Two loops, each of which reads only words that are all old or all new, so that the compiler can
// turn them into vector code.
FLAMBEAU_VECTORISED void advance(uint32_t* words) {
  constexpr size_t word_count = MersenneTwister::word_count;
  for (size_t i = 0; i < word_count - middle; ++i)
    words[i] = words[i + middle] ^ twist(words[i], words[i + 1]);
  for (size_t i = word_count - middle; i < word_count - 1; ++i)
    words[i] = words[i + middle - word_count] ^ twist(words[i], words[i + 1]);
  words[word_count - 1] = words[middle - 1] ^ twist(words[word_count - 1], words[0]);
}

FLAMBEAU_VECTORISED void temper_all(const uint32_t* __restrict raw, uint32_t* __restrict out) {
  for (size_t i = 0; i < MersenneTwister::word_count; ++i) out[i] = tempered(raw[i]);
}

}  // namespace

uint64_t nondeterministic_seed() {
  std::random_device source;
  uint64_t high = source();
  return high << 32 | source();
}

uint64_t Generator::seed() {
  uint64_t value = nondeterministic_seed();
  manual_seed(value);
  return value;
}

void MersenneTwister::reseed(uint32_t seed) {
  raw_[0] = seed;
  for (uint32_t i = 1; i < word_count; ++i)
    raw_[i] = 1812433253u * (raw_[i - 1] ^ (raw_[i - 1] >> 30)) + i;
  left_ = 1;
  next_ = 0;
}

void MersenneTwister::refill() {
  advance(raw_.data());
  temper_all(raw_.data(), words_.data());
  left_ = word_count;
  next_ = 0;
}

void MersenneTwister::fill(std::span<uint32_t> out) {
  while (!out.empty()) {
    if (left_ == 1) {
      refill();
      ++left_;  // refill() leaves the count as it is after next_word's own decrement
    }
    size_t count = std::min(out.size(), static_cast<size_t>(left_ - 1));
    std::memcpy(out.data(), words_.data() + next_, count * sizeof(uint32_t));
    next_ += static_cast<uint32_t>(count);
    left_ -= static_cast<int32_t>(count);
    out = out.subspan(count);
  }
}

bool MersenneTwister::restore(std::span<const uint32_t, word_count> raw, int32_t left,
                              uint64_t next) {
  if (left < 1 || left > static_cast<int32_t>(word_count) || next > word_count) return false;
  if (next + static_cast<uint64_t>(left - 1) > word_count) return false;
  std::copy(raw.begin(), raw.end(), raw_.begin());
  temper_all(raw_.data(), words_.data());
  left_ = left;
  next_ = static_cast<uint32_t>(next);
  return true;
}

CpuGenerator::CpuGenerator(uint64_t seed)
    : Generator(DeviceType::cpu), seed_(seed), engine_(static_cast<uint32_t>(seed)) {}

GeneratorPtr CpuGenerator::clone() const {
  auto copy = make_intrusive<CpuGenerator>(seed_);
  copy->engine_ = engine_;
  copy->next_normal_ = next_normal_;
  copy->next_float_normal_ = next_float_normal_;
  return copy;
}

void CpuGenerator::manual_seed(uint64_t seed) {
  seed_ = seed;
  engine_.reseed(static_cast<uint32_t>(seed));
  next_normal_.reset();
  next_float_normal_.reset();
}

size_t CpuGenerator::state_size() const { return sizeof(SerializedState); }

void CpuGenerator::get_state(std::span<std::byte> out) const {
  CHECK(out.size() == sizeof(SerializedState), RuntimeError,
        "get_state: the state takes {} bytes, but the tensor holds {}", sizeof(SerializedState),
        out.size());
  SerializedState state{};
  state.seed = seed_;
  state.left = engine_.left();
  state.seeded = 1;
  state.next = engine_.next();
  std::copy(engine_.raw().begin(), engine_.raw().end(), state.words);
  state.normal_y = next_normal_.value_or(0.0);
  state.normal_is_valid = next_normal_.has_value();
  state.float_normal = next_float_normal_.value_or(0.0f);
  state.float_normal_is_valid = next_float_normal_.has_value();
  std::memcpy(out.data(), &state, sizeof state);
}

void CpuGenerator::set_state(std::span<const std::byte> bytes) {
  CHECK(bytes.size() == sizeof(SerializedState), RuntimeError,
        "Expected a CPUGeneratorImplState of size {} but found the input RNG state size to be {}",
        sizeof(SerializedState), bytes.size());
  SerializedState state;
  std::memcpy(&state, bytes.data(), sizeof state);
  std::array<uint32_t, MersenneTwister::word_count> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(state.words[i]);
  CHECK(state.seeded != 0 && engine_.restore(words, state.left, state.next), RuntimeError,
        "Invalid mt19937 state");
  seed_ = state.seed;
  next_normal_.reset();
  if (state.normal_is_valid) next_normal_ = state.normal_y;
  next_float_normal_.reset();
  if (state.float_normal_is_valid) next_float_normal_ = state.float_normal;
}

uint64_t CpuGenerator::offset() const { fail<RuntimeError>("CPU Generator does not use offset"); }

void CpuGenerator::set_offset(uint64_t) { fail<RuntimeError>("CPU Generator does not use offset"); }

namespace {

const GeneratorPtr& default_cpu_generator() {
  static const GeneratorPtr generator = make_intrusive<CpuGenerator>(nondeterministic_seed());
  return generator;
}

std::array<GeneratorFactory, device_type_count>& factories() {
  static std::array<GeneratorFactory, device_type_count> table{};
  return table;
}

}  // namespace

void set_generator_factory(DeviceType type, const GeneratorFactory& factory) {
  factories()[static_cast<size_t>(type)] = factory;
}

GeneratorPtr make_generator(Device device) {
  if (device.is_cpu()) return make_intrusive<CpuGenerator>();
  CHECK(!device.is_meta(), RuntimeError, "Generator: device type meta has no random numbers");
  load_backend(device.type);
  const GeneratorFactory& factory = factories()[static_cast<size_t>(device.type)];
  CHECK(factory.make, NotImplementedError, "Generator: not implemented for device '{}'", device);
  return factory.make(device);
}

const GeneratorPtr& default_generator(Device device) {
  if (!device.is_cuda()) return default_cpu_generator();  // what is meta draws nothing
  load_backend(device.type);
  const GeneratorFactory& factory = factories()[static_cast<size_t>(device.type)];
  CHECK(factory.default_of, NotImplementedError, "Generator: not implemented for device '{}'",
        device);
  return factory.default_of(device);
}

}  // namespace flambeau
