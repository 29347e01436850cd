// Batches of sequences of different lengths (torch::nn::utils::rnn): padded, packed, and the ways
// between the two. A packed batch holds step 0 of all sequences, then step 1 of those that have
// one, and so on, longest sequence first; batch_sizes says how many sequences each step has.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "flambeau/torch.h"

namespace flambeau::torch::nn::utils::rnn {

Tensor invert_permutation(const Tensor& permutation);

class PackedSequence {
 public:
  PackedSequence() = default;
  explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {},
                          Tensor unsorted_indices = {});

  [[nodiscard]] const Tensor& data() const { return data_; }
  [[nodiscard]] const Tensor& batch_sizes() const { return batch_sizes_; }
  // How sequences were sorted by length, and back; undefined where they came so.
  [[nodiscard]] const Tensor& sorted_indices() const { return sorted_indices_; }
  [[nodiscard]] const Tensor& unsorted_indices() const { return unsorted_indices_; }

  [[nodiscard]] PackedSequence to(const TensorOptions& options, bool non_blocking = false) const;
  [[nodiscard]] PackedSequence cuda() const { return to(DeviceType::cuda); }
  [[nodiscard]] PackedSequence cpu() const { return to(DeviceType::cpu); }
  [[nodiscard]] bool is_cuda() const { return data_.device().is_cuda(); }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence,
                                               bool batch_first = false, double padding_value = 0.0,
                                               std::optional<int64_t> total_length = {});
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                    double padding_value = 0, std::string_view padding_side = "right");
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

}  // namespace flambeau::torch::nn::utils::rnn
