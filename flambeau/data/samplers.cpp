#include "flambeau/data/samplers.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace flambeau::torch::data::samplers {
namespace {

void save_number(serialize::OutputArchive& archive, const char* key, size_t number) {
  archive.write(key, torch::full({}, static_cast<int64_t>(number), DType::int64), true);
}
size_t load_number(serialize::InputArchive& archive, const char* key) {
  Tensor number;
  archive.read(key, number, true);
  return static_cast<size_t>(number.item<int64_t>());
}

}  // namespace

void SequentialSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  if (index_ >= size_) return {};
  std::vector<size_t> batch(std::min(batch_size, size_ - index_));
  std::iota(batch.begin(), batch.end(), index_);
  index_ += batch.size();
  return batch;
}
void SequentialSampler::save(serialize::OutputArchive& archive) const {
  save_number(archive, "index", index_);
}
void SequentialSampler::load(serialize::InputArchive& archive) {
  index_ = load_number(archive, "index");
}

RandomSampler::RandomSampler(int64_t size, DType index_dtype)
    : indices_(torch::randperm(size, TensorOptions(index_dtype))) {}
void RandomSampler::reset(std::optional<size_t> new_size) {
  const auto size = new_size ? static_cast<int64_t>(*new_size) : indices_.numel();
  indices_ = torch::randperm(size, TensorOptions(indices_->dtype));
  index_ = 0;
}
std::optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  const int64_t left = indices_.numel() - index_;
  if (left == 0) return {};
  const int64_t count = std::min(static_cast<int64_t>(batch_size), left);
  const Tensor chosen = indices_.narrow(0, index_, count).to(DType::int64).contiguous();
  index_ += count;
  const auto* begin = static_cast<const int64_t*>(chosen.raw());
  return std::vector<size_t>(begin, begin + count);
}
void RandomSampler::save(serialize::OutputArchive& archive) const {
  save_number(archive, "index", index());
  archive.write("indices", indices_, true);
}
void RandomSampler::load(serialize::InputArchive& archive) {
  index_ = static_cast<int64_t>(load_number(archive, "index"));
  archive.read("indices", indices_, true);
}

// --- Distributed ---------------------------------------------------------------------------------

void DistributedIndices::populate() {
  const std::vector<size_t> all = order();
  const size_t count = local_sample_count();
  indices_.clear();
  for (size_t i = rank_ * count; i < (rank_ + 1) * count; ++i)
    indices_.push_back(all[i % all.size()]);  // some twice, where all are to get the same number
  at_ = 0;
}
void DistributedIndices::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  populate();
}
std::optional<std::vector<size_t>> DistributedIndices::next(size_t batch_size) {
  if (at_ == indices_.size()) return {};
  const size_t end = std::min(at_ + batch_size, indices_.size());
  const std::vector<size_t> batch(indices_.begin() + static_cast<ptrdiff_t>(at_),
                                  indices_.begin() + static_cast<ptrdiff_t>(end));
  at_ = end;
  return batch;
}
void DistributedIndices::save(serialize::OutputArchive& archive) const {
  save_number(archive, "sample_index_", at_);
  save_number(archive, "epoch_", epoch());
}
void DistributedIndices::load(serialize::InputArchive& archive) {
  set_epoch(load_number(archive, "epoch_"));
  populate();
  at_ = load_number(archive, "sample_index_");
}

DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank,
                                                   bool allow_duplicates)
    : DistributedIndices(size, num_replicas, rank, allow_duplicates) {
  populate();
}
// The same on every replica, without a word between them.
std::vector<size_t> DistributedRandomSampler::order() const {
  std::vector<size_t> all(size_);
  std::iota(all.begin(), all.end(), size_t{0});
  std::mt19937 generator(static_cast<std::mt19937::result_type>(epoch()));
  std::shuffle(all.begin(), all.end(), generator);
  return all;
}

DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas,
                                                           size_t rank, bool allow_duplicates)
    : DistributedIndices(size, num_replicas, rank, allow_duplicates) {
  populate();
}
std::vector<size_t> DistributedSequentialSampler::order() const {
  std::vector<size_t> all(size_);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// --- Streams -------------------------------------------------------------------------------------

void StreamSampler::reset(std::optional<size_t> new_size) {
  epoch_size_ = new_size.value_or(epoch_size_);
  examples_retrieved_so_far_ = 0;
}
std::optional<BatchSize> StreamSampler::next(size_t batch_size) {
  const size_t left = epoch_size_ - examples_retrieved_so_far_;
  if (left == 0) return {};
  const size_t count = std::min(batch_size, left);
  examples_retrieved_so_far_ += count;
  return BatchSize(count);
}
void StreamSampler::save(serialize::OutputArchive& archive) const {
  save_number(archive, "examples_retrieved_so_far", examples_retrieved_so_far_);
}
void StreamSampler::load(serialize::InputArchive& archive) {
  examples_retrieved_so_far_ = load_number(archive, "examples_retrieved_so_far");
}

}  // namespace flambeau::torch::data::samplers
