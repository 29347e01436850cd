// What goes between a loader and its workers: jobs one way, results the other, in order or as they
// come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "flambeau/base/check.h"

namespace flambeau::torch::data {

// What a worker threw, as the loader's caller gets it.
struct WorkerException : Error {
  explicit WorkerException(std::exception_ptr original)
      : Error(sentence(original)), original_exception(std::move(original)) {}
  std::exception_ptr original_exception;

 private:
  static std::string sentence(const std::exception_ptr& original) {
    std::string text = "Caught exception in DataLoader worker thread.";
    try {
      std::rethrow_exception(original);
    } catch (const std::exception& error) {
      text += std::string(" Original message: ") + error.what();
    } catch (...) {  // not an exception class: there is no message
    }
    return text;
  }
};

template <class Request, class Batch>
class Pipeline {
 public:
  struct Result {
    std::optional<Batch> batch;
    std::exception_ptr exception;
  };

  // For workers: the next job; nothing once it is time to quit.
  std::optional<std::pair<size_t, Request>> take() {
    std::unique_lock lock(mutex_);
    has_jobs_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
    if (closed_) return {};
    std::pair<size_t, Request> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_;
    return job;
  }
  void put(size_t number, Result result) {
    {
      const std::lock_guard lock(mutex_);
      --running_;
      results_.emplace(number, std::move(result));
    }
    has_results_.notify_all();
  }

  // For the loader.
  void push(Request request) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.emplace_back(pushed_++, std::move(request));
    }
    has_jobs_.notify_one();
  }
  // The next result: that of the oldest job, or whichever comes; nothing if no job is left.
  std::optional<Result> pop(bool in_order, std::optional<std::chrono::milliseconds> timeout) {
    std::unique_lock lock(mutex_);
    if (popped_ == pushed_) return {};
    const auto arrived = [&] {
      return !results_.empty() && (!in_order || results_.begin()->first == popped_);
    };
    if (!timeout) {
      has_results_.wait(lock, arrived);
    } else {
      CHECK(has_results_.wait_for(lock, *timeout, arrived), RuntimeError,
            "Timeout in DataLoader queue while waiting for next batch. Timeout was {} ms",
            timeout->count());
    }
    Result result = std::move(results_.begin()->second);
    results_.erase(results_.begin());
    ++popped_;
    return result;
  }
  [[nodiscard]] size_t in_flight() {
    const std::lock_guard lock(mutex_);
    return pushed_ - popped_;
  }
  // Forgets jobs that nobody has begun and results that nobody took, and waits for the rest.
  void drain() {
    std::unique_lock lock(mutex_);
    jobs_.clear();
    has_results_.wait(lock, [&] { return running_ == 0; });
    results_.clear();
    pushed_ = popped_ = 0;
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    has_jobs_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_jobs_, has_results_;
  std::deque<std::pair<size_t, Request>> jobs_;
  std::map<size_t, Result> results_;
  size_t pushed_ = 0, popped_ = 0, running_ = 0;
  bool closed_ = false;
};

}  // namespace flambeau::torch::data
