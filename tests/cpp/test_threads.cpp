// Programs of several threads: each with a model of its own, and all with one. Under
// ThreadSanitizer (the tsan preset) they also show that nothing is written behind their backs.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int threads = 8, steps = 100;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(body, i);
  for (std::thread& thread : running) thread.join();
}

nn::Sequential network(uint64_t seed) {
  torch::manual_seed(seed);
  return nn::Sequential(nn::Linear(20, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Linear(32, 16),
                        nn::Tanh(), nn::Linear(16, 3));
}

std::vector<Tensor> train(nn::Sequential model, const Tensor& x, const Tensor& classes) {
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    nn::functional::cross_entropy(model->forward(x), classes).backward();
    optimizer.step();
  }
  return model->parameters();
}

bool equal(const std::vector<Tensor>& some, const std::vector<Tensor>& others) {
  bool same = some.size() == others.size();
  for (size_t i = 0; same && i < some.size(); ++i) same = torch::equal(some[i], others[i]);
  return same;
}

TEST(ThreadedPrograms, TrainModelsAsIfAlone) {
  const Tensor x = torch::randn({16, 20}), classes = torch::randint(3, {16});
  std::vector<nn::Sequential> models;
  for (int i = 0; i < threads; ++i) models.push_back(network(i));
  std::vector<std::vector<Tensor>> trained(threads);
  in_threads([&](int i) { trained[i] = train(models[i], x, classes); });
  for (int i = 0; i < threads; ++i) EXPECT_TRUE(equal(trained[i], train(network(i), x, classes)));
}

TEST(ThreadedPrograms, ShareAModel) {
  const Tensor images = torch::randn({4, 1, 8, 8});
  nn::Sequential model(nn::Conv2d(1, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2),
                       nn::Flatten(), nn::Linear(36, 3));
  model->eval();
  const Tensor expected = model->forward(images).detach();
  const std::vector<Tensor> gradients =
      torch::autograd::grad({model->forward(images).sum()}, model->parameters());
  std::vector<int> right(threads);
  in_threads([&](int i) {
    for (int step = 0; step < steps; ++step) {
      if (step % 10 == 0) {
        const Tensor sum = model->forward(images).sum();
        right[i] += equal(torch::autograd::grad({sum}, model->parameters()), gradients);
      } else {
        const torch::InferenceMode inference;
        right[i] += torch::equal(model->forward(images), expected);
      }
    }
  });
  EXPECT_EQ(right, std::vector<int>(threads, steps));
}

// Everything at once: the first of each op, numbers of the one generator, loaders' own threads,
// files.
TEST(ThreadedPrograms, DoAllElseSideBySide) {
  struct Numbers : torch::data::Dataset<Numbers> {
    torch::data::Example<> get(size_t index) override {
      return {torch::randn({10}) + static_cast<double>(index), torch::full({1}, 1.0)};
    }
    [[nodiscard]] std::optional<size_t> size() const override { return 64; }
  };
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  std::vector<int> right(threads);
  in_threads([&](int i) {
    nn::Sequential model(nn::Linear(10, 20), nn::Dropout(0.5),
                         nn::LayerNorm(nn::LayerNormOptions({20})), nn::GELU(), nn::Linear(20, 1));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
    auto loader =
        torch::data::make_data_loader(Numbers().map(torch::data::transforms::Stack<>()),
                                      torch::data::DataLoaderOptions().batch_size(8).workers(2));
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::mse_loss(model->forward(batch.data), batch.target).backward();
      nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
    }
    const std::string path =
        folder / ("flambeau-" + std::to_string(getpid()) + "-" + std::to_string(i) + ".pt");
    torch::save(model, path);
    nn::Sequential copy(nn::Linear(10, 20), nn::Dropout(0.5),
                        nn::LayerNorm(nn::LayerNormOptions({20})), nn::GELU(), nn::Linear(20, 1));
    torch::load(copy, path);
    std::filesystem::remove(path);
    right[i] = equal(copy->parameters(), model->parameters());
  });
  EXPECT_EQ(right, std::vector<int>(threads, 1));
}

}  // namespace
