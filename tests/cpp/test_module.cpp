// Modules: names, walks, copies, printing.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "tests/cpp/support.h"

namespace {

struct Net : torch::nn::Cloneable<Net> {
  Net() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(4, 3));
    second =
        register_module("second", torch::nn::Linear(torch::nn::LinearOptions(3, 2).bias(false)));
    scale = register_buffer("scale", torch::ones({2}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))) * scale; }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor scale;
};

TEST(Module, NamesItsParametersInTheOrderOfRegistration) {
  const Net net;
  std::string names;
  for (const auto& item : net.named_parameters()) names += item.key() + " ";
  EXPECT_EQ(names, "first.weight first.bias second.weight ");
  EXPECT_EQ(net.buffers().size(), 1U);
}

TEST(Module, TrainsItsParameters) {
  Net net;
  net.forward(torch::ones({2, 4})).sum().backward();
  EXPECT_TRUE(net.first->weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.first->weight.grad().defined());
}

TEST(Module, ClonesDeeply) {
  const Net net;
  const auto copy = std::dynamic_pointer_cast<Net>(net.clone());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->first->weight.equal(net.first->weight));
  EXPECT_NE(copy->first->weight.raw(), net.first->weight.raw());
}

TEST(Module, PrintsItsChildren) {
  std::ostringstream text;
  text << Net();
  EXPECT_NE(text.str().find("(first): torch::nn::Linear(in_features=4, out_features=3, bias=true)"),
            std::string::npos);
}

TEST(Module, AnEmptyHolderRaises) {
  torch::nn::Linear empty = nullptr;
  EXPECT_THROW(empty->forward(torch::ones({1})), c10::Error);
}

// --- Containers ----------------------------------------------------------------------------------

struct Scaled : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x, int by = 2, double more = 3.0) { return x * by + more; }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(2)}, {2, torch::nn::AnyValue(3.0)})
};
struct Counting : torch::nn::Module {
  int forward(int x) { return x + 1; }
};

TEST(Containers, SequentialCallsWhatItHolds) {
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Functional(torch::relu),
                            std::make_shared<torch::nn::LinearImpl>(3, 2));
  EXPECT_EQ(net->forward(torch::ones({5, 4})).size(0), 5);
  EXPECT_EQ(net->size(), 3U);
  EXPECT_EQ(net->at<torch::nn::LinearImpl>(2).options.out_features(), 2);
  EXPECT_EQ(net->named_parameters().keys().back(), "2.bias");
  torch::nn::Sequential named({{"a", torch::nn::Linear(1, 1)}, {"b", torch::nn::Dropout(0.5)}});
  EXPECT_EQ(named->named_children().keys(), (std::vector<std::string>{"a", "b"}));
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  EXPECT_TRUE(copy->forward(torch::ones({5, 4})).equal(net->forward(torch::ones({5, 4}))));
  net->extend(*named);
  EXPECT_EQ(net->size(), 5U);
}

TEST(Containers, AreIndexedThroughTheirHolders) {
  torch::nn::Sequential layers(torch::nn::Linear(2, 3), torch::nn::ReLU());
  EXPECT_EQ(layers[0]->parameters().size(), 2U);
  torch::nn::ModuleList list(torch::nn::ReLU(), torch::nn::Linear(2, 3));
  EXPECT_EQ(list[1]->parameters().size(), 2U);
}

TEST(Containers, DataParallelOnOneDeviceIsTheModule) {
  torch::nn::Linear layer(2, 3);
  const torch::Tensor x = torch::ones({4, 2});
  const std::vector<torch::Device> devices = {torch::kCPU};
  EXPECT_TRUE(torch::nn::parallel::data_parallel(layer, x, devices).equal(layer(x)));
}

TEST(Containers, SequentialsNest) {
  torch::nn::Sequential net(torch::nn::Sequential(torch::nn::Linear(4, 3)), torch::nn::ReLU());
  EXPECT_EQ(net->forward(torch::ones({5, 4})).size(1), 3);
}

