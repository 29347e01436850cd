// Gradients from C++: what backward fills, what writes it notices, and what it rejects.
#include "flambeau/autograd/engine.h"
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;

TEST(Autograd, AddsUpGradientsOfSeveralPasses) {
  const Tensor x = wanted({3});
  (x * 2).sum().backward();
  (x * x).sum().backward();
  EXPECT_TRUE(holds(x.grad(), {2, 4, 6}));
}

TEST(Autograd, AddsUpGradientsOfSeveralUses) {
  const Tensor x = wanted({3});
  (x * x + x.exp() * 0 + x).sum().backward();
  EXPECT_TRUE(holds(x.grad(), {1, 3, 5}));
}

TEST(Autograd, SumsOverBroadcastDimensions) {
  const Tensor row = wanted({3}), column = wanted({2, 1});
  (row * column).sum().backward();
  EXPECT_TRUE(holds(row.grad(), {1, 1, 1}));
  EXPECT_EQ(column.grad().sizes(), (IntSpan{2, 1}));
  EXPECT_TRUE(holds(column.grad(), {3, 3}));
}

TEST(Autograd, CastsGradientsToTheDtypeOfTheirLeaf) {
  const Tensor x = wanted({2});
  (x.to_double() * count({2}, DType::float64)).sum().backward();
  EXPECT_EQ(x.grad().dtype(), DType::float32);
}

TEST(Autograd, TakesAGradientForResultsOfManyElements) {
  const Tensor x = wanted({2});
  (x * 3).backward(count({2}) + 1);
  EXPECT_TRUE(holds(x.grad(), {3, 6}));
}

TEST(Autograd, RejectsAGradientOfAnotherShape) {
  const Tensor y = wanted({2}) * 3;
  EXPECT_ERROR(y.backward(torch::ones({3})), RuntimeError, "Mismatch in shape");
}

TEST(Autograd, RejectsResultsOfManyElementsWithoutOne) {
  EXPECT_ERROR((wanted({2}) * 3).backward(), RuntimeError,
               "grad can be implicitly created only for scalar outputs");
}

TEST(Autograd, RejectsASecondPassOverAFreedGraph) {
  const Tensor x = wanted({2}), y = x.exp().sum();
  y.backward();
  EXPECT_ERROR(y.backward(), RuntimeError, "Trying to backward through the graph a second time");
}

TEST(Autograd, KeepsTheGraphWhenAsked) {
  const Tensor x = wanted({2}), y = (x * x).sum();
  y.backward({}, true);
  y.backward();
  EXPECT_TRUE(holds(x.grad(), {0, 4}));
}

TEST(Autograd, DifferentiatesGradients) {
  const Tensor x = wanted({3});
  (x * x * x).sum().backward({}, {}, true);
  const Tensor& first = x.grad();
  EXPECT_TRUE(first.requires_grad());
  const std::vector<flambeau::Tensor> second =
      run_backward({gradient_edge(first)}, {torch::ones({3})}, {gradient_edge(x)},
                   {.keep_graph = false, .accumulate = false});
  EXPECT_TRUE(holds(second.at(0), {0, 6, 12}));
}

TEST(Autograd, GivesGradientsOfInputsWithoutFillingLeaves) {
  const Tensor x = wanted({2}), y = x * 2, z = (y * y).sum();
  const std::vector<flambeau::Tensor> gradients = run_backward(
      {gradient_edge(z)}, {torch::ones({})}, {gradient_edge(y)}, {.accumulate = false});
  EXPECT_TRUE(holds(gradients.at(0), {0, 4}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, LeavesWhatIsNotReachedWithoutGradient) {
  const Tensor x = wanted({2}), other = wanted({2});
  x.sum().backward();
  EXPECT_FALSE(other.grad().defined());
}

TEST(Autograd, NoticesThatASavedTensorWasOverwritten) {
  const Tensor x = wanted({3}), y = x * 2, z = y.exp();
  z.add_(1);
  EXPECT_ERROR(z.sum().backward(), RuntimeError,
               "one of the variables needed for gradient computation has been modified by an "
               "inplace operation");
}

TEST(Autograd, DoesNotMindWritesToWhatWasNotSaved) {
  const Tensor x = wanted({3}), y = x * 2;
  y.add_(1);
  y.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {2, 2, 2}));
}

