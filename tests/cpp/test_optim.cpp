// Optimizers against the numbers that PyTorch computes, groups and schedulers.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

namespace {

using namespace torch::optim;

// Five steps on a polynomial of two parameters.
template <class Optimizer, class Options>
void expect_parameters(Options options, const std::vector<double>& expected) {
  const auto leaf = [](const torch::Tensor& x) { return torch::Tensor(x).requires_grad_(); };
  torch::Tensor p = leaf(torch::ones({2, 2}, flambeau::DType::float64));
  {
    const torch::NoGradGuard off;
    p[0][1].fill_(-2), p[1][0].fill_(3), p[1][1].fill_(0.5);
  }
  torch::Tensor q = leaf(torch::full({1}, 0.25, flambeau::DType::float64));
  Optimizer optimizer(std::vector<torch::Tensor>{p, q}, options);
  const auto closure = [&] {
    optimizer.zero_grad();
    torch::Tensor loss = ((p * p).sum() - 1).pow(2) + (q - p).pow(4).sum();
    loss.backward();
    return loss;
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(optimizer.step(closure).defined());
  const torch::Tensor all = torch::cat({p.flatten(), q}, 0);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(all[static_cast<int64_t>(i)].item<double>(), expected[i], 1e-9) << i;
}

TEST(Optim, MovesParametersAsPyTorchDoes) {
  expect_parameters<SGD>(
      SGDOptions(1e-3).momentum(0.9).weight_decay(0.1).nesterov(true),
      {0.500873820502, -0.585303636417, 0.945615961093, 0.255552387435, 0.441188639867});
  expect_parameters<Adam>(
      AdamOptions(0.1).amsgrad(true).weight_decay(0.1),
      {0.519527669642, -1.50681213218, 2.51257691851, 0.0406273018016, 0.630299120856});
  expect_parameters<AdamW>(
      AdamWOptions(0.1).betas({0.5, 0.9}),
      {0.550802209269, -1.51651404196, 2.52444559718, 0.0929120113404, 0.544540590993});
  expect_parameters<Adagrad>(
      AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.1),
      {0.747414255443, -1.73219162378, 2.73901322595, 0.263270041275, 0.448177548743});
  expect_parameters<RMSprop>(
      RMSpropOptions().momentum(0.9).centered(true).weight_decay(0.1),
      {0.200912242778, -1.12028865316, 2.1585860183, -0.198603836358, 0.748714660858});
  expect_parameters<Adadelta>(
      AdadeltaOptions().weight_decay(0.1),
      {0.983705238416, -1.98363334283, 2.98366986007, 0.48376092837, 0.266111618543});
  expect_parameters<Adamax>(AdamaxOptions(0.1), {0.591134812177, -1.54932965463, 2.57063483923,
                                                 0.126072679086, 0.55661325262});
  expect_parameters<ASGD>(ASGDOptions(1e-3).t0(2), {0.810546148258, -1.46849209485, 2.20851473786,
                                                    0.407361747674, 0.338141946004});
  expect_parameters<NAdam>(
      NAdamOptions(0.1).decoupled_weight_decay(true).weight_decay(0.1),
      {0.618451049367, -1.5426745948, 2.50505583046, 0.172466479829, 0.474021076256});
  expect_parameters<RAdam>(RAdamOptions(1e-4), {0.973308277928, -1.92593725655, 2.88231775653,
                                                0.487028572744, 0.26867536854});
  expect_parameters<Rprop>(RpropOptions(0.1), {0.25584, -1.25584, 2.25584, -0.0368, 0.542});
  expect_parameters<LBFGS>(
      LBFGSOptions(1e-3).max_iter(3).history_size(2),
      {0.997354935542, -1.99352010989, 2.99109134611, 0.498685562682, 0.249841210225});
  expect_parameters<LBFGS>(
      LBFGSOptions(0.5).max_iter(4).line_search_fn("strong_wolfe"),
      {0.611024026762, 0.222526744525, 0.644360978573, 0.417804503434, 0.455607411066});
}

std::vector<torch::Tensor> one_parameter() { return {torch::ones({2}).requires_grad_()}; }

TEST(Optim, GroupsInheritWhatTheyDoNotSay) {
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(one_parameter(),
                      std::make_unique<AdamOptions>(AdamOptions().weight_decay(0.5)));
  groups.emplace_back(one_parameter());
  Adam optimizer(groups, AdamOptions(0.25).eps(1e-3));
  const auto options = [&](size_t i) {
    return static_cast<const AdamOptions&>(optimizer.param_groups()[i].options());
  };
  EXPECT_EQ(options(0).weight_decay(), 0.5);
  EXPECT_EQ(options(0).lr(), 0.25);
  EXPECT_EQ(options(1).weight_decay(), 0);
  EXPECT_EQ(options(1).eps(), 1e-3);
  EXPECT_EQ(optimizer.size(), 2U);
}

TEST(Optim, TakesSparseGradientsAsPyTorchDoes) {
  const auto trained = [](bool sparse) {
    torch::manual_seed(0);
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(6, 3).sparse(sparse));
    SGD optimizer(table->parameters(), SGDOptions(0.1).momentum(0.9).dampening(0.3));
    for (int64_t i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      table->forward(torch::tensor({int64_t{0}, int64_t{2}, i})).pow(2).sum().backward();
      EXPECT_EQ(table->weight.grad().is_sparse(), sparse);
      optimizer.step();
    }
    return table->weight;
  };
  EXPECT_TRUE(torch::allclose(trained(true), trained(false)));
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(6, 3).sparse(true));
  table->forward(torch::tensor({1})).sum().backward();
  EXPECT_THROW(Adam(table->parameters()).step(), c10::Error);
}

