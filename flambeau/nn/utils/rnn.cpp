#include "flambeau/nn/utils/rnn.h"

#include "flambeau/nn/results.h"

namespace flambeau::torch::nn::utils::rnn {

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  return permutation.argsort();
}

PackedSequence::PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices,
                               Tensor unsorted_indices)
    : data_(std::move(data)),
      batch_sizes_(std::move(batch_sizes)),
      sorted_indices_(std::move(sorted_indices)),
      unsorted_indices_(unsorted_indices.defined() ? std::move(unsorted_indices)
                                                   : invert_permutation(sorted_indices_)) {
  CHECK(batch_sizes_.device().is_cpu(), ValueError,
        "batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
        "manually. They should be instantiated by functions like pack_sequence and "
        "pack_padded_sequences in nn::utils::rnn.");
}

// Indices move with the data but stay integers.
PackedSequence PackedSequence::to(const TensorOptions& options, bool non_blocking) const {
  const Tensor data = data_.to(options, non_blocking);
  const auto move = [&](const Tensor& index) {
    return index.defined() ? index.to(data.device(), index->dtype, non_blocking) : index;
  };
  return PackedSequence(data, batch_sizes_, move(sorted_indices_), move(unsorted_indices_));
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  Tensor counts = lengths.to(DeviceType::cpu, DType::int64), order, sorted = input;
  if (!enforce_sorted) {
    std::tie(counts, order) = detail::pair_of(counts.sort(-1, true));
    order = order.to(input.device(), order->dtype);
    sorted = input.index_select(batch_first ? 0 : 1, order);
  }
  const auto [data, batch_sizes] =
      detail::pair_of(torch::_pack_padded_sequence(sorted, counts, batch_first));
  return PackedSequence(data, batch_sizes, order);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length) {
  auto [padded, lengths] = detail::pair_of(
      torch::_pad_packed_sequence(sequence.data(), sequence.batch_sizes(), batch_first,
                                  padding_value, total_length.value_or(-1)));
  const Tensor& order = sequence.unsorted_indices();
  if (!order.defined()) return {padded, lengths};
  return {padded.index_select(batch_first ? 0 : 1, order),
          lengths.index_select(0, order.to(DeviceType::cpu, order->dtype))};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  return torch::_pad_sequence(sequences, batch_first, padding_value, padding_side);
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  Tensor lengths = torch::empty({static_cast<int64_t>(sequences.size())}, DType::int64);
  for (size_t i = 0; i < sequences.size(); ++i) lengths.data<int64_t>()[i] = sequences[i].size(0);
  return pack_padded_sequence(rnn::pad_sequence(sequences), lengths, false, enforce_sorted);
}

}  // namespace flambeau::torch::nn::utils::rnn
