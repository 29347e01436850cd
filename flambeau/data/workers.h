// The worker threads of a loader: requests go one way, batches the other, in order or as they come.
// Neither is known by its class, so that a program does not compile the queue for each dataset.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "flambeau/base/check.h"

namespace flambeau::torch::data {

// What a worker threw, as the loader's caller gets it.
struct WorkerException : Error {
  explicit WorkerException(std::exception_ptr original);
  std::exception_ptr original_exception;
};

class Workers {
 public:
  using Value = std::shared_ptr<void>;
  // Makes the batch of a request; none at the end of a stateful dataset.
  using Serve = std::function<Value(const Value& request)>;

  Workers();
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start(Serve serve);  // one more
  [[nodiscard]] bool empty() const noexcept;
  // Requests that were pushed and whose batch was not popped.
  [[nodiscard]] size_t in_flight() const;
  void push(Value request);
  // The next batch: that of the oldest request, or whichever comes; nothing if no request is left.
  std::optional<Value> pop(bool in_order, std::optional<std::chrono::milliseconds> timeout);
  // Forgets requests that nobody has begun and batches that nobody took, and waits for the rest.
  void drain();
  void join();  // ends the threads

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flambeau::torch::data
