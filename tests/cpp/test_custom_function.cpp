// autograd::Function, grad and backward for C++ programs.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct MulConstant : torch::autograd::Function<MulConstant> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, double factor) {
    context->saved_data["factor"] = factor;
    context->save_for_backward({x});
    return x * factor;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    EXPECT_EQ(context->get_saved_variables().size(), 1U);
    return {grads[0] * context->saved_data["factor"].toDouble(), torch::Tensor()};
  }
};

torch::Tensor leaf() { return torch::ones({2, 2}).requires_grad_(); }

TEST(CustomFunction, RunsItsBackward) {
  torch::Tensor x = leaf();
  const torch::Tensor y = MulConstant::apply(x, 5.5);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::full({2, 2}, 5.5)));
}

TEST(CustomFunction, NamesItsNodeAsLibtorchDoes) {
  const std::string name = MulConstant::apply(leaf(), 2.0).grad_fn()->name();
  EXPECT_EQ(name.rfind("torch::autograd::CppNode<", 0), 0U) << name;
  EXPECT_NE(name.find("MulConstant>"), std::string::npos) << name;
}

TEST(CustomFunction, RecordsNothingWithoutGradients) {
  const torch::NoGradGuard off;
  EXPECT_FALSE(MulConstant::apply(leaf(), 2.0).requires_grad());
}

struct AddOne : torch::autograd::Function<AddOne> {
  static variable_list forward(AutogradContext* context, torch::Tensor x, torch::Tensor y) {
    x.add_(1);
    context->mark_dirty({x});
    torch::Tensor counted = torch::zeros({1}, flambeau::DType::int64);
    context->mark_non_differentiable({counted});
    return {x, x * y, counted};
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0] + grads[1], grads[1]};
  }
};

TEST(CustomFunction, WritesAndGivesSeveral) {
  torch::Tensor a = leaf(), b = leaf();
  torch::Tensor x = a * 1;
  const variable_list outputs = AddOne::apply(x, b);
  EXPECT_TRUE(outputs[0].is_same(x));
  EXPECT_FALSE(outputs[2].requires_grad());
  outputs[1].sum().backward();
  EXPECT_TRUE(a.grad().equal(torch::ones({2, 2})));
}

struct Wrong : torch::autograd::Function<Wrong> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list) { return {}; }
};

TEST(CustomFunction, TooFewGradientsRaise) {
  EXPECT_THROW(Wrong::apply(leaf()).sum().backward(), c10::Error);
}

TEST(Autograd, GradGivesSecondDerivatives) {
  torch::Tensor x = leaf();
  const torch::Tensor y = (x * x * x).sum();
  const auto first = torch::autograd::grad({y}, {x}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].sum()}, {x});
  EXPECT_TRUE(second[0].equal(torch::full({2, 2}, 6.)));
  EXPECT_THROW(torch::autograd::grad({y}, {leaf()}), c10::Error);
  EXPECT_FALSE(torch::autograd::grad({y}, {leaf()}, {}, true, false, true)[0].defined());
}

TEST(Autograd, BackwardOfSeveralTensorsIntoChosenInputs) {
  torch::Tensor x = leaf(), y = leaf();
  torch::autograd::backward({(x * y).sum(), y.sum()}, {}, {}, false, {y});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(y.grad().equal(torch::full({2, 2}, 2.)));
}

TEST(Autograd, AnomalyModeFindsNaNs) {
  const torch::autograd::DetectAnomalyGuard guard;
  torch::Tensor x = torch::full({1}, -1.).requires_grad_();
  EXPECT_THROW(x.sqrt().sum().backward(), c10::Error);
}

}  // namespace
