// Batches of sequences of different lengths (nn.utils.rnn): padded, packed, and the ways between.
// A packed batch holds step 0 of all sequences, then step 1 of those that have one, and so on,
// longest sequence first; batch_sizes says how many sequences each step has. Rows are picked and
// put by index, in which gradients flow back.
#include <algorithm>
#include <numeric>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor from_integers(const std::vector<int64_t>& values) {
  Tensor made = make_tensor({static_cast<int64_t>(values.size())}, DType::int64, Device());
  std::copy(values.begin(), values.end(), made.data<int64_t>());
  return made;
}

std::vector<int64_t> integers(const Tensor& tensor) {
  const Tensor values = contiguous(to(tensor, Device(), DType::int64, false, false, {}));
  return {values.data<int64_t>(), values.data<int64_t>() + values.numel()};
}

// Rows of the first two dimensions, by index: picked from steps and batches, or put among
// `padding`.
Tensor pick(const Tensor& input, const std::vector<int64_t>& rows) {
  const Tensor index = to(from_integers(rows), input.device());
  return tensor_op("index_select", {tensor_op("flatten", {input, 0, 1}), 0, index});
}
Tensor place(const Tensor& data, const std::vector<int64_t>& rows, int64_t outer, int64_t inner,
             double padding) {
  Dims sizes{outer * inner};
  for (int64_t d = 1; d < data.dim(); ++d) sizes.push_back(data.size(d));
  const Tensor blank = tensor_op("new_full", {data, sizes, Scalar(padding)});
  const Tensor index = to(from_integers(rows), data.device());
  const Tensor filled = tensor_op("index_copy", {blank, 0, index, data});
  return tensor_op("unflatten", {filled, 0, Dims{outer, inner}});
}

// --- Packing -------------------------------------------------------------------------------------

void check_lengths(const std::vector<int64_t>& lengths, const Tensor& input, int64_t batch,
                   int64_t steps) {
  CHECK(input.numel() > 0, RuntimeError, "Cannot pack empty tensors.");
  CHECK(static_cast<int64_t>(lengths.size()) == batch, RuntimeError,
        "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={})",
        lengths.size(), batch);
  for (const int64_t length : lengths) {
    CHECK(length > 0, RuntimeError,
          "Length of all samples has to be greater than 0, but found an element in 'lengths' that "
          "is <= 0");
  }
  CHECK(std::ranges::is_sorted(lengths, std::greater<>()), RuntimeError,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
        "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
        "requirement if you do not need ONNX exportability.");
  CHECK(lengths.front() <= steps, RuntimeError,
        "Expected lengths of at most {}, the number of steps in the input, but got {}", steps,
        lengths.front());
}

std::vector<Tensor> pack_padded_sequence(const Tensor& input, const Tensor& lengths,
                                         bool batch_first) {
  CHECK(input.dim() >= 2, RuntimeError,
        "_pack_padded_sequence: expected a batch of sequences, but input has {} dimensions",
        input.dim());
  const int64_t batch = input.size(batch_first ? 0 : 1), steps = input.size(batch_first ? 1 : 0);
  const std::vector<int64_t> counts = integers(lengths);
  check_lengths(counts, input, batch, steps);
  std::vector<int64_t> batch_sizes, rows;
  for (int64_t t = 0; t < counts.front(); ++t) {
    const auto running = std::ranges::find_if(counts, [t](int64_t n) { return n <= t; });
    batch_sizes.push_back(running - counts.begin());
    for (int64_t b = 0; b < batch_sizes.back(); ++b)
      rows.push_back(batch_first ? b * steps + t : t * batch + b);
  }
  return {pick(input, rows), from_integers(batch_sizes)};
}
OP_FUNCTION(pack_padded_sequence, "_pack_padded_sequence(input, lengths, batch_first)",
            "The steps of sequences that are sorted by length, and how many have each step.",
            composed | no_out)

std::vector<Tensor> pad_packed_sequence(const Tensor& data, const Tensor& batch_sizes,
                                        bool batch_first, const Scalar& padding_value,
                                        int64_t total_length) {
  const std::vector<int64_t> running = integers(batch_sizes);
  CHECK(!running.empty(), RuntimeError, "pad_packed_sequence: the packed sequence has no steps");
  const auto used = static_cast<int64_t>(running.size());
  CHECK(total_length < 0 || total_length >= used, ValueError,
        "Expected total_length to be at least the length of the longest sequence in input, but got "
        "total_length={} and max sequence length being {}",
        total_length, used);
  const int64_t steps = std::max(total_length, used), batch = running.front();
  std::vector<int64_t> rows, lengths(static_cast<size_t>(batch));
  for (int64_t t = 0; t < used; ++t) {
    for (int64_t b = 0; b < running[static_cast<size_t>(t)]; ++b) {
      rows.push_back(t * batch + b);
      ++lengths[static_cast<size_t>(b)];
    }
  }
  const Tensor padded = place(data, rows, steps, batch, padding_value.to_double());
  return {batch_first ? tensor_op("transpose", {padded, 0, 1}) : padded, from_integers(lengths)};
}
OP_FUNCTION(pad_packed_sequence,
            "_pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length)",
            "The sequences of a packed batch, filled up to the longest or to total_length, and "
            "their lengths.",
            composed | no_out)

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  CHECK(!sequences.empty(), RuntimeError, "received an empty list of sequences");
  CHECK(padding_side == "left" || padding_side == "right", RuntimeError,
        "Expected padding_side to be one of left or right, but got {}.", padding_side);
  const auto batch = static_cast<int64_t>(sequences.size());
  int64_t longest = 0;
  for (const Tensor& sequence : sequences) {
    CHECK(sequence.dim() > 0, RuntimeError,
          "pad_sequence: expected sequences, but the first one has no dimensions");
    longest = std::max(longest, sequence.size(0));
  }
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = sequences[static_cast<size_t>(b)].size(0);
    const int64_t start = padding_side == "right" ? 0 : longest - length;
    for (int64_t t = start; t < start + length; ++t)
      rows.push_back(batch_first ? b * longest + t : t * batch + b);
  }
  const Tensor joined = tensor_op("cat", {sequences, 0});
  const Tensor data = to(joined, sequences[0].dtype());
  return place(data, rows, batch_first ? batch : longest, batch_first ? longest : batch,
               padding_value);
}
OP_FUNCTION(pad_sequence,
            "_pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side='right')",
            "Sequences of different lengths beside each other, filled up to the longest.",
            composed | no_out)

}  // namespace
}  // namespace flambeau
