// Views, indexing, broadcasting, and what ops say of shapes that do not fit.
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;

TEST(Views, ShareTheirMemory) {
  const Tensor x = count({2, 3});
  for (const Tensor& view : {x.t(), x[1], x.view({3, 2}), x.unsqueeze(0), x.narrow(1, 0, 2)}) {
    EXPECT_EQ(view.storage(), x.storage());
  }
  x.t()[2].zero_();
  EXPECT_TRUE(holds(x, {0, 1, 0, 3, 4, 0}));
}

TEST(Views, CopyOnlyWhereTheyMust) {
  const Tensor x = count({2, 3});
  EXPECT_EQ(x.reshape({6}).storage(), x.storage());
  EXPECT_NE(x.t().reshape({6}).storage(), x.storage());
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_TRUE(holds(x.t().contiguous(), {0, 3, 1, 4, 2, 5}));
}

TEST(Views, RejectWhatStridesCannotSay) {
  EXPECT_ERROR(count({2, 3}).t().view({6}), RuntimeError,
               "view size is not compatible with input tensor's size and stride");
}

TEST(Views, RejectOtherNumbersOfElements) {
  EXPECT_ERROR(count({2, 3}).view({4}), RuntimeError, "shape '[4]' is invalid for input of size 6");
  EXPECT_ERROR(count({2, 3}).view({-1, 4}), RuntimeError,
               "shape '[-1, 4]' is invalid for input of size 6");
}

TEST(Views, ExpandWithoutMemory) {
  const Tensor x = count({3}).expand({4, -1});
  EXPECT_EQ(x.sizes(), (IntSpan{4, 3}));
  EXPECT_EQ(x.stride(0), 0);
  EXPECT_ERROR(count({2, 3}).expand({3, 3}), RuntimeError,
               "The expanded size of the tensor (3) must match the existing size (2)");
}

