// In-place forms and out=: what they write to, what they reject, what they count and warn of.
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;

TEST(InPlace, CountsEachWrite) {
  const Tensor x = count({3});
  EXPECT_EQ(x.version(), 0u);
  x.add_(1);
  x.mul_(2).relu_();
  EXPECT_EQ(x.version(), 3u);
}

TEST(InPlace, CountsWritesOfViewsWithTheirBase) {
  const Tensor x = count({2, 3}), row = x[1];
  row.zero_();
  EXPECT_EQ(x.version(), 1u);
  x.fill_(2);
  EXPECT_EQ(row.version(), 2u);
  EXPECT_EQ(x.clone().version(), 0u);
}

TEST(InPlace, CountsWritesOfDetachedTensors) {
  const Tensor x = count({3}), detached = x.detach();
  detached.add_(1);
  EXPECT_EQ(x.version(), 1u);
}

TEST(InPlace, KeepsTheDtype) {
  const Tensor x = count({3}, DType::int64);
  x.add_(2);
  EXPECT_EQ(x.dtype(), DType::int64);
  EXPECT_ERROR(x.add_(0.5), RuntimeError,
               "result type Float can't be cast to the desired output type Long");
  EXPECT_ERROR(x.div_(2), RuntimeError, "can't be cast to the desired output type Long");
}

TEST(InPlace, KeepsTheShape) {
  const Tensor x = count({2, 3});
  x.add_(count({3}));
  EXPECT_TRUE(holds(x, {0, 2, 4, 3, 5, 7}));
  EXPECT_ERROR(x.add_(torch::ones({2, 2, 3})), RuntimeError,
               "output with shape [2, 3] doesn't match the broadcast shape [2, 2, 3]");
}

TEST(InPlace, RejectsElementsThatShareMemory) {
  EXPECT_ERROR(count({3}).expand({2, 3}).add_(1), RuntimeError,
               "more than one element of the written-to tensor refers to a single memory location");
}

TEST(InPlace, RejectsOperandsThatOverlapInPart) {
  const Tensor x = count({4});
  EXPECT_ERROR(x.slice(0, 1, 4).add_(x.slice(0, 0, 3)), RuntimeError,
               "some elements of the input tensor and the written-to tensor refer to a single");
}

TEST(InPlace, TakesItselfAsOperand) {
  const Tensor x = count({3});
  x.add_(x).mul_(x);
  EXPECT_TRUE(holds(x, {0, 4, 16}));
}

TEST(InPlace, WritesTransposedTensors) {
  const Tensor x = count({2, 3});
  x.t().mul_(count({3, 2}));
  EXPECT_TRUE(holds(x, {0, 2, 8, 3, 12, 25}));
}

TEST(InPlace, ChangesShapesOfTheTensorItself) {
  const Tensor x = count({2, 3});
  x.t_();
  EXPECT_EQ(x.sizes(), (IntSpan{3, 2}));
  x.unsqueeze_(0).squeeze_(0);
  EXPECT_EQ(x.sizes(), (IntSpan{3, 2}));
}

TEST(InPlace, ResizesTheTensorItself) {
  const Tensor x = count({2, 3});
  x.resize_({2, 2});
  EXPECT_TRUE(holds(x, {0, 1, 2, 3}));
}

TEST(InPlace, ScattersAndFillsByIndex) {
  const Tensor x = torch::zeros({3}), index = count({2}, DType::int64);
  x.scatter_(0, index, 5);
  x.index_add_(0, index, torch::ones({2}));
  EXPECT_TRUE(holds(x, {6, 6, 0}));
  EXPECT_ERROR(x.masked_fill_(torch::ones({3}), 1), RuntimeError, "only supports boolean masks");
}

TEST(Out, GivesBackWhatItWroteTo) {
  Tensor out = torch::empty({3});
  const void* memory = out.raw();
  const Tensor& back = torch::mul_out(out, count({3}), 2);
  EXPECT_EQ(&back, &out);
  EXPECT_EQ(out.raw(), memory);
  EXPECT_GE(out.version(), 1u);
}

TEST(Out, ResizesEmptyTensorsSilently) {
  const Warnings warnings;
  const Tensor out = torch::empty({0});
  torch::exp_out(out, count({2, 2}));
  EXPECT_EQ(out.sizes(), (IntSpan{2, 2}));
  EXPECT_TRUE(Warnings::heard().empty());
}

