// Loaders: batches of a dataset in the order of a sampler, made by the caller or by worker threads.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "flambeau/data/datasets.h"
#include "flambeau/data/options.h"
#include "flambeau/data/pipeline.h"
#include "flambeau/data/samplers.h"

namespace flambeau::torch::data {

// Goes over the batches of an epoch, once.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;

  Iterator() = default;  // the end
  explicit Iterator(std::function<std::optional<Batch>()> next)
      : next_(std::make_shared<std::function<std::optional<Batch>()>>(std::move(next))) {
    ++*this;
  }
  Iterator& operator++() {
    CHECK(next_, RuntimeError, "Attempted to increment iterator past the end");
    batch_ = (*next_)();
    if (!batch_) next_ = nullptr;
    return *this;
  }
  Batch& operator*() {
    CHECK(batch_, RuntimeError, "Cannot dereference iterator that is past the end");
    return *batch_;
  }
  Batch* operator->() { return &**this; }
  bool operator==(const Iterator& other) const { return next_ == other.next_; }

 private:
  std::shared_ptr<std::function<std::optional<Batch>()>> next_;
  std::optional<Batch> batch_;
};

namespace detail {
template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};
}  // namespace detail

template <class Dataset, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  explicit DataLoaderBase(const DataLoaderOptions& options) : options_(options) {}
  DataLoaderBase(const DataLoaderBase&) = delete;
  DataLoaderBase& operator=(const DataLoaderBase&) = delete;
  virtual ~DataLoaderBase() { join(); }

  Iterator<Batch> begin() {
    CHECK(pipeline_.in_flight() == 0, RuntimeError,
          "Attempted to get a new DataLoader iterator while another iterator is not yet exhausted");
    reset();
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }
  // Ends the workers; they are not needed any more.
  void join() {
    if (joined_) return;
    pipeline_.drain();
    pipeline_.close();
    for (std::thread& worker : workers_) worker.join();
    joined_ = true;
  }
  [[nodiscard]] const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  virtual std::optional<BatchRequest> get_batch_request() = 0;
  virtual void reset() {
    pipeline_.drain();
    if (!workers_.empty()) prefetch(options_.max_jobs);
  }

  // Every worker has a copy of the dataset, or all work on one where copies would each start over.
  void start(Dataset dataset, bool copies) {
    if (options_.workers == 0 || !copies) dataset_ = std::make_unique<Dataset>(dataset);
    for (size_t i = 0; i < options_.workers; ++i) {
      if (copies) {
        workers_.emplace_back([this, dataset]() mutable { work(dataset); });
      } else {
        workers_.emplace_back([this] { work(*dataset_); });
      }
    }
  }

  const FullDataLoaderOptions options_;
  std::unique_ptr<Dataset> dataset_;

 private:
  using Line = Pipeline<BatchRequest, Batch>;

  void work(Dataset& dataset) {
    while (auto job = pipeline_.take()) {
      typename Line::Result result;
      try {
        result.batch = dataset.get_batch(std::move(job->second));
      } catch (...) {
        result.exception = std::current_exception();
      }
      pipeline_.put(job->first, std::move(result));
    }
  }
  void prefetch(size_t jobs) {
    for (size_t i = 0; i < jobs; ++i) {
      auto request = get_batch_request();
      if (!request) return;
      pipeline_.push(std::move(*request));
    }
  }
  std::optional<Batch> next() {
    if (workers_.empty()) {
      auto request = get_batch_request();
      if (!request) return {};
      return dataset_->get_batch(std::move(*request));
    }
    while (auto result = pipeline_.pop(options_.enforce_ordering, options_.timeout)) {
      if (result->exception) throw WorkerException(result->exception);
      if (!result->batch) continue;  // the end of a stateful dataset, for one worker
      prefetch(1);
      return std::move(result->batch);
    }
    return {};
  }

  Line pipeline_;
  std::vector<std::thread> workers_;
  bool joined_ = false;
};

template <class Dataset, class Sampler>
class StatelessDataLoader : public DataLoaderBase<Dataset, typename Dataset::BatchType,
                                                  typename Sampler::BatchRequestType> {
 public:
  using Base =
      DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;
  StatelessDataLoader(Dataset dataset, Sampler sampler, const DataLoaderOptions& options)
      : Base(options), sampler_(std::move(sampler)) {
    this->start(std::move(dataset), true);
  }
  ~StatelessDataLoader() override { this->join(); }

 private:
  void reset() override {
    sampler_.reset({});
    Base::reset();
  }
  std::optional<typename Base::BatchRequestType> get_batch_request() override {
    auto indices = sampler_.next(this->options_.batch_size);
    const bool is_last = indices && indices->size() < this->options_.batch_size;
    return is_last && this->options_.drop_last ? std::nullopt : std::move(indices);
  }
  Sampler sampler_;
};

template <class Dataset>
class StatefulDataLoader
    : public DataLoaderBase<Dataset, typename detail::Unwrapped<typename Dataset::BatchType>::type,
                            typename Dataset::BatchRequestType> {
 public:
  using Base =
      DataLoaderBase<Dataset, typename detail::Unwrapped<typename Dataset::BatchType>::type,
                     typename Dataset::BatchRequestType>;
  StatefulDataLoader(Dataset dataset, const DataLoaderOptions& options) : Base(options) {
    this->start(std::move(dataset), false);
  }
  ~StatefulDataLoader() override { this->join(); }

 private:
  void reset() override {
    this->dataset_->reset();
    Base::reset();
  }
  std::optional<typename Base::BatchRequestType> get_batch_request() override {
    return this->options_.batch_size;
  }
};

template <class Dataset, class Sampler>
requires(!Dataset::is_stateful && requires { typename Sampler::BatchRequestType; })
    std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(
        Dataset dataset, Sampler sampler, DataLoaderOptions options = {}) {
  return std::make_unique<StatelessDataLoader<Dataset, Sampler>>(std::move(dataset),
                                                                 std::move(sampler), options);
}
template <class Sampler = samplers::RandomSampler, class Dataset>
requires(!Dataset::is_stateful && std::is_constructible_v<Sampler, size_t>)
    std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(
        Dataset dataset, DataLoaderOptions options = {}) {
  const std::optional<size_t> size = dataset.size();
  CHECK(size, RuntimeError, "Expected the dataset to be sized in order to construct the Sampler");
  return make_data_loader(std::move(dataset), Sampler(*size), options);
}
template <class Dataset>
requires(Dataset::is_stateful) std::unique_ptr<StatefulDataLoader<Dataset>> make_data_loader(
    Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<StatefulDataLoader<Dataset>>(std::move(dataset), options);
}

}  // namespace flambeau::torch::data