TEST(Views, CountDimensionsFromTheEnd) {
  const Tensor x = torch::zeros({2, 3, 4});
  EXPECT_EQ(x.transpose(-1, -3).sizes(), (IntSpan{4, 3, 2}));
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_ERROR(x.transpose(0, 3), IndexError,
               "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
}

TEST(Views, SeeBytesAsAnotherDtype) {
  const Tensor x = torch::ones({2}), bits = x.view(DType::int32);
  EXPECT_EQ(bits[0].item<int>(), 0x3f800000);
  bits.zero_();
  EXPECT_TRUE(holds(x, {0, 0}));
}

TEST(Views, StayInsideTheirStorage) {
  const Tensor x = count({6});
  EXPECT_TRUE(holds(x.as_strided({2, 2}, {1, 2}, 1), {1, 3, 2, 4}));
  EXPECT_THROW(x.as_strided({4, 4}, {4, 1}), Error);
  EXPECT_THROW(x.as_strided({2}, {-1}), Error);
}

TEST(Views, SplitAndStack) {
  const Tensor x = count({5});
  const std::vector<Tensor> parts = torch::split(x, 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(torch::cat(parts).equal(x));
  EXPECT_EQ(x.tensor_split({1, 3}).at(1).numel(), 2);
  EXPECT_ERROR(torch::split(x, {1, 2}), RuntimeError, "split_sizes to sum exactly to 5");
}

TEST(Indexing, SelectsAndSlices) {
  const Tensor x = count({3, 4});
  EXPECT_TRUE(holds(x[-1], {8, 9, 10, 11}));
  EXPECT_TRUE(holds(x.select(1, 2), {2, 6, 10}));
  EXPECT_TRUE(holds(x[0].slice(0, 1, torch::nullopt, 2), {1, 3}));
  EXPECT_ERROR(x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3");
}

TEST(Indexing, TakesTensorsOfIndices) {
  const Tensor x = count({3, 4}), rows = torch::arange(2), columns = rows + 2;
  EXPECT_TRUE(holds(torch::_index(x, {rows, columns}), {2, 7}));
  EXPECT_TRUE(holds(torch::_index(x, {Tensor(), columns}), {2, 3, 6, 7, 10, 11}));
  EXPECT_ERROR(torch::_index(x, {rows + 7}), IndexError,
               "index 7 is out of bounds for dimension 0 with size 3");
}

TEST(Indexing, TakesMasks) {
  const Tensor x = count({2, 3});
  EXPECT_TRUE(holds(x.masked_select(x > 3), {4, 5}));
  EXPECT_TRUE(holds(torch::_index(x, {x > 3}), {4, 5}));
  EXPECT_TRUE(holds(x.masked_fill(x > 3, -1), {0, 1, 2, 3, -1, -1}));
  EXPECT_TRUE(holds(torch::where(x > 3, x, 0), {0, 0, 0, 0, 4, 5}));
}

TEST(Indexing, WritesByIndices) {
  const Tensor x = torch::zeros({3}), index = torch::zeros({2}, DType::int64);
  x.index_put_({index}, torch::ones({2}), true);
  EXPECT_TRUE(holds(x, {2, 0, 0}));
}

TEST(Indexing, GathersAlongADimension) {
  const Tensor x = count({2, 3}), index = torch::ones({2, 1}, DType::int64);
  EXPECT_TRUE(holds(x.gather(1, index), {1, 4}));
  EXPECT_TRUE(holds(x.index_select(1, index.flatten()), {1, 1, 4, 4}));
  EXPECT_ERROR(x.gather(0, index + 4), RuntimeError,
               "index 5 is out of bounds for dimension 0 with size 2");
}

TEST(Indexing, FindsWhatIsNotZero) {
  const Tensor x = count({2, 2});
  EXPECT_TRUE(holds(torch::argwhere(x), {0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(x.count_nonzero().item<int>(), 3);
}

TEST(Broadcasting, StretchesDimensionsOfOne) {
  EXPECT_TRUE(holds(count({2, 1}) * 10 + count({3}), {0, 1, 2, 10, 11, 12}));
  EXPECT_EQ((torch::zeros({4, 1, 2}) + torch::zeros({3, 1})).sizes(), (IntSpan{4, 3, 2}));
  EXPECT_EQ((torch::zeros({0, 1}) + torch::zeros({3})).sizes(), (IntSpan{0, 3}));
}

TEST(Broadcasting, SaysWhichDimensionsDiffer) {
  EXPECT_ERROR(count({2, 3}) + torch::ones({4}), RuntimeError,
               "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
               "dimension 1");
  EXPECT_ERROR(torch::where(count({2, 3}) > 0, count({2, 3}), torch::ones({5})), RuntimeError,
               "The size of tensor a (3) must match the size of tensor b (5)");
}

TEST(Broadcasting, PromotesDtypes) {
  const Tensor integers = count({2}, DType::int64), floats = torch::ones({2});
  EXPECT_EQ((integers + floats).dtype(), DType::float32);
  EXPECT_EQ((integers + 1.5).dtype(), DType::float32);
  EXPECT_EQ((integers + 1).dtype(), DType::int64);
  EXPECT_EQ((integers / 2).dtype(), DType::float32);
  EXPECT_EQ((floats.to(DType::float16) + torch::ones({}, DType::float64)).dtype(), DType::float16);
  EXPECT_EQ((integers > 0).dtype(), DType::bool_);
}

TEST(Shapes, ProductsSayWhatDoesNotFit) {
  const Tensor x = count({2, 3});
  EXPECT_ERROR(torch::mm(x, x), RuntimeError,
               "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
  EXPECT_ERROR(torch::bmm(x, x), RuntimeError, "batch1 must be a 3D tensor");
}

TEST(Shapes, JoinsSayWhatDoesNotFit) {
  const Tensor x = count({2, 3});
  EXPECT_ERROR(torch::cat({x, torch::ones({2})}), RuntimeError,
               "Tensors must have same number of dimensions: got 2 and 1");
  EXPECT_ERROR(torch::stack({x, x[0]}), RuntimeError,
               "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [3] at "
               "entry 1");
}

TEST(Shapes, DimensionsOutOfRangeAreIndexErrors) {
  const Tensor x = count({2, 3});
  const char* words = "Dimension out of range (expected to be in range of [-2, 1], but got 5)";
  EXPECT_ERROR(x.sum(5), IndexError, words);
  EXPECT_ERROR(x.softmax(5), IndexError, words);
  EXPECT_ERROR(x.max(5), IndexError, words);
  EXPECT_ERROR(x.squeeze(5), IndexError, words);
}

TEST(Shapes, NegativeSizesAreRejected) {
  EXPECT_ERROR(torch::zeros({2, -1}), RuntimeError, "negative dimension -1");
  EXPECT_ERROR(count({2, 3}).narrow(0, 1, 3), RuntimeError,
               "start (1) + length (3) exceeds dimension size (2)");
}

TEST(Shapes, OneElementIsANumber) {
  EXPECT_EQ(torch::ones({1, 1}).item<double>(), 1.0);
  EXPECT_ERROR(count({6}).item(), RuntimeError,
               "a Tensor with 6 elements cannot be converted to Scalar");
}

TEST(Shapes, SubtractionOfMasksIsRejected) {
  const Tensor mask = torch::ones({2}, DType::bool_);
  EXPECT_THROW(mask - mask, Error);
  EXPECT_TRUE((mask ^ mask).any().item<bool>() == false);
}

TEST(Shapes, SingularMatricesAreErrorsOfTheirOwn) {
  EXPECT_THROW(torch::linalg_inv(torch::zeros({2, 2})), LinAlgError);
}

TEST(Shapes, MetaTensorsHaveShapesAlone) {
  const Tensor x = torch::empty({2, 3}, DeviceType::meta);
  EXPECT_EQ(torch::mm(x, x.t()).sizes(), (IntSpan{2, 2}));
  EXPECT_TRUE(x.exp().device().is_meta());
  EXPECT_THROW(x.sum().item(), Error);
}

}  // namespace
}  // namespace flambeau