TEST(Out, WarnsWhereItResizesOthers) {
  const Warnings warnings;
  const Tensor out = torch::empty({5}), other = torch::empty({5});
  torch::exp_out(out, count({2, 2}));
  torch::cumsum_out(other, count({2, 2}), 0);
  ASSERT_EQ(Warnings::heard().size(), 2u);
  for (const std::string& text : Warnings::heard()) {
    EXPECT_NE(text.find("An output with one or more elements was resized since it had shape [5]"),
              std::string::npos);
  }
}

TEST(Out, CastsToWiderDtypes) {
  const Tensor out = torch::empty({3}, DType::float64);
  torch::add_out(out, count({3}), 0.5);
  EXPECT_TRUE(holds(out, {0.5, 1.5, 2.5}));
}

TEST(Out, RejectsDtypesThatCannotHoldTheResult) {
  const Tensor out = torch::empty({3}, DType::int64);
  EXPECT_ERROR(torch::add_out(out, count({3}), 1), RuntimeError,
               "result type Float can't be cast to the desired output type Long");
}

TEST(Out, WantsTheDtypeOfOpsThatDoNotCast) {
  const Tensor out = torch::empty({2, 2}, DType::float64);
  EXPECT_ERROR(torch::mm_out(out, count({2, 2}), count({2, 2})), RuntimeError, "dtype");
}

TEST(Out, RejectsWhatOverlapsAnInputInPart) {
  const Tensor x = count({4});
  EXPECT_ERROR(torch::add_out(x.slice(0, 0, 3), x.slice(0, 1, 4), 1), RuntimeError,
               "some elements of the input tensor and the written-to tensor refer to a single");
}

TEST(Out, MayBeAnInput) {
  const Tensor x = count({3});
  torch::add_out(x, x, x);
  EXPECT_TRUE(holds(x, {0, 2, 4}));
}

TEST(Out, MustNotBeReadByOpsThatPickElements) {
  const Tensor x = count({3});
  EXPECT_ERROR(torch::cat_out(x, {x, x}), RuntimeError, "unsupported operation");
}

TEST(Out, RejectsGradients) {
  const Tensor x = wanted({3});
  EXPECT_ERROR(torch::add_out(torch::empty({3}), x, 1), RuntimeError,
               "functions with out=... arguments don't support automatic differentiation, but one "
               "of the arguments requires grad");
  const torch::NoGradGuard off;
  EXPECT_TRUE(holds(torch::add_out(torch::empty({3}), x, 1), {1, 2, 3}));
}

TEST(Out, KeepsStridesOfTheRightShape) {
  const Tensor out = torch::empty({3, 2}).t();
  torch::add_out(out, count({2, 3}), 1);
  EXPECT_EQ(out.stride(0), 1);
  EXPECT_TRUE(holds(out, {1, 2, 3, 4, 5, 6}));
}

TEST(Out, WritesIntoPartsOfTensors) {
  const Tensor x = torch::zeros({2, 3});
  torch::mul_out(x[1], count({3}), 2);
  EXPECT_TRUE(holds(x, {0, 0, 0, 0, 2, 4}));
}

TEST(Out, RejectsTwoResultsInOnePlace) {
  const Tensor out = torch::empty({2}, DType::int64), x = count({2, 3}, DType::int64);
  EXPECT_THROW(torch::max_out(out, out, x, 1), Error);
}

TEST(Out, WantsIndicesOfInt64) {
  EXPECT_ERROR(torch::max_out(torch::empty({2}), torch::empty({2}), count({2, 3}), 1), RuntimeError,
               "dtype");
}

TEST(Out, WritesListsOfResults) {
  const std::vector<Tensor> outs = {torch::empty({2}), torch::empty({2})};
  torch::unbind_copy_out(outs, count({2, 2}));
  EXPECT_TRUE(holds(outs[1], {2, 3}));
}

TEST(Out, OfNewTensorsSaysTheirDtype) {
  const Tensor out = torch::empty({0}, DType::float64);
  torch::zeros_out(out, {2, 2});
  EXPECT_TRUE(holds(out, {0, 0, 0, 0}));
  EXPECT_ERROR(torch::zeros_out(out, {2}, DType::int64), RuntimeError,
               "dtype Long does not match dtype of out parameter (Double)");
}

}  // namespace
}  // namespace flambeau
