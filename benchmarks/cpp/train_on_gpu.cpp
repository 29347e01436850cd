// Trains two networks for images on a GPU as train_on_gpu.py does in Python, and prints the
// milliseconds of a step in the best of some rounds, and the last loss.
//
//   train_on_gpu [cuda|cpu] [ROUNDS]
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

namespace nn = torch::nn;

struct DigitsImpl : nn::Module {
  nn::Conv2d first{nn::Conv2dOptions(1, 10, 5)}, second{nn::Conv2dOptions(10, 20, 5)};
  nn::Linear hidden{320, 50}, out{50, 10};

  DigitsImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("hidden", hidden);
    register_module("out", out);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x), {2}));
    x = torch::relu(torch::max_pool2d(second(x), {2}));
    return out(torch::relu(hidden(x.flatten(1))));
  }
};
TORCH_MODULE(Digits);

void add_convolution(nn::Sequential& layers, int64_t in, int64_t out, int64_t kernel,
                     int64_t stride = 1) {
  layers->push_back(nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false)));
  layers->push_back(nn::BatchNorm2d(out));
}

struct BottleneckImpl : nn::Module {
  nn::Sequential body, skip;

  BottleneckImpl(int64_t in, int64_t width, int64_t stride) {
    add_convolution(body, in, width, 1);
    body->push_back(nn::ReLU(nn::ReLUOptions(true)));
    add_convolution(body, width, width, 3, stride);
    body->push_back(nn::ReLU(nn::ReLUOptions(true)));
    add_convolution(body, width, 4 * width, 1);
    if (in != 4 * width || stride != 1) add_convolution(skip, in, 4 * width, 1, stride);
    register_module("body", body);
    register_module("skip", skip);
  }
  torch::Tensor forward(torch::Tensor x) {
    return torch::relu(body->forward(x) + (skip->is_empty() ? x : skip->forward(x)));
  }
};
TORCH_MODULE(Bottleneck);

nn::Sequential resnet50() {
  nn::Sequential net;
  add_convolution(net, 3, 64, 7, 2);
  net->push_back(nn::ReLU(nn::ReLUOptions(true)));
  net->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
  const int64_t stages[][3] = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};
  int64_t in = 64;
  for (const auto& [width, count, stride] : stages) {
    for (int64_t i = 0; i < count; ++i) {
      net->push_back(Bottleneck(in, width, i == 0 ? stride : 1));
      in = 4 * width;
    }
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(2048, 1000));
  return net;
}

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

template <class Net>
void train(const char* name, Net net, torch::IntArrayRef shape, int64_t classes,
           torch::Device device, int rounds, int steps) {
  net->to(device);
  const torch::Tensor x = torch::randn(shape).to(device);
  const torch::Tensor target = torch::randint(classes, {shape[0]}, torch::kLong).to(device);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  torch::Tensor loss;
  double best = 1e9;
  for (int round = 0; round <= rounds; ++round) {  // the first one warms up
    const double start = seconds();
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      loss = nn::functional::cross_entropy(net->forward(x), target);
      loss.backward();
      optimizer.step();
    }
    (void)loss.template item<float>();  // waits for the device
    if (round > 0) best = std::min(best, (seconds() - start) / steps);
  }
  std::printf("%-10s %9.3f ms a step, loss %.4f\n", name, best * 1e3, loss.template item<float>());
}

}  // namespace

int main(int argc, char** argv) {
  const torch::Device device(argc > 1 ? argv[1] : "cuda");
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const bool small = device.is_cpu();
  torch::manual_seed(0);
  train("mnist", Digits(), {64, 1, 28, 28}, 10, device, rounds, small ? 20 : 500);
  train("resnet50", resnet50(), {small ? 2 : 128, 3, 224, 224}, 1000, device, rounds,
        small ? 1 : 20);
}
