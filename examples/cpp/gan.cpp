// Two networks against each other: a generator learns to draw points of a ring from noise, while a
// discriminator learns to tell them from true ones. Each has an optimizer of its own.
#include <torch/torch.h>

#include <cstdio>

namespace nn = torch::nn;

namespace {

torch::Tensor ring(int64_t count) {
  const torch::Tensor angle = torch::rand({count}) * 6.283185307;
  return torch::stack({angle.cos(), angle.sin()}, 1) + torch::randn({count, 2}) * 0.05;
}

// How far points lie from the ring on average.
double distance(nn::Sequential& generator) {
  const torch::NoGradGuard off;
  const torch::Tensor points = generator->forward(torch::randn({1000, 8}));
  return (points.square().sum(1).sqrt() - 1).abs().mean().item<double>();
}

}  // namespace

int main() {
  torch::manual_seed(0);
  nn::Sequential generator(nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(),
                           nn::Linear(32, 2));
  nn::Sequential discriminator(
      nn::Linear(2, 32), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Linear(32, 32), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Linear(32, 1));
  torch::optim::Adam improve(generator->parameters(),
                             torch::optim::AdamOptions(1e-3).betas({0.5, 0.9}));
  torch::optim::Adam detect(discriminator->parameters(),
                            torch::optim::AdamOptions(1e-3).betas({0.5, 0.9}));
  nn::BCEWithLogitsLoss loss;
  const torch::Tensor real = torch::ones({128, 1}), fake = torch::zeros({128, 1});

  std::printf("before: points lie %.3f from the ring\n", distance(generator));
  for (int step = 0; step < 2000; ++step) {
    const torch::Tensor made = generator->forward(torch::randn({128, 8}));

    detect.zero_grad();
    const torch::Tensor mistakes = loss(discriminator->forward(ring(128)), real) +
                                   loss(discriminator->forward(made.detach()), fake);
    mistakes.backward();
    detect.step();

    improve.zero_grad();
    loss(discriminator->forward(made), real).backward();
    improve.step();
  }
  std::printf("after: points lie %.3f from the ring\n", distance(generator));
}
