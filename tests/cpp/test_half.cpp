// The 16-bit floating types as C++ programs compute with them.
#include "flambeau/api/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

namespace flambeau {
namespace {

template <class T>
class ReducedTest : public testing::Test {};
using ReducedTypes = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(ReducedTest, ReducedTypes);

TYPED_TEST(ReducedTest, ComputesAndRounds) {
  TypeParam x = 1.5f;
  const TypeParam y = 2;
  static_assert(std::is_same_v<decltype(x * y), TypeParam>);
  x += y * y - y / y;
  EXPECT_EQ(static_cast<float>(x), 4.5f);
  x *= 2;
  EXPECT_EQ(static_cast<float>(-x), -9.0f);
}

TYPED_TEST(ReducedTest, KnowsItsLimits) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam one = 1;
  EXPECT_GT(static_cast<float>(TypeParam(1 + static_cast<float>(Limits::epsilon()))), one);
  EXPECT_EQ(static_cast<float>(TypeParam(1 + static_cast<float>(Limits::epsilon()) / 2)), one);
  EXPECT_EQ(static_cast<float>(Limits::lowest()), -static_cast<float>(Limits::max()));
  EXPECT_TRUE(std::isinf(static_cast<float>(Limits::infinity())));
  EXPECT_TRUE(std::isinf(static_cast<float>(Limits::max() + Limits::max())));
  EXPECT_TRUE(std::isnan(static_cast<float>(Limits::quiet_NaN())));
  constexpr bool half = std::is_same_v<TypeParam, Half>;
  EXPECT_EQ(static_cast<float>(Limits::min()), half ? 0x1p-14f : 0x1p-126f);
}

}  // namespace
}  // namespace flambeau
