// Programs against the printed header: what C++ writes for arguments, and what the forms give back.
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;

TEST(Api, CallsAnOpAsFunctionAndAsMethod) {
  const Tensor x = count({2, 3}) - 2;
  EXPECT_TRUE(torch::relu(x).equal(x.relu()));
  EXPECT_EQ(torch::relu(x).sum().item<float>(), 6);
}

TEST(Api, TakesNumbersWhereTensorsMayBe) {
  const Tensor x = count({3});
  EXPECT_TRUE(torch::add(x, 2).equal(x + 2));
  EXPECT_TRUE(torch::add(x, x, 0.5).equal(x * 1.5));
  EXPECT_TRUE((1 - x).equal(torch::sub(1, x)));
}

TEST(Api, TellsTextsFromNumbers) {
  const Tensor x = count({2, 2});
  EXPECT_TRUE(torch::linalg_norm(x, "fro").equal(torch::linalg_norm(x)));
  EXPECT_EQ(torch::linalg_norm(x, 1).item<float>(), 4);
  EXPECT_EQ(torch::linalg_matrix_norm(x, Scalar(1)).item<float>(), 4);
  EXPECT_TRUE(holds(torch::div(x, 2, "floor"), {0, 0, 1, 1}));
}

// Python makes a tensor of a number, and has one derivative.
TEST(Api, NamesWhatNumbersAreAddedToAsLibtorchDoes) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const auto name = [](const torch::Tensor& y) { return y.grad_fn()->name(); };
  EXPECT_EQ(name(x + 1), "AddBackward1");
  EXPECT_EQ(name(2 * x), "MulBackward1");
  EXPECT_EQ(name(x.sub(1)), "SubBackward1");
  EXPECT_EQ(name(torch::div(x, 2)), "DivBackward1");
  EXPECT_EQ(name(x.clone().add_(1)), "AddBackward1");
  EXPECT_EQ(name(1 - x), "SubBackward0");
  EXPECT_EQ(name(x + x), "AddBackward0");
}

TEST(Api, TakesSizesInBraces) {
  const Tensor x = torch::zeros({2, 3, 4});
  EXPECT_EQ(x.sizes(), (IntSpan{2, 3, 4}));
  EXPECT_EQ(x.permute({2, 0, 1}).sizes(), (IntSpan{4, 2, 3}));
  EXPECT_EQ(x.view({6, -1}).sizes(), (IntSpan{6, 4}));
  EXPECT_EQ(torch::ones(5).dim(), 1);
}

TEST(Api, TakesOneDimensionOrSeveralOrNone) {
  const Tensor x = count({2, 3});
  EXPECT_EQ(x.sum().item<float>(), 15);
  EXPECT_EQ(x.sum(1).sizes(), (IntSpan{2}));
  EXPECT_EQ(x.sum({0, 1}).dim(), 0);
  EXPECT_EQ(x.mean(torch::nullopt, true).sizes(), (IntSpan{1, 1}));
}

TEST(Api, TakesListsOfTensors) {
  const Tensor x = count({2, 3});
  const std::vector<Tensor> list = {x, x, x};
  EXPECT_EQ(torch::cat({x, x}).size(0), 4);
  EXPECT_EQ(torch::cat(list, 1).size(1), 9);
  EXPECT_EQ(torch::stack(list).dim(), 3);
}

TEST(Api, GivesSeveralResultsAsTupleOrList) {
  const auto [values, indices] = torch::max(count({2, 3}), 1);
  EXPECT_EQ(values[1].item<float>(), 5);
  EXPECT_EQ(indices.dtype(), DType::int64);
  const auto [deviation, mean] = torch::std_mean(count({5}));
  EXPECT_EQ(deviation.square().item<float>(), 2.5f);
  EXPECT_EQ(mean.item<float>(), 2);
  const std::vector<Tensor> chunks = count({5}).chunk(2);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[1].numel(), 2);
}

