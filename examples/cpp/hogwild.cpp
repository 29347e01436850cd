// Threads that train one model without locks (Hogwild): each has its own gradients and optimizer,
// and all write into the same parameters.
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace {

struct Regression : torch::nn::Cloneable<Regression> {
  torch::nn::Linear layer{nullptr};
  Regression() { Regression::reset(); }
  void reset() override { layer = register_module("layer", torch::nn::Linear(10, 1)); }
  torch::Tensor forward(const torch::Tensor& x) { return layer(x); }
};

// A copy whose parameters are the memory of the original's.
std::shared_ptr<Regression> share(const Regression& model) {
  auto copy = std::dynamic_pointer_cast<Regression>(model.clone());
  const auto from = model.parameters();
  auto to = copy->parameters();
  for (size_t i = 0; i < to.size(); ++i) to[i].set_data(from[i]);
  return copy;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  const torch::Tensor truth = torch::arange(10, torch::kFloat32).view({10, 1});
  Regression model;
  const auto loss_of = [&](Regression& one) {
    const torch::Tensor x = torch::randn({32, 10});
    return torch::mse_loss(one.forward(x), x.mm(truth));
  };
  std::printf("before: loss %.4f\n", loss_of(model).item<double>());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto mine = share(model);
      torch::optim::SGD optimizer(mine->parameters(), 0.01);
      for (int step = 0; step < 1000; ++step) {
        optimizer.zero_grad();
        loss_of(*mine).backward();
        optimizer.step();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("after: loss %.4f\n", loss_of(model).item<double>());
}
