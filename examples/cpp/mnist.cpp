// Trains a small convolutional network on handwritten digits.
//
//   mnist FOLDER [EPOCHS]      FOLDER holds the four files of MNIST
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr};

  Net() {
    first = register_module("first", torch::nn::Conv2d(1, 10, 5));
    second = register_module("second", torch::nn::Conv2d(10, 20, 5));
    hidden = register_module("hidden", torch::nn::Linear(320, 50));
    out = register_module("out", torch::nn::Linear(50, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x), {2}));
    x = torch::relu(torch::max_pool2d(second(x), {2}));
    return torch::log_softmax(out(torch::relu(hidden(x.flatten(1)))), 1);
  }
};

using MNIST = torch::data::datasets::MNIST;

auto digits(const std::string& folder, MNIST::Mode mode) {
  return MNIST(folder, mode)
      .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
      .map(torch::data::transforms::Stack<>());
}

double accuracy(Net& net, const std::string& folder) {
  const torch::NoGradGuard off;
  net.eval();
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      digits(folder, MNIST::Mode::kTest), 1000);
  int64_t right = 0, all = 0;
  for (auto& batch : *loader) {
    right += net.forward(batch.data).argmax(1).eq(batch.target).sum().item<int64_t>();
    all += batch.target.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: mnist FOLDER [EPOCHS]\n"), 1;
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
  torch::manual_seed(1);
  Net net;
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  auto loader =
      torch::data::make_data_loader(digits(argv[1], MNIST::Mode::kTrain),
                                    torch::data::DataLoaderOptions().batch_size(64).workers(1));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    net.train();
    double loss_sum = 0;
    int64_t batches = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const torch::Tensor loss = torch::nll_loss(net.forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      ++batches;
    }
    std::printf("epoch %d: loss %.4f, accuracy %.4f\n", epoch,
                loss_sum / static_cast<double>(batches), accuracy(net, argv[1]));
  }
}