TEST(Api, GivesNumbersAsNumbers) {
  const Tensor x = count({3});
  EXPECT_TRUE(x.equal(x));
  EXPECT_FALSE(x.is_signed() && torch::is_conj(x));
  EXPECT_EQ(x[2].item().to_double(), 2.0);
}

TEST(Api, WritesInPlaceAndGivesItselfBack) {
  Tensor x = count({3});
  const Tensor same = x;
  Tensor& back = x.add_(1).mul_(x);
  EXPECT_EQ(&back, &x);
  EXPECT_TRUE(same.equal(torch::tensor_split(count({3}) + 1, 1)[0].square()));
  torch::relu_(x.neg_());
  EXPECT_EQ(same.sum().item<float>(), 0);
  x += 2;
  x *= count({3});
  EXPECT_EQ(same.sum().item<float>(), 6);
}

TEST(Api, WritesIntoOut) {
  const Tensor x = count({2, 3});
  Tensor out = torch::empty({0});
  Tensor& back = torch::add_out(out, x, x);
  EXPECT_EQ(&back, &out);
  EXPECT_TRUE(out.equal(x * 2));
  torch::add_out(out, x, x, -1);
  EXPECT_EQ(out.abs().sum().item<float>(), 0);
}

TEST(Api, WritesIntoSeveralOuts) {
  const Tensor x = count({2, 3});
  const Tensor values = torch::empty({0}), indices = torch::empty({0}, DType::int64);
  torch::max_out(values, indices, x, 1);
  EXPECT_EQ(values[0].item<float>(), 2);
  EXPECT_EQ(indices[0].item<int>(), 2);
}

TEST(Api, TakesOptionsOfNewTensors) {
  const Tensor x = torch::ones({2}, torch::TensorOptions(DType::float64).requires_grad(true));
  EXPECT_EQ(x.dtype(), DType::float64);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(torch::zeros({2}, DeviceType::meta).device().is_meta());
}

TEST(Api, TakesNothingWhereTensorsMayBeAbsent) {
  const Tensor x = count({2, 3}), weight = count({4, 3});
  const Tensor plain = torch::linear(x, weight);
  EXPECT_TRUE(plain.equal(torch::linear(x, weight, {})));
  EXPECT_TRUE(plain.equal(torch::linear(x, weight, torch::nullopt)));
  EXPECT_TRUE(plain.equal(torch::linear(x, weight, std::optional<Tensor>())));
  EXPECT_TRUE((plain + 1).equal(torch::linear(x, weight, torch::ones({4}))));
}

TEST(Api, RejectsUndefinedTensors) {
  const char* words = "Expected a proper Tensor but got None";
  EXPECT_ERROR(torch::relu(Tensor()), RuntimeError, words);
  EXPECT_ERROR(torch::add(Tensor(), 1), RuntimeError, words);
  EXPECT_ERROR(torch::add(torch::ones({1}), Tensor()), RuntimeError, words);
  EXPECT_ERROR(torch::add_out(Tensor(), torch::ones({1}), 1), RuntimeError, words);
}

TEST(Api, RejectsAHeaderOfAnotherLibrary) {
  EXPECT_THROW(torch::Op("relu", 0, "relu(input, slope)"), NotImplementedError);
  EXPECT_THROW(torch::Op("relu", 7, "relu(input)"), NotImplementedError);
  EXPECT_THROW(torch::Op("no_such_op", 0, "no_such_op(input)"), NotImplementedError);
}

TEST(Api, IsAHandleOfTheCoresTensor) {
  const Tensor x = count({3});
  const flambeau::Tensor& core = x;
  const Tensor back = core;
  EXPECT_TRUE(back.is_same(x));
  back.zero_();
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST(Api, ComputesGradients) {
  Tensor x = count({3}).requires_grad_();
  (x * x).sum().backward();
  EXPECT_TRUE(x.grad().equal(count({3}) * 2));
  EXPECT_TRUE(x.is_leaf());
  EXPECT_THROW((x * x).backward(), Error);
  EXPECT_THROW(count({3}).sum().backward(), Error);
}

}  // namespace
}  // namespace flambeau
