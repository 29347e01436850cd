// Datasets: what a loader asks for batches.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "flambeau/api/array_ref.h"
#include "flambeau/data/example.h"
#include "flambeau/io/archive.h"

namespace flambeau::torch::data::datasets {

template <class Source, class Applied>
class MapDataset;

namespace detail {
template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <bool wraps, class T>
using optional_if = std::conditional_t<wraps, std::optional<T>, T>;
}  // namespace detail

// Answers requests for batches. A dataset whose batches are optional is stateful: it says itself
// when it has no more.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  static constexpr bool is_stateful = detail::is_optional<BatchType>;

  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  [[nodiscard]] virtual std::optional<size_t> size() const = 0;

  template <class Applied>
  MapDataset<Self, Applied> map(Applied transform) & {
    return {static_cast<Self&>(*this), std::move(transform)};
  }
  template <class Applied>
  MapDataset<Self, Applied> map(Applied transform) && {
    return {std::move(static_cast<Self&>(*this)), std::move(transform)};
  }
};

// Knows its examples by their index.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual SingleExample get(size_t index) = 0;
  std::vector<SingleExample> get_batch(ArrayRef<size_t> indices) override {
    std::vector<SingleExample> batch;
    batch.reserve(indices.size());
    for (const size_t index : indices) batch.push_back(get(index));
    return batch;
  }
};

template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, std::optional<Batch>, BatchRequest> {
 public:
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

// A dataset whose batches a transform has gone over.
template <class Source, class Applied>
class MapDataset : public BatchDataset<
                       MapDataset<Source, Applied>,
                       detail::optional_if<Source::is_stateful, typename Applied::OutputBatchType>,
                       typename Source::BatchRequestType> {
 public:
  using DatasetType = Source;
  using TransformType = Applied;
  using BatchRequestType = typename Source::BatchRequestType;
  using OutputBatchType =
      detail::optional_if<Source::is_stateful, typename Applied::OutputBatchType>;

  MapDataset(Source dataset, Applied transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

  OutputBatchType get_batch(BatchRequestType request) override {
    auto batch = dataset_.get_batch(std::move(request));
    if constexpr (Source::is_stateful) {
      if (!batch) return {};
      return transform_.apply_batch(std::move(*batch));
    } else {
      return transform_.apply_batch(std::move(batch));
    }
  }
  [[nodiscard]] std::optional<size_t> size() const noexcept override { return dataset_.size(); }
  void reset() requires Source::is_stateful { dataset_.reset(); }
  [[nodiscard]] const Source& dataset() noexcept { return dataset_; }
  [[nodiscard]] const Applied& transform() noexcept { return transform_; }

 private:
  Source dataset_;
  Applied transform_;
};
template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform) {
  return {std::move(dataset), std::move(transform)};
}

// One dataset for all workers, which it must stand.
template <class Shared>
class SharedBatchDataset
    : public BatchDataset<SharedBatchDataset<Shared>, typename Shared::BatchType,
                          typename Shared::BatchRequestType> {
 public:
  SharedBatchDataset(std::shared_ptr<Shared> dataset) : dataset_(std::move(dataset)) {}  // NOLINT
  typename Shared::BatchType get_batch(typename Shared::BatchRequestType request) override {
    return dataset_->get_batch(std::move(request));
  }
  [[nodiscard]] std::optional<size_t> size() const override { return dataset_->size(); }
  Shared& operator*() { return *dataset_; }
  const Shared& operator*() const { return *dataset_; }
  Shared* operator->() { return dataset_.get(); }
  const Shared* operator->() const { return dataset_.get(); }
  void reset() requires Shared::is_stateful { dataset_->reset(); }

 private:
  std::shared_ptr<Shared> dataset_;
};
template <class Shared, class... Args>
SharedBatchDataset<Shared> make_shared_dataset(Args&&... args) {
  return std::make_shared<Shared>(std::forward<Args>(args)...);
}

// The slices of a tensor along its first dimension.
struct TensorDataset : Dataset<TensorDataset, TensorExample> {
  explicit TensorDataset(const std::vector<Tensor>& tensors)
      : TensorDataset(torch::stack(tensors)) {}
  explicit TensorDataset(Tensor tensor) : tensor(std::move(tensor)) {}
  TensorExample get(size_t index) override { return tensor[static_cast<int64_t>(index)]; }
  [[nodiscard]] std::optional<size_t> size() const override {
    return static_cast<size_t>(tensor.size(0));
  }
  Tensor tensor;
};

}  // namespace flambeau::torch::data::datasets

namespace flambeau::torch::data {
template <class Self, class SingleExample = Example<>>
using Dataset = datasets::Dataset<Self, SingleExample>;
}