TEST(Containers, SequentialKnowsDefaultArguments) {
  torch::nn::Sequential net{Scaled()};
  EXPECT_EQ(net->forward(torch::ones({1})).item<float>(), 5);
  EXPECT_EQ(net->forward(torch::ones({1}), 7).item<float>(), 10);
}

TEST(Containers, WrongCallsSayWhatIsWrong) {
  torch::nn::Sequential empty, numbers{Counting()};
  EXPECT_ERROR(empty->forward(1), c10::Error, "Cannot call forward() on an empty Sequential");
  EXPECT_EQ(numbers->forward<int>(1), 2);
  EXPECT_ERROR(numbers->forward(1), c10::Error,
               "The type of the return value is int, but you asked");
  EXPECT_ERROR(numbers->forward<int>(1, 2), c10::Error, "expects 1 argument(s), but received 2");
  EXPECT_ERROR(numbers->forward<int>(1.0F), c10::Error,
               "Expected argument #0 to be of type int, but received value of type float");
  EXPECT_ERROR(numbers->ptr(1), c10::Error, "Index out of range");
  torch::nn::AnyModule any;
  EXPECT_ERROR(any.forward(1), c10::Error, "Cannot call forward() on an empty AnyModule");
  any = torch::nn::AnyModule(torch::nn::Linear(3, 4));
  EXPECT_EQ(any.get<torch::nn::Linear>()->options.in_features(), 3);
  EXPECT_ERROR(any.get<Scaled>(), c10::Error, "Attempted to cast module of type");
}

TEST(Containers, ListsAndDictsHoldModules) {
  torch::nn::ModuleList list(torch::nn::Linear(4, 3), torch::nn::ReLU());
  list->insert(0, torch::nn::Dropout(0.25));
  EXPECT_EQ(list->named_parameters().keys().front(), "1.weight");
  EXPECT_EQ(list->at<torch::nn::DropoutImpl>(0).options.p(), 0.25);
  EXPECT_ERROR(list->at<torch::nn::LinearImpl>(0), c10::Error, "Unable to cast module[0] to");
  int children = 0;
  for (const auto& module : *list) children += module->children().empty();
  EXPECT_EQ(children, 3);

  torch::nn::ModuleDict dict;
  dict->insert("fc", torch::nn::Linear(4, 3).ptr());
  EXPECT_TRUE(dict->contains("fc"));
  EXPECT_EQ(dict->at<torch::nn::LinearImpl>("fc").weight.size(1), 4);
  dict->pop("fc");
  EXPECT_TRUE(dict->empty());
}

TEST(Containers, ListsAndDictsHoldParameters) {
  torch::nn::ParameterList list(torch::ones({2, 3}), torch::zeros({1}));
  EXPECT_EQ(list->at(1).numel(), 1);
  torch::nn::ParameterDict dict;
  dict->insert("scale", torch::ones({2}).requires_grad_());
  EXPECT_TRUE((*dict)["scale"].requires_grad());
  std::ostringstream text;
  text << list;
  EXPECT_EQ(text.str(),
            "torch::nn::ParameterList(\n(0): Parameter containing: [Float of size [2, 3]]\n"
            "(1): Parameter containing: [Float of size [1]]\n)");
}

TEST(Layers, PaddingMayBeSizesOrAWord) {
  using torch::nn::Conv2d;
  using torch::nn::Conv2dOptions;
  const torch::Tensor x = torch::ones({1, 2, 5, 5});
  EXPECT_EQ(Conv2d(Conv2dOptions(2, 3, 3).padding(torch::kSame))->forward(x).size(3), 5);
  EXPECT_EQ(Conv2d(Conv2dOptions(2, 3, {3, 1}).padding({0, 2}))->forward(x).size(3), 9);
  EXPECT_EQ(
      Conv2d(Conv2dOptions(2, 3, 3).padding(1).padding_mode(torch::kCircular))->forward(x).size(2),
      5);
}

}  // namespace
