// A transformer that learns to write, letter by letter.
//
//   writer TEXT_FILE [STEPS]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace nn = torch::nn;

namespace {

constexpr int64_t context = 64, width = 64, heads = 4, letters = 128;

// Each letter sees those before it.
struct BlockImpl : nn::Module {
  nn::LayerNorm before{nullptr}, after{nullptr};
  nn::Linear qkv{nullptr}, mix{nullptr};
  nn::Sequential think{nullptr};

  BlockImpl() {
    before = register_module("before", nn::LayerNorm(nn::LayerNormOptions({width})));
    after = register_module("after", nn::LayerNorm(nn::LayerNormOptions({width})));
    qkv = register_module("qkv", nn::Linear(width, 3 * width));
    mix = register_module("mix", nn::Linear(width, width));
    think = register_module("think", nn::Sequential(nn::Linear(width, 4 * width), nn::GELU(),
                                                    nn::Linear(4 * width, width)));
  }
  torch::Tensor forward(torch::Tensor x) {
    const int64_t batch = x.size(0), length = x.size(1);
    const auto parts = qkv(before(x)).view({batch, length, 3, heads, -1}).permute({2, 0, 3, 1, 4});
    const torch::Tensor seen = torch::scaled_dot_product_attention(
        parts[0], parts[1], parts[2], {}, /*dropout_p=*/0.0, /*is_causal=*/true);
    x = x + mix(seen.transpose(1, 2).reshape({batch, length, width}));
    return x + think->forward(after(x));
  }
};
TORCH_MODULE(Block);

struct WriterImpl : nn::Module {
  nn::Embedding letter{nullptr}, position{nullptr};
  nn::Sequential blocks{nullptr};
  nn::Linear next{nullptr};

  WriterImpl() {
    letter = register_module("letter", nn::Embedding(letters, width));
    position = register_module("position", nn::Embedding(context, width));
    blocks = register_module("blocks", nn::Sequential(Block(), Block()));
    next = register_module("next", nn::Linear(width, letters));
  }
  torch::Tensor forward(const torch::Tensor& text) {
    const torch::Tensor at = torch::arange(text.size(1), torch::kInt64);
    return next(blocks->forward(letter(text) + position(at)));
  }
};
TORCH_MODULE(Writer);

torch::Tensor read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  torch::Tensor numbers = torch::empty({static_cast<int64_t>(text.size())}, torch::kInt64);
  for (size_t i = 0; i < text.size(); ++i) numbers.data_ptr<int64_t>()[i] = text[i] & 127;
  return numbers;
}

std::string write(Writer& model, const std::string& start, int length) {
  const torch::NoGradGuard off;
  std::string text = start;
  for (int i = 0; i < length; ++i) {
    const std::string last = text.substr(text.size() - std::min<size_t>(text.size(), context));
    torch::Tensor seen = torch::empty({1, static_cast<int64_t>(last.size())}, torch::kInt64);
    for (size_t j = 0; j < last.size(); ++j) seen.data_ptr<int64_t>()[j] = last[j];
    const torch::Tensor chances = model(seen)[0][-1].softmax(0);
    text += static_cast<char>(chances.multinomial(1).item<int64_t>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: writer TEXT_FILE [STEPS]\n"), 1;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 1000;
  const torch::Tensor text = read(argv[1]);
  if (text.numel() <= context) return std::fprintf(stderr, "the text is too short\n"), 1;
  torch::manual_seed(0);
  Writer model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  for (int step = 0; step <= steps; ++step) {
    const torch::Tensor starts = torch::randint(text.numel() - context, {32, 1});
    const torch::Tensor chosen = text.index({starts + torch::arange(context + 1)});
    const torch::Tensor guesses = model(chosen.narrow(1, 0, context));
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        guesses.reshape({-1, letters}), chosen.narrow(1, 1, context).reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    if (step % 100 == 0) std::printf("step %d: loss %.3f\n", step, loss.item<double>());
  }
  std::printf("%s\n", write(model, "The ", 200).c_str());
}
