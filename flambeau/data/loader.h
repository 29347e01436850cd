// Loaders: batches of a dataset in the order of a sampler, made by the caller or by worker threads.
#pragma once

#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "flambeau/data/datasets.h"
#include "flambeau/data/options.h"
#include "flambeau/data/samplers.h"
#include "flambeau/data/workers.h"

namespace flambeau::torch::data {

// Where an iterator gets its batches from.
template <class Batch>
class BatchSource {
 public:
  virtual std::optional<Batch> next_batch() = 0;

 protected:
  ~BatchSource() = default;
};

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
  explicit Iterator(BatchSource<Batch>* source) : source_(source) { ++*this; }
  Iterator& operator++() {
    CHECK(source_, RuntimeError, "Attempted to increment iterator past the end");
    batch_ = source_->next_batch();
    if (!batch_) source_ = nullptr;
    return *this;
  }
  Batch& operator*() {
    CHECK(batch_, RuntimeError, "Cannot dereference iterator that is past the end");
    return *batch_;
  }
  Batch* operator->() { return &**this; }
  bool operator==(const Iterator& other) const { return source_ == other.source_; }

 private:
  BatchSource<Batch>* source_ = nullptr;
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
class DataLoaderBase : private BatchSource<Batch> {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  DataLoaderBase(Dataset dataset, const DataLoaderOptions& options)
      : options_(options), dataset_(std::make_shared<Dataset>(std::move(dataset))) {
    // Every worker has a copy of the dataset, or all work on one where copies would each start
    // over.
    for (size_t i = 0; i < options_.workers; ++i) {
      workers_.start([own = Dataset::is_stateful ? dataset_ : std::make_shared<Dataset>(*dataset_)](
                         const Workers::Value& request) -> Workers::Value {
        std::optional<Batch> batch =
            own->get_batch(std::move(*static_cast<BatchRequest*>(request.get())));
        return Workers::Value(batch ? new Batch(std::move(*batch)) : nullptr);
      });
    }
  }
  virtual ~DataLoaderBase() = default;

  Iterator<Batch> begin() {
    CHECK(workers_.in_flight() == 0, RuntimeError,
          "Attempted to get a new DataLoader iterator while another iterator is not yet exhausted");
    reset();
    return Iterator<Batch>(this);
  }
  Iterator<Batch> end() { return {}; }
  // Ends the workers; they are not needed any more.
  void join() { workers_.join(); }
  [[nodiscard]] const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  virtual std::optional<BatchRequest> get_batch_request() = 0;
  virtual void reset() {
    workers_.drain();
    if (!workers_.empty()) prefetch(options_.max_jobs);
  }

  const FullDataLoaderOptions options_;
  std::shared_ptr<Dataset> dataset_;

 private:
  void prefetch(size_t jobs) {
    for (size_t i = 0; i < jobs; ++i) {
      auto request = get_batch_request();
      if (!request) return;
      workers_.push(Workers::Value(new BatchRequest(std::move(*request))));
    }
  }
  std::optional<Batch> next_batch() override {
    if (workers_.empty()) {
      auto request = get_batch_request();
      if (!request) return {};
      return dataset_->get_batch(std::move(*request));
    }
    while (const auto batch = workers_.pop(options_.enforce_ordering, options_.timeout)) {
      if (!*batch) continue;  // the end of a stateful dataset, for one worker
      prefetch(1);
      return std::move(*static_cast<Batch*>(batch->get()));
    }
    return {};
  }

  Workers workers_;
};

template <class Dataset, class Sampler>
class StatelessDataLoader : public DataLoaderBase<Dataset, typename Dataset::BatchType,
                                                  typename Sampler::BatchRequestType> {
 public:
  using Base =
      DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;
  StatelessDataLoader(Dataset dataset, Sampler sampler, const DataLoaderOptions& options)
      : Base(std::move(dataset), options), sampler_(std::move(sampler)) {}

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
  StatefulDataLoader(Dataset dataset, const DataLoaderOptions& options)
      : Base(std::move(dataset), options) {}

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
