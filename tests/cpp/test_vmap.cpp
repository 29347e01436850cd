// vmap from C++: functions of samples that are called once, nested, and with gradients.
#include <gtest/gtest.h>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/vmap.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor numbers(const Dims& size) {
  Options options;
  options.dtype = DType::float64;
  const auto count = static_cast<double>(checked_numel(size));
  return reshape(arange(Scalar(0.0), Scalar(count), Scalar(1.0), options), size);
}
bool same(const Tensor& a, const Tensor& b) { return equal(a, b); }

TEST(Vmap, CallsAFunctionOnceForAllSamples) {
  const Tensor x = numbers({4, 3});
  int calls = 0;
  const Tensor sums = vmap(
      [&](const Tensor& row) {
        ++calls;
        EXPECT_EQ(row.dim(), 1);
        return sum(mul(row, row));
      },
      Randomness::error, x);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(same(sums, sum(mul(x, x), IntSpan{1}, false)));
}

TEST(Vmap, Nests) {
  const Tensor x = numbers({4, 3, 2});
  const Tensor found = vmap(
      [](const Tensor& outer) {
        return vmap([](const Tensor& inner) { return sum(inner); }, Randomness::error, outer);
      },
      Randomness::error, x);
  EXPECT_TRUE(same(found, sum(x, IntSpan{2}, false)));
}

TEST(Vmap, TakesTensorsThatAllSamplesShare) {
  const Tensor x = numbers({4, 3}), weight = numbers({3, 3});
  const Tensor found =
      vmap([&](const Tensor& row) { return matmul(row, weight); }, Randomness::error, x);
  EXPECT_TRUE(same(found, matmul(x, weight)));
}

TEST(Vmap, RefusesValuesOfOneSample) {
  const Tensor x = numbers({4, 3});
  EXPECT_THROW(
      vmap([](const Tensor& row) { return mul(row, item(sum(row))); }, Randomness::error, x),
      RuntimeError);
  EXPECT_EQ(current_vmap_level(), 0);
}

TEST(Vmap, RefusesToWriteSamplesIntoWhatAllShare) {
  const Tensor x = numbers({4, 3}), shared = numbers({3});
  EXPECT_THROW(vmap([&](const Tensor& row) { return add_(shared, row); }, Randomness::error, x),
               RuntimeError);
  const Tensor written =
      vmap([](const Tensor& row) { return add_(clone(row), row); }, Randomness::error, x);
  EXPECT_TRUE(same(written, add(x, x)));
}

TEST(Vmap, DrawsTheSameOrDifferentNumbers) {
  const Tensor x = numbers({4, 3});
  const auto noisy = [](const Tensor& row) { return tensor_op("dropout", {row, 0.5, true}); };
  EXPECT_THROW(vmap(noisy, Randomness::error, x), RuntimeError);
  EXPECT_EQ(vmap(noisy, Randomness::different, x).sizes(), x.sizes());
}

}  // namespace
}  // namespace flambeau