TEST(Autograd, RejectsWritesToLeaves) {
  EXPECT_ERROR(wanted({2}).add_(1), RuntimeError,
               "a leaf Variable that requires grad is being used in an in-place operation");
}

TEST(Autograd, RejectsWritesToViewsOfLeaves) {
  EXPECT_ERROR(wanted({2}).slice(0, 0, 1).mul_(2), RuntimeError,
               "a view of a leaf Variable that requires grad is being used in an in-place");
}

TEST(Autograd, RejectsWritesToOneOfSeveralViews) {
  const std::vector<Tensor> parts = (wanted({4}) * 1).chunk(2);
  EXPECT_ERROR(parts[0].add_(1), RuntimeError,
               "is the output of a function that returns multiple views");
}

TEST(Autograd, FollowsWritesThroughViews) {
  const Tensor x = wanted({3}), y = x * 1;
  y[0].mul_(5);
  y.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {5, 1, 1}));
}

TEST(Autograd, FollowsWritesToTheBaseOfAView) {
  const Tensor x = wanted({3}), y = x * 1, view = y.slice(0, 1, 3);
  y.mul_(4);
  view.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {0, 4, 4}));
}

TEST(Autograd, FollowsWhatIsCopiedIntoAPart) {
  const Tensor x = wanted({2}), y = torch::zeros({3});
  y.slice(0, 1, 3).copy_(x * 3);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {3, 3}));
}

TEST(Autograd, EndsAtDetachedTensors) {
  const Tensor x = wanted({2});
  EXPECT_FALSE((x * 2).detach().requires_grad());
  (x.detach() * x).sum().backward();
  EXPECT_TRUE(holds(x.grad(), {0, 1}));
}

TEST(Autograd, WantsGradientsOfFloatingTensorsOnly) {
  EXPECT_ERROR(torch::ones({2}, DType::int64).requires_grad_(), RuntimeError,
               "Only Tensors of floating point and complex dtype can require gradients");
}

TEST(Autograd, ChangesFlagsOfLeavesOnly) {
  EXPECT_ERROR((wanted({2}) * 1).requires_grad_(false), RuntimeError,
               "you can only change requires_grad flags of leaf variables");
}

TEST(Autograd, BuildsAndDestroysChainsWithoutRecursion) {
  const Tensor x = wanted({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1;
  y.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {1}));
}

TEST(Autograd, RunsHooksOnGradients) {
  const Tensor x = wanted({2}), y = x * 1;
  add_hook(y, [](const flambeau::Tensor& gradient) -> flambeau::Tensor {
    return Tensor(gradient) * 10;
  });
  y.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {10, 10}));
}

TEST(Autograd, KeepsGradientsOfResultsWhenAsked) {
  const Tensor x = wanted({2}), y = x * 2;
  retain_grad(y);
  y.sum().backward();
  EXPECT_TRUE(holds(y.grad(), {1, 1}));
  EXPECT_FALSE(y.is_leaf());
}

TEST(Autograd, TakesEmptyTensors) {
  const Tensor x = torch::empty({0, 3}).requires_grad_();
  x.exp().sum().backward();
  EXPECT_EQ(x.grad().sizes(), (IntSpan{0, 3}));
}

TEST(Autograd, GoesThroughIndexing) {
  const Tensor x = wanted({3}), index = torch::zeros({2}, DType::int64);
  torch::_index(x, {index}).sum().backward();
  EXPECT_TRUE(holds(x.grad(), {2, 0, 0}));
}

TEST(Autograd, GoesThroughSeveralResults) {
  const Tensor x = wanted({2, 3});
  const auto [largest, where] = x.max(1);
  EXPECT_FALSE(where.requires_grad());
  largest.sum().backward();
  EXPECT_TRUE(holds(x.grad(), {0, 0, 1, 0, 0, 1}));
}

}  // namespace
}  // namespace flambeau
