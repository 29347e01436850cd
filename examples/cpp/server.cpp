// A server of predictions: eight threads answer requests with one model, which nobody writes to.
// The model comes from a file that Python wrote with torch.save(model.state_dict(), path), if one
// is given.
//
//   server [STATE_DICT]
#include <torch/torch.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace {

class Server {
 public:
  Server(torch::nn::Sequential model, int threads) : model_(std::move(model)) {
    model_->eval();
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Server() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  std::future<torch::Tensor> ask(torch::Tensor input) {
    Request request{std::move(input), {}};
    std::future<torch::Tensor> answer = request.answer.get_future();
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
    }
    arrived_.notify_one();
    return answer;
  }

 private:
  struct Request {
    torch::Tensor input;
    std::promise<torch::Tensor> answer;
  };
  std::optional<Request> take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return closed_ || !requests_.empty(); });
    if (requests_.empty()) return {};
    Request request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  void serve() {
    const torch::InferenceMode inference;  // a mode of this thread
    while (auto request = take()) {
      try {
        request->answer.set_value(model_->forward(request->input));
      } catch (...) {  // a wrong shape is the asker's error, not the server's
        request->answer.set_exception(std::current_exception());
      }
    }
  }

  torch::nn::Sequential model_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Request> requests_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char** argv) {
  namespace nn = torch::nn;
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 10));
  if (argc > 1) torch::load(model, std::string(argv[1]));
  Server server(model, 8);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<torch::Tensor>> answers;
  for (int i = 0; i < 2000; ++i) answers.push_back(server.ask(torch::randn({1, 64})));
  double sum = 0;
  for (auto& answer : answers) sum += answer.get().softmax(1).sum().item<double>();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("answered %.0f requests, %.0f a second\n", sum, 2000 / seconds.count());
  try {
    server.ask(torch::randn({1, 63})).get();
  } catch (const torch::Error& error) {
    std::printf("a request of the wrong size: %s\n", error.what());
  }
}
