#include "flambeau/data/workers.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace flambeau::torch::data {
namespace {

std::string sentence(const std::exception_ptr& original) {
  std::string text = "Caught exception in DataLoader worker thread.";
  try {
    std::rethrow_exception(original);
  } catch (const std::exception& error) {
    text += std::string(" Original message: ") + error.what();
  } catch (...) {  // not an exception class: there is no message
  }
  return text;
}

}  // namespace

WorkerException::WorkerException(std::exception_ptr original)
    : Error(sentence(original)), original_exception(std::move(original)) {}

struct Workers::State {
  struct Result {
    Value batch;
    std::exception_ptr exception;
  };

  void work(const Serve& serve) {
    std::unique_lock lock(mutex);
    while (true) {
      has_requests.wait(lock, [&] { return closed || !requests.empty(); });
      if (closed) return;
      const auto [number, request] = std::move(requests.front());
      requests.pop_front();
      ++running;
      lock.unlock();
      Result result;
      try {
        result.batch = serve(request);
      } catch (...) {
        result.exception = std::current_exception();
      }
      lock.lock();
      --running;
      results.emplace(number, std::move(result));
      has_results.notify_all();
    }
  }

  mutable std::mutex mutex;
  std::condition_variable has_requests, has_results;
  std::deque<std::pair<size_t, Value>> requests;
  std::map<size_t, Result> results;  // by the number of their request
  size_t pushed = 0, popped = 0, running = 0;
  bool closed = false;
  std::vector<std::thread> threads;
};

Workers::Workers() : state_(std::make_unique<State>()) {}
Workers::~Workers() { join(); }

void Workers::start(Serve serve) {
  state_->threads.emplace_back(
      [state = state_.get(), serve = std::move(serve)] { state->work(serve); });
}

bool Workers::empty() const noexcept { return state_->threads.empty(); }

size_t Workers::in_flight() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pushed - state_->popped;
}

void Workers::push(Value request) {
  const std::lock_guard lock(state_->mutex);
  state_->requests.emplace_back(state_->pushed++, std::move(request));
  state_->has_requests.notify_one();
}

auto Workers::pop(bool in_order, std::optional<std::chrono::milliseconds> timeout)
    -> std::optional<Value> {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.popped == state.pushed) return {};
  const auto arrived = [&] {
    const auto& results = state.results;
    return !results.empty() && (!in_order || results.begin()->first == state.popped);
  };
  if (!timeout) {
    state.has_results.wait(lock, arrived);
  } else {
    CHECK(state.has_results.wait_for(lock, *timeout, arrived), RuntimeError,
          "Timeout in DataLoader queue while waiting for next batch. Timeout was {} ms",
          timeout->count());
  }
  const State::Result result = std::move(state.results.begin()->second);
  state.results.erase(state.results.begin());
  ++state.popped;
  if (result.exception) throw WorkerException(result.exception);
  return result.batch;
}

void Workers::drain() {
  std::unique_lock lock(state_->mutex);
  state_->requests.clear();
  state_->has_results.wait(lock, [&] { return state_->running == 0; });
  state_->results.clear();
  state_->pushed = state_->popped = 0;
}

void Workers::join() {
  drain();
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->has_requests.notify_all();
  for (std::thread& thread : state_->threads)
    if (thread.joinable()) thread.join();
}

}  // namespace flambeau::torch::data
