// Samplers: in which order a loader asks for examples.
#pragma once

#include <optional>
#include <vector>

#include "flambeau/io/archive.h"
#include "flambeau/torch.h"

namespace flambeau::torch::data::samplers {

template <class BatchRequest = std::vector<size_t>>
class Sampler {
 public:
  using BatchRequestType = BatchRequest;
  virtual ~Sampler() = default;
  // Begins again, over another number of examples if one is given.
  virtual void reset(std::optional<size_t> new_size) = 0;
  // What to ask for next; nothing at the end.
  virtual std::optional<BatchRequest> next(size_t batch_size) = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

class SequentialSampler : public Sampler<> {
 public:
  explicit SequentialSampler(size_t size) : size_(size) {}
  void reset(std::optional<size_t> new_size = {}) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  [[nodiscard]] size_t index() const noexcept { return index_; }

 private:
  size_t size_, index_ = 0;
};

class RandomSampler : public Sampler<> {
 public:
  explicit RandomSampler(int64_t size, DType index_dtype = DType::int64);
  void reset(std::optional<size_t> new_size = {}) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  [[nodiscard]] size_t index() const noexcept { return static_cast<size_t>(index_); }

 private:
  Tensor indices_;
  int64_t index_ = 0;
};

// The part of the examples that one of several replicas sees; the same number for each.
template <class BatchRequest = std::vector<size_t>>
class DistributedSampler : public Sampler<BatchRequest> {
 public:
  explicit DistributedSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                              bool allow_duplicates = true)
      : size_(size),
        num_replicas_(num_replicas),
        rank_(rank),
        allow_duplicates_(allow_duplicates) {}
  void set_epoch(size_t epoch) { epoch_ = epoch; }
  [[nodiscard]] size_t epoch() const { return epoch_; }

 protected:
  [[nodiscard]] size_t local_sample_count() const {
    return (size_ + (allow_duplicates_ ? num_replicas_ - 1 : 0)) / num_replicas_;
  }
  size_t size_, num_replicas_, rank_, epoch_ = 0;
  bool allow_duplicates_;
};

// What both orders share: the indices of this replica, and how far they were handed out.
class DistributedIndices : public DistributedSampler<> {
 public:
  using DistributedSampler<>::DistributedSampler;
  void reset(std::optional<size_t> new_size = {}) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  [[nodiscard]] size_t index() const noexcept { return at_; }

 protected:
  [[nodiscard]] virtual std::vector<size_t> order() const = 0;  // of all examples
  void populate();

 private:
  std::vector<size_t> indices_;
  size_t at_ = 0;
};

class DistributedRandomSampler : public DistributedIndices {
 public:
  explicit DistributedRandomSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                                    bool allow_duplicates = true);

 private:
  [[nodiscard]] std::vector<size_t> order() const override;  // by the epoch
};

class DistributedSequentialSampler : public DistributedIndices {
 public:
  explicit DistributedSequentialSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                                        bool allow_duplicates = true);

 private:
  [[nodiscard]] std::vector<size_t> order() const override;
};

// Asks a stream for numbers of examples, until an epoch's worth was seen.
struct BatchSize {
  explicit BatchSize(size_t size) : size_(size) {}
  [[nodiscard]] size_t size() const noexcept { return size_; }
  operator size_t() const noexcept { return size_; }  // NOLINT
  size_t size_;
};
class StreamSampler : public Sampler<BatchSize> {
 public:
  explicit StreamSampler(size_t epoch_size) : epoch_size_(epoch_size) {}
  void reset(std::optional<size_t> new_size = {}) override;
  std::optional<BatchSize> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;

 private:
  size_t epoch_size_, examples_retrieved_so_far_ = 0;
};

}  // namespace flambeau::torch::data::samplers
