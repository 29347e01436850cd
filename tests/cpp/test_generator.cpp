// The CPU generator: the Mersenne twister's published numbers, and the state it saves and restores.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/tensor/generator.h"

namespace flambeau {
namespace {

using State = std::array<std::byte, 5056>;

State state_of(const Generator& generator) {
  State state;
  generator.get_state(state);
  return state;
}

TEST(Generator, DrawsTheMersenneTwistersPublishedNumbers) {
  CpuGenerator generator(5489);
  EXPECT_EQ(generator.next_uint32(), 3499211612u);
  for (int i = 0; i < 9998; ++i) generator.next_uint32();
  EXPECT_EQ(generator.next_uint32(), 4123659995u);
}

TEST(Generator, FillsWithTheWordsThatSingleDrawsGive) {
  for (const size_t before : {0u, 1u, 623u, 624u, 625u}) {
    CpuGenerator bulk(1), single(1);
    for (size_t i = 0; i < before; ++i) EXPECT_EQ(bulk.next_uint32(), single.next_uint32());
    std::vector<uint32_t> words(2000);
    bulk.fill(words);
    for (const uint32_t word : words) ASSERT_EQ(word, single.next_uint32());
    EXPECT_EQ(state_of(bulk), state_of(single));
  }
}

TEST(Generator, PutsTheFirstWordOnTopOf64Bits) {
  CpuGenerator wide(3), narrow(3);
  const uint64_t high = narrow.next_uint32(), low = narrow.next_uint32();
  EXPECT_EQ(wide.next_uint64(), high << 32 | low);
}

TEST(Generator, SavesAndRestoresItsState) {
  CpuGenerator generator(7);
  generator.next_uint32();
  generator.next_normal() = 0.25;
  const State saved = state_of(generator);
  const uint64_t next = generator.next_uint64();
  CpuGenerator other;
  other.set_state(saved);
  EXPECT_EQ(other.initial_seed(), 7u);
  EXPECT_EQ(other.next_normal(), 0.25);
  EXPECT_EQ(other.next_uint64(), next);
}

TEST(Generator, LaysOutItsStateAsPyTorchDoes) {
  CpuGenerator generator(7);
  generator.next_uint32();
  const State state = state_of(generator);
  const auto read = [&]<class T>(size_t at, T value) {
    std::memcpy(&value, state.data() + at, sizeof value);
    return value;
  };
  EXPECT_EQ(read(0, uint64_t{}), 7u);
  EXPECT_EQ(read(8, int32_t{}), 624);
  EXPECT_EQ(read(12, int32_t{}), 1);
  EXPECT_EQ(read(16, uint64_t{}), 1u);
  EXPECT_EQ(read(5040, int32_t{}), 0);
}

TEST(Generator, RefusesStatesThatAreNone) {
  CpuGenerator generator(7);
  const uint32_t next = CpuGenerator(7).next_uint32();
  State state{};
  EXPECT_THROW(generator.set_state(state), Error);
  EXPECT_THROW(generator.set_state(std::span(state).first(100)), Error);
  state = state_of(generator);
  const uint64_t beyond = 700;
  std::memcpy(state.data() + 16, &beyond, sizeof beyond);
  EXPECT_THROW(generator.set_state(state), Error);
  EXPECT_EQ(generator.next_uint32(), next) << "a refused state changes nothing";
}

TEST(Generator, ClonesGoTheirOwnWay) {
  CpuGenerator generator(7);
  generator.next_uint32();
  const GeneratorPtr copied = generator.clone();
  generator.next_uint32();
  CpuGenerator same(7);
  same.next_uint32();
  EXPECT_EQ(state_of(*copied), state_of(same));
}

TEST(Generator, SeedsItselfUnpredictably) {
  CpuGenerator generator;
  EXPECT_EQ(generator.initial_seed(), default_seed);
  const uint64_t first = generator.seed();
  EXPECT_EQ(generator.initial_seed(), first);
  EXPECT_NE(generator.seed(), first);
}

TEST(Generator, HasNoOffsetAndNoMetaSibling) {
  CpuGenerator generator;
  EXPECT_THROW(static_cast<void>(generator.offset()), Error);
  EXPECT_THROW(generator.set_offset(3), Error);
  EXPECT_THROW(static_cast<void>(make_generator(DeviceType::meta)), Error);
  EXPECT_EQ(default_generator(DeviceType::cpu), default_generator(DeviceType::cpu));
}

}  // namespace
}  // namespace flambeau