TEST(Optim, RefusesWhatPyTorchRefuses) {
  EXPECT_THROW(SGD(one_parameter(), SGDOptions(-1)), c10::Error);
  EXPECT_THROW(SGD(one_parameter(), SGDOptions(0.1).nesterov(true)), c10::Error);
  EXPECT_THROW(Adam(one_parameter(), AdamOptions().betas({1.5, 0.9})), c10::Error);
  const auto parameter = one_parameter();
  EXPECT_THROW(Adam({OptimizerParamGroup(parameter), OptimizerParamGroup(parameter)}), c10::Error);
  EXPECT_THROW(SGD({parameter[0] * 2}, 0.1), c10::Error);
  EXPECT_THROW(LBFGS(parameter).step(nullptr), c10::Error);
}

TEST(Optim, StepLRMultipliesTheRate) {
  SGD optimizer(one_parameter(), 1.0);
  StepLR schedule(optimizer, 2, 0.5);
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    schedule.step();
    rates.push_back(optimizer.param_groups()[0].options().get_lr());
  }
  EXPECT_EQ(rates, (std::vector<double>{1, 0.5, 0.5, 0.25, 0.25}));
}

TEST(Optim, ReducesTheRateOnAPlateau) {
  SGD optimizer(one_parameter(), 1.0);
  ReduceLROnPlateauScheduler schedule(optimizer, ReduceLROnPlateauScheduler::min, 0.5, 1);
  for (const float loss : {1.F, 1.F, 1.F, 0.5F}) schedule.step(loss);
  EXPECT_NEAR(optimizer.param_groups()[0].options().get_lr(), 0.5, 1e-7);
}

TEST(Optim, SavesAndLoadsItsState) {
  const auto parameter = one_parameter();
  Adam optimizer(parameter, AdamOptions(0.25).amsgrad(true));
  (parameter[0] * 3).sum().backward();
  static_cast<void>(optimizer.step());
  const auto path = std::filesystem::temp_directory_path() / "flambeau_optimizer.pt";
  torch::save(optimizer, path.string());
  Adam other(parameter);
  torch::load(other, path.string());
  std::filesystem::remove(path);
  const auto& options = static_cast<const AdamOptions&>(other.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.25);
  const auto& state = static_cast<const AdamParamState&>(*other.state().begin()->second);
  EXPECT_EQ(state.step(), 1);
  EXPECT_TRUE(state.exp_avg().allclose(torch::full({2}, 0.3)));
  Adam two({OptimizerParamGroup(one_parameter()), OptimizerParamGroup(one_parameter())});
  torch::save(optimizer, path.string());
  EXPECT_THROW(torch::load(two, path.string()), c10::Error);
  std::filesystem::remove(path);
}

}  // namespace
