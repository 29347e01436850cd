// Training loops as C++ programs have them, one text for Flambeau and for libtorch; side_by_side.py
// next to it builds this against both and compares.
//
//   loops FOLDER                     write digits of noise, in MNIST's format
//   loops FOLDER THREADS SECONDS ROW microseconds of a step: of the clock, and of the process's
//   CPUs
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace data = torch::data;
using torch::Tensor;

std::string folder;                   // of the digits
using Step = std::function<float()>;  // one step of training; the loss

// --- The digits ----------------------------------------------------------------------------------

constexpr int count = 10000, side = 28;

void write_digits() {
  const auto number = [](std::ostream& file, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
  };
  std::mt19937 random;
  std::ofstream images(folder + "/t10k-images-idx3-ubyte", std::ios::binary);
  for (const uint32_t value : {2051, count, side, side}) number(images, value);
  for (int i = 0; i < count * side * side; ++i) images.put(static_cast<char>(random()));
  std::ofstream labels(folder + "/t10k-labels-idx1-ubyte", std::ios::binary);
  for (const uint32_t value : {2049, count}) number(labels, value);
  for (int i = 0; i < count; ++i) labels.put(static_cast<char>(random() % 10));
}

// Batches of digits, one after the other.
template <class Sampler>
class Digits {
 public:
  explicit Digits(int64_t batch, int workers = 0)
      : loader_(data::make_data_loader<Sampler>(
            dataset(), data::DataLoaderOptions(batch).workers(workers).drop_last(true))),
        at_(loader_->begin()) {}
  data::Example<> next() {
    if (at_ == loader_->end()) at_ = loader_->begin();
    data::Example<> batch = *at_;
    ++at_;
    return batch;
  }

 private:
  static auto dataset() {
    return data::datasets::MNIST(folder, data::datasets::MNIST::Mode::kTest)
        .map(data::transforms::Normalize<>(0.1307, 0.3081))
        .map(data::transforms::Stack<>());
  }
  using Loader = decltype(data::make_data_loader<Sampler>(dataset(), data::DataLoaderOptions()));
  Loader loader_;
  decltype(std::declval<Loader>()->begin()) at_;
};
using InOrder = Digits<data::samplers::SequentialSampler>;
using Shuffled = Digits<data::samplers::RandomSampler>;

// --- Small networks ------------------------------------------------------------------------------

template <class Optimizer>
Step mlp(double rate) {
  nn::Sequential model(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(),
                       nn::Linear(128, 10));
  auto optimizer = std::make_shared<Optimizer>(model->parameters(), rate);
  const Tensor x = torch::randn({16, 64}), y = torch::randint(10, {16});
  return [=]() mutable {
    optimizer->zero_grad();
    const Tensor loss = F::cross_entropy(model->forward(x), y);
    loss.backward();
    optimizer->step();
    return 0.0F;
  };
}

Step linear_regression() {
  const Tensor x = torch::rand({15, 1}) * 10, y = torch::rand({15, 1}) * 3;
  nn::Linear model(1, 1);
  auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.001));
  return [=]() mutable {
    Tensor output = model(x);
    Tensor loss = F::mse_loss(output, y);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

// A polynomial, fitted with a step written out by hand.
Step polynomial() {
  const Tensor weight = torch::randn({4, 1}) * 5, bias = torch::randn({1}) * 5;
  nn::Linear model(4, 1);
  return [=]() mutable {
    const Tensor base = torch::randn({32}).unsqueeze(1);
    std::vector<Tensor> powers;
    for (int64_t power = 1; power <= 4; ++power) powers.push_back(base.pow(power));
    const Tensor x = torch::cat(powers, 1), y = x.mm(weight) + bias.item();
    model->zero_grad();
    Tensor loss = torch::smooth_l1_loss(model(x), y);
    const auto value = loss.item<float>();
    loss.backward();
    for (auto& parameter : model->parameters())
      parameter.data().add_(parameter.grad().data(), -0.1);
    return value;
  };
}

// An agent that acts one state at a time, and then learns from what it did.
struct ActorCriticImpl : nn::Module {
  ActorCriticImpl()
      : body(register_module("body", nn::Linear(4, 64))),
        actor(register_module("actor", nn::Linear(64, 2))),
        critic(register_module("critic", nn::Linear(64, 1))) {}
  std::pair<Tensor, Tensor> forward(const Tensor& state) {
    const Tensor hidden = torch::tanh(body->forward(state));
    return {torch::softmax(actor->forward(hidden), -1), critic->forward(hidden)};
  }
  nn::Linear body, actor, critic;
};
TORCH_MODULE(ActorCritic);

Step agent() {
  ActorCritic model;
  auto optimizer =
      std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
  return [=]() mutable {
    std::vector<Tensor> states, actions, rewards;
    Tensor state = torch::zeros({4});
    for (int i = 0; i < 32; ++i) {
      const torch::NoGradGuard unrecorded;
      const Tensor action = torch::multinomial(model->forward(state).first, 1);
      states.push_back(state);
      actions.push_back(action);
      rewards.push_back(torch::tensor(action.item<int64_t>() == 0 ? 1.0F : 0.0F));
      float values[4];
      for (int64_t j = 0; j < 4; ++j) values[j] = state[j].item<float>() * 0.9F + 0.1F;
      state = torch::from_blob(values, {4}).clone();
    }
    const auto [policy, value] = model->forward(torch::stack(states));
    const Tensor chosen = policy.gather(1, torch::stack(actions)).squeeze(1);
    const Tensor advantage = torch::stack(rewards) - value.squeeze(1);
    Tensor loss = -(chosen.log() * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean();
    optimizer->zero_grad();
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer->step();
    return loss.item<float>();
  };
}

// --- Digits --------------------------------------------------------------------------------------

Step feedforward() {
  nn::Sequential model(nn::Linear(784, 500), nn::ReLU(), nn::Linear(500, 10));
  auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.001));
  auto digits = std::make_shared<Shuffled>(100);
  return [=]() mutable {
    const auto batch = digits->next();
    Tensor output = model->forward(batch.data.view({100, -1}));
    Tensor loss = F::cross_entropy(output, batch.target);
    const auto value = loss.item<double>();
    const Tensor right = output.argmax(1).eq(batch.target).sum();
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return static_cast<float>(value) + 0 * static_cast<float>(right.item<int64_t>());
  };
}

