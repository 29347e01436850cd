// autocast from C++: what ops compute in within a region, and what is kept of parameters.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/layers/autocast.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

constexpr DType low = DType::bfloat16, single = DType::float32;

Tensor matrix(DType dtype = single) {
  return to(reshape(arange(Scalar(0), Scalar(16), Scalar(1), Options{}), {4, 4}), dtype) / 16;
}

// Functions that C++ calls, and ops by name.
TEST(Autocast, ChoosesADtypeForEachOp) {
  const Tensor x = matrix();
  const AutocastGuard region(DeviceType::cpu);
  EXPECT_EQ(mm(x, x).dtype(), low);
  EXPECT_EQ(matmul(x, x).dtype(), low);
  EXPECT_EQ(tensor_op("linear", {x, x}).dtype(), low);
  EXPECT_EQ((x + x).dtype(), single);
  EXPECT_EQ(tensor_op("mse_loss", {matrix(low), matrix(low)}).dtype(), single);
  EXPECT_EQ(cat({matrix(low), x}, 0).dtype(), single);
  EXPECT_EQ(cat({matrix(low), matrix(low)}, 0).dtype(), low);
  EXPECT_EQ(mm(to(x, DType::float64), to(x, DType::float64)).dtype(), DType::float64);
}

TEST(Autocast, ReachesTheOpsThatOthersAreMadeOf) {
  const Tensor x = matrix() + tensor_op("eye", {4});
  const AutocastGuard region(DeviceType::cpu);
  for (const char* op : {"cov", "corrcoef", "linalg_pinv"}) {
    EXPECT_EQ(tensor_op(op, {x}).dtype(), low) << op;
  }
  EXPECT_EQ(tensor_op("linalg_matrix_power", {x, 3}).dtype(), low);
  EXPECT_EQ(tensor_op("einsum", {"ij,jk->ik", std::vector{x, x}}).dtype(), low);
  EXPECT_EQ(tensor_op("einsum", {"ij,ij->ij", std::vector{x, x}}).dtype(), single);
}

TEST(Autocast, EndsWithItsGuardAndNests) {
  const Tensor x = matrix();
  {
    const AutocastGuard region(DeviceType::cpu, DType::float16);
    EXPECT_EQ(mm(x, x).dtype(), DType::float16);
    {
      const AutocastGuard excepted(DeviceType::cpu, false);
      EXPECT_EQ(mm(x, x).dtype(), single);
    }
    const AutocastGuard inner(DeviceType::cpu, low);
    EXPECT_EQ(mm(x, x).dtype(), low);
  }
  EXPECT_EQ(mm(x, x).dtype(), single);
  EXPECT_EQ(autocast_dtype(DeviceType::cpu), low);
  EXPECT_FALSE(any_autocast_enabled());
}

TEST(Autocast, IsOffInOtherThreads) {
  const AutocastGuard region(DeviceType::cpu);
  DType found = low;
  std::thread([&] { found = mm(matrix(), matrix()).dtype(); }).join();
  EXPECT_EQ(found, single);
}

TEST(Autocast, LeavesTheDtypeOfWhatIsWrittenTo) {
  const Tensor x = matrix(), y = matrix();
  const AutocastGuard region(DeviceType::cpu);
  const Tensor same = tensor_op("addmm_", {y, x, x});
  EXPECT_TRUE(same.is_same(y));
  EXPECT_EQ(y.dtype(), single);
}

// The weight of a product is cast once in a region: the nodes behind two products are one.
NodePtr cast_of(const Tensor& product, int input) { return grad_fn(product)->edges[input].node; }

TEST(Autocast, CastsAParameterOnce) {
  const Tensor x = matrix(), weight = matrix();
  set_requires_grad(weight, true);
  const AutocastGuard region(DeviceType::cpu);
  const Tensor first = mm(x, weight);
  EXPECT_EQ(cast_of(first, 1), cast_of(mm(x, weight), 1));
  {
    const AutocastGuard inner(DeviceType::cpu);
    EXPECT_EQ(cast_of(first, 1), cast_of(mm(x, weight), 1));
  }
  EXPECT_EQ(cast_of(first, 1), cast_of(mm(x, weight), 1));
  clear_autocast_cache();
  EXPECT_NE(cast_of(first, 1), cast_of(mm(x, weight), 1));
  const AutocastGuard uncached(DeviceType::cpu, low, true, false);
  EXPECT_NE(cast_of(mm(x, weight), 1), cast_of(mm(x, weight), 1));
}

TEST(Autocast, CastsAParameterAgainAfterAWrite) {
  const Tensor x = tensor_op("eye", {4}), weight = matrix();
  set_requires_grad(weight, true);
  const AutocastGuard region(DeviceType::cpu);
  EXPECT_TRUE(is_nonzero(tensor_op("any", {mm(x, weight)})));
  {
    const NoGrad off;
    tensor_op("zero_", {weight});
  }
  EXPECT_FALSE(is_nonzero(tensor_op("any", {mm(x, weight)})));
}

TEST(Autocast, KeepsNoCastWithoutHistoryForWhatIsRecorded) {
  const Tensor x = matrix(), weight = matrix();
  set_requires_grad(weight, true);
  const AutocastGuard region(DeviceType::cpu);
  {
    const NoGrad off;
    EXPECT_FALSE(mm(x, weight).requires_grad());
  }
  EXPECT_TRUE(mm(x, weight).requires_grad());
}

// Names of one function have one policy.
TEST(Autocast, IsTheSameByEveryName) {
  constexpr uint64_t policies = 63ull << 52;
  std::map<void (*)(), const OpDef*> first;
  for (const OpDef* op : all_ops()) {
    if (op->has(OpDef::out_form)) continue;
    const OpDef* other = first.emplace(op->function, op).first->second;
    EXPECT_EQ(op->flags & policies, other->flags & policies)
        << op->signature << " and " << other->signature;
  }
}

TEST(Autocast, RaisesWhereThereIsNone) {
  EXPECT_FALSE(has_autocast(DeviceType::meta));
  EXPECT_THROW(AutocastGuard{DeviceType::meta}, RuntimeError);
}

}  // namespace
}  // namespace flambeau
