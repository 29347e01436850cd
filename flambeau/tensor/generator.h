// Random number generators: the interface every device's generator shares, and the CPU's.
// The CPU generator is a 32-bit Mersenne twister whose stream, seeding and serialized state are
// PyTorch's, so that a program draws the same numbers here and there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "flambeau/base/intrusive_ptr.h"
#include "flambeau/tensor/device.h"

namespace flambeau {

class Generator;
using GeneratorPtr = IntrusivePtr<Generator>;

// The seed of a generator nobody has seeded: the sixth Fermat number's larger prime factor, whose
// bits are well mixed.
inline constexpr uint64_t default_seed = 67280421310721;

// What all generators can do. Whoever draws, seeds or copies state holds mutex() for the whole
// call: a kernel's draws are one run of the stream, never interleaved with another thread's.
class Generator : public RefCounted {
 public:
  virtual ~Generator() = default;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  [[nodiscard]] std::mutex& mutex() const { return mutex_; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] virtual GeneratorPtr clone() const = 0;

  virtual void manual_seed(uint64_t seed) = 0;
  [[nodiscard]] virtual uint64_t initial_seed() const = 0;
  // Seeds with a number nobody can predict, and returns it.
  uint64_t seed();

  [[nodiscard]] virtual size_t state_size() const = 0;
  virtual void get_state(std::span<std::byte> out) const = 0;
  virtual void set_state(std::span<const std::byte> state) = 0;

  // The position of a counter-based generator (Philox). A sequential one has none and throws.
  [[nodiscard]] virtual uint64_t offset() const = 0;
  virtual void set_offset(uint64_t offset) = 0;

 protected:
  explicit Generator(Device device) : device_(device) {}

 private:
  mutable std::mutex mutex_;
  Device device_;
};

// How a backend makes its generators, told by a static initialiser of its library.
struct GeneratorFactory {
  GeneratorPtr (*make)(Device device);
  const GeneratorPtr& (*default_of)(Device device);
};
void set_generator_factory(DeviceType type, const GeneratorFactory& factory);

// A generator with the default seed. Raises RuntimeError where the device has none.
GeneratorPtr make_generator(Device device);
// The generator that ops on the device use when they are given none. Its first seed is
// unpredictable.
const GeneratorPtr& default_generator(Device device);

// The Mersenne twister mt19937. Words are made and tempered 624 at a time; what has been tempered
// but not yet drawn lies in words_[next_ .. next_ + left_ - 1).
class MersenneTwister {
 public:
  static constexpr size_t word_count = 624;

  explicit MersenneTwister(uint32_t seed) { reseed(seed); }
  void reseed(uint32_t seed);

  uint32_t next_word() {
    if (--left_ == 0) refill();
    return words_[next_++];
  }
  void fill(std::span<uint32_t> out);

  // The untempered words and the two counters are what PyTorch serializes.
  [[nodiscard]] std::span<const uint32_t, word_count> raw() const { return raw_; }
  [[nodiscard]] int32_t left() const { return left_; }
  [[nodiscard]] uint32_t next() const { return next_; }
  // False, and no change, when the counters point outside the words.
  bool restore(std::span<const uint32_t, word_count> raw, int32_t left, uint64_t next);

 private:
  void refill();

  std::array<uint32_t, word_count> raw_;
  std::array<uint32_t, word_count> words_;
  int32_t left_ = 1;  // one more than the words not yet drawn
  uint32_t next_ = 0;
};

class CpuGenerator final : public Generator {
 public:
  explicit CpuGenerator(uint64_t seed = default_seed);

  [[nodiscard]] GeneratorPtr clone() const override;
  void manual_seed(uint64_t seed) override;
  [[nodiscard]] uint64_t initial_seed() const override { return seed_; }
  [[nodiscard]] size_t state_size() const override;
  void get_state(std::span<std::byte> out) const override;
  void set_state(std::span<const std::byte> state) override;
  [[nodiscard]] uint64_t offset() const override;
  void set_offset(uint64_t offset) override;

  uint32_t next_uint32() { return engine_.next_word(); }
  // The first word drawn is the high half.
  uint64_t next_uint64() {
    uint64_t high = engine_.next_word();
    return high << 32 | engine_.next_word();
  }
  // The same words as out.size() calls of next_uint32, much faster.
  void fill(std::span<uint32_t> out) { engine_.fill(out); }

  // Box and Muller's method makes normal samples in pairs; the second waits here for the next
  // scalar draw.
  std::optional<double>& next_normal() { return next_normal_; }

 private:
  uint64_t seed_;
  MersenneTwister engine_;
  std::optional<double> next_normal_;
  // PyTorch's state holds a float sample too. Nothing here draws it; it is kept so that a
  // state goes through unchanged.
  std::optional<float> next_float_normal_;
};

// A 64-bit number from the system's entropy source.
uint64_t nondeterministic_seed();

}  // namespace flambeau