struct ConvNetImpl : nn::Module {
  ConvNetImpl() : conv1(1, 10, 5), conv2(10, 20, 5), linear1(320, 50), linear2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("drop", drop);
    register_module("linear1", linear1);
    register_module("linear2", linear2);
  }
  Tensor forward(Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(drop->forward(conv2->forward(x)), 2)).view({-1, 320});
    x = torch::dropout(torch::relu(linear1->forward(x)), 0.5, is_training());
    return torch::log_softmax(linear2->forward(x), 1);
  }
  nn::Conv2d conv1, conv2;
  nn::Dropout2d drop;
  nn::Linear linear1, linear2;
};
TORCH_MODULE(ConvNet);

Step mnist(int workers) {
  ConvNet model;
  auto optimizer = std::make_shared<torch::optim::SGD>(
      model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  auto digits = std::make_shared<InOrder>(64, workers);
  return [=]() mutable {
    const auto batch = digits->next();
    optimizer->zero_grad();
    Tensor loss = torch::nll_loss(model(batch.data), batch.target);
    const auto value = loss.item<float>();
    loss.backward();
    optimizer->step();
    return value;
  };
}

Step batch_normed() {
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(1, 16, 5).padding(2)), nn::BatchNorm2d(16),
                       nn::ReLU(), nn::MaxPool2d(2),
                       nn::Conv2d(nn::Conv2dOptions(16, 32, 5).padding(2)), nn::BatchNorm2d(32),
                       nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(32 * 7 * 7, 10));
  auto optimizer =
      std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
  auto digits = std::make_shared<Shuffled>(50);
  return [=]() mutable {
    const auto batch = digits->next();
    Tensor loss = F::cross_entropy(model->forward(batch.data), batch.target);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

struct RecurrentImpl : nn::Module {
  RecurrentImpl()
      : lstm(register_module("lstm",
                             nn::LSTM(nn::LSTMOptions(28, 128).num_layers(2).batch_first(true)))),
        linear(register_module("linear", nn::Linear(128, 10))) {}
  Tensor forward(const Tensor& x) {
    const Tensor output = std::get<0>(lstm->forward(x));
    return linear(output.index({torch::indexing::Slice(), -1}));
  }
  nn::LSTM lstm;
  nn::Linear linear;
};
TORCH_MODULE(Recurrent);

Step lstm() {
  Recurrent model;
  auto optimizer =
      std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(0.01));
  auto digits = std::make_shared<Shuffled>(100);
  return [=]() mutable {
    const auto batch = digits->next();
    Tensor loss = F::cross_entropy(model(batch.data.squeeze(1)), batch.target);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

Step gan() {
  constexpr int64_t batch = 100, noise = 64;
  nn::Sequential judge(
      nn::Linear(784, 256), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Linear(256, 256), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Linear(256, 1), nn::Sigmoid());
  nn::Sequential maker(nn::Linear(noise, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(),
                       nn::Linear(256, 784), nn::Tanh());
  const auto options = torch::optim::AdamOptions(2e-4);
  auto judges = std::make_shared<torch::optim::Adam>(judge->parameters(), options);
  auto makes = std::make_shared<torch::optim::Adam>(maker->parameters(), options);
  auto digits = std::make_shared<Shuffled>(batch);
  return [=]() mutable {
    const Tensor images = digits->next().data.reshape({batch, -1});
    const Tensor real = torch::ones({batch, 1}), fake = torch::zeros({batch, 1});
    Tensor made = maker->forward(torch::randn({batch, noise}));
    Tensor loss = F::binary_cross_entropy(judge->forward(images), real) +
                  F::binary_cross_entropy(judge->forward(made.detach()), fake);
    judges->zero_grad();
    loss.backward();
    judges->step();
    made = maker->forward(torch::randn({batch, noise}));
    Tensor fooled = F::binary_cross_entropy(judge->forward(made), real);
    makes->zero_grad();
    fooled.backward();
    makes->step();
    return loss.item<float>() + fooled.item<float>();
  };
}

struct AutoencoderImpl : nn::Module {
  AutoencoderImpl() : in(784, 400), mean(400, 20), spread(400, 20), middle(20, 400), out(400, 784) {
    register_module("in", in);
    register_module("mean", mean);
    register_module("spread", spread);
    register_module("middle", middle);
    register_module("out", out);
  }
  std::vector<Tensor> forward(const Tensor& x) {
    const Tensor hidden = torch::relu(in(x)), mu = mean(hidden), log_var = spread(hidden);
    const Tensor z = mu + torch::exp(log_var / 2) * torch::randn_like(mu);
    return {torch::sigmoid(out(torch::relu(middle(z)))), mu, log_var};
  }
  nn::Linear in, mean, spread, middle, out;
};
TORCH_MODULE(Autoencoder);

Step autoencoder() {
  Autoencoder model;
  auto optimizer =
      std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
  const Tensor images = torch::rand({100, 784});
  return [=]() mutable {
    const auto out = model(images);
    const Tensor error = F::binary_cross_entropy(
        out[0], images, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
    const Tensor divergence = -0.5 * torch::sum(1 + out[2] - out[1].pow(2) - out[2].exp());
    Tensor loss = error + divergence;
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

Step dcgan() {
  const auto deconv = [](int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
    return nn::ConvTranspose2d(
        nn::ConvTranspose2dOptions(in, out, kernel).stride(stride).padding(padding).bias(false));
  };
  nn::Sequential model(deconv(32, 64, 4, 1, 0), nn::BatchNorm2d(64), nn::ReLU(),
                       deconv(64, 32, 3, 2, 1), nn::BatchNorm2d(32), nn::ReLU(),
                       deconv(32, 16, 4, 2, 1), nn::BatchNorm2d(16), nn::ReLU(),
                       deconv(16, 1, 4, 2, 1), nn::Tanh());
  auto optimizer = std::make_shared<torch::optim::Adam>(
      model->parameters(), torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.5)));
  const Tensor target = torch::rand({32, 1, 28, 28});
  return [=]() mutable {
    Tensor loss = torch::mse_loss(model->forward(torch::randn({32, 32, 1, 1})), target);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

// --- Text ----------------------------------------------------------------------------------------

struct WriterImpl : nn::Module {
  WriterImpl()
      : embedding(register_module("embedding", nn::Embedding(words, width))),
        encoder(register_module(
            "encoder",
            nn::TransformerEncoder(nn::TransformerEncoderOptions(
                nn::TransformerEncoderLayer(
                    nn::TransformerEncoderLayerOptions(width, 4).dim_feedforward(4 * width)),
                2)))),
        head(register_module("head", nn::Linear(width, words))) {}
  Tensor forward(const Tensor& text, const Tensor& mask) {
    return head(encoder(embedding(text) * std::sqrt(width), mask));
  }
  static constexpr int64_t words = 500, width = 64;
  nn::Embedding embedding;
  nn::TransformerEncoder encoder;
  nn::Linear head;
};
TORCH_MODULE(Writer);

Step transformer() {
  constexpr int64_t length = 32, batch = 16;
  Writer model;
  auto optimizer =
      std::make_shared<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-3));
  const Tensor text = torch::randint(WriterImpl::words, {length + 1, batch});
  const Tensor mask =
      torch::full({length, length}, -std::numeric_limits<float>::infinity()).triu(1);
  return [=]() mutable {
    const Tensor output = model(text.slice(0, 0, length), mask);
    Tensor loss =
        F::cross_entropy(output.view({-1, WriterImpl::words}), text.slice(0, 1).reshape({-1}));
    optimizer->zero_grad();
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer->step();
    return loss.item<float>();
  };
}

// Attention written out of products, as those who learn it write it.
struct BlockImpl : nn::Module {
  BlockImpl()
      : projections(register_module("projections", nn::Linear(width, 3 * width))),
        out(register_module("out", nn::Linear(width, width))),
        first(register_module("first", nn::LayerNorm(nn::LayerNormOptions({width})))),
        second(register_module("second", nn::LayerNorm(nn::LayerNormOptions({width})))),
        wide(register_module("wide", nn::Sequential(nn::Linear(width, 4 * width), nn::GELU(),
                                                    nn::Linear(4 * width, width)))) {}
  Tensor forward(Tensor x, const Tensor& mask) {
    const int64_t batch = x.size(0), length = x.size(1);
    const auto parts = projections(first(x)).chunk(3, -1);
    const auto split = [&](const Tensor& part) {
      return part.view({batch, length, heads, width / heads}).transpose(1, 2);
    };
    Tensor scores = torch::matmul(split(parts[0]), split(parts[1]).transpose(-2, -1)) /
                    std::sqrt(static_cast<double>(width / heads));
    scores = scores.masked_fill(mask == 0, -1e9).softmax(-1);
    const Tensor mixed = torch::matmul(scores, split(parts[2]));
    x = x + out(mixed.transpose(1, 2).contiguous().view({batch, length, width}));
    return x + wide->forward(second(x));
  }
  static constexpr int64_t width = 64, heads = 4;
  nn::Linear projections, out;
  nn::LayerNorm first, second;
  nn::Sequential wide;
};
TORCH_MODULE(Block);

Step attention() {
  constexpr int64_t length = 32, batch = 16;
  nn::ModuleList blocks(Block{}, Block{});
  auto optimizer =
      std::make_shared<torch::optim::Adam>(blocks->parameters(), torch::optim::AdamOptions(1e-3));
  const Tensor input = torch::randn({batch, length, BlockImpl::width});
  const Tensor mask = torch::ones({length, length}).tril();
  return [=]() mutable {
    Tensor x = input;
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x, mask);
    Tensor loss = (x - input).pow(2).mean();
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

// A gated unit that reads one letter at a time.
Step letters() {
  nn::Embedding embedding(60, 32);
  nn::GRUCell cell(32, 64);
  nn::Linear head(64, 60);
  std::vector<Tensor> parameters;
  for (const auto& some : {embedding->parameters(), cell->parameters(), head->parameters()})
    parameters.insert(parameters.end(), some.begin(), some.end());
  auto optimizer =
      std::make_shared<torch::optim::RMSprop>(parameters, torch::optim::RMSpropOptions(1e-3));
  const Tensor text = torch::randint(60, {21, 1});
  return [=]() mutable {
    Tensor hidden = torch::zeros({1, 64}), loss = torch::zeros({});
    for (int64_t i = 0; i < 20; ++i) {
      hidden = cell(embedding(text[i]), hidden);
      loss = loss + F::cross_entropy(head(hidden), text[i + 1]);
    }
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss.item<float>();
  };
}

const std::map<std::string, Step (*)()> rows = {
    {"mlp, SGD", [] { return mlp<torch::optim::SGD>(1e-3); }},
    {"mlp, Adam", [] { return mlp<torch::optim::Adam>(1e-3); }},
    {"linear regression", linear_regression},
    {"polynomial", polynomial},
    {"agent", agent},
    {"feedforward", feedforward},
    {"mnist", [] { return mnist(0); }},
    {"mnist, 2 workers", [] { return mnist(2); }},
    {"batch-normed", batch_normed},
    {"lstm", lstm},
    {"gan", gan},
    {"autoencoder", autoencoder},
    {"dcgan", dcgan},
    {"transformer", transformer},
    {"attention", attention},
    {"letters", letters},
};

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const auto& row : rows) std::puts(row.first.c_str());
    return 0;
  }
  folder = argv[1];
  if (folder == "hello") {
    std::cout << torch::rand({2, 3}) << '\n';
    return 0;
  }
  if (argc < 5) {
    write_digits();
    return 0;
  }
  torch::set_num_threads(std::stoi(argv[2]));
  const double seconds = std::stod(argv[3]);
  torch::manual_seed(0);
  const Step step = rows.at(argv[4])();
  for (int i = 0; i < 5; ++i) step();

  // Many short turns: on a busy machine some of them are not interrupted.
  double wall = 1e9, cpu = 1e9, loss = 0;
  const double end = seconds_of(CLOCK_MONOTONIC) + seconds;
  int steps = 1;
  while (seconds_of(CLOCK_MONOTONIC) < end) {
    const double wall_start = seconds_of(CLOCK_MONOTONIC);
    const double cpu_start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < steps; ++i) loss = step();
    const double took = seconds_of(CLOCK_MONOTONIC) - wall_start;
    wall = std::min(wall, took / steps);
    cpu = std::min(cpu, (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / steps);
    if (took < 0.02) steps *= 2;
  }
  std::printf("%.2f %.2f %g\n", wall * 1e6, cpu * 1e6, loss);
}
