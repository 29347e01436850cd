// embedding_bag: sums, means or maxima of bags of rows of a table. Its derivatives are made of
// operations that have derivatives themselves.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/sequences.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/sparse/sparse.h"

namespace flambeau {
namespace {

// What the derivative needs to know of the bags.
struct Bagging {
  Tensor indices, bag_of, bag_size, chosen;
  BagMode mode;
  int64_t rows, padding;
  bool scale_by_frequency;
  bool sparse;  // whether the gradient of the table is
};

// The gradient of each bag at each of its indices: (indices, width).
Tensor spread(const Tensor& grad, const Bagging& b) {
  Tensor rows = index_select(grad, 0, b.bag_of);
  if (b.mode == BagMode::mean)
    rows = rows / unsqueeze(index_select(to(b.bag_size, grad.dtype()), 0, b.bag_of), 1);
  if (b.padding >= 0) rows = masked_fill(rows, unsqueeze(b.indices == b.padding, 1), 0.0);
  return rows;
}

Tensor table_gradient(const Tensor& grad, const Tensor& sample_weights, const Bagging& b) {
  const auto empty_table = [&] { return zeros({b.rows, grad.sizes()[1]}, options_of(grad)); };
  if (b.mode == BagMode::max) {
    const Tensor none = b.chosen < 0;
    return scatter_add(empty_table(), 0, masked_fill(b.chosen, none, int64_t{0}),
                       masked_fill(grad, none, 0.0));
  }
  Tensor rows = spread(grad, b);
  if (sample_weights.defined()) rows = rows * unsqueeze(sample_weights, 1);
  if (b.sparse) {
    CHECK(!b.scale_by_frequency, RuntimeError,
          "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    return table_of_rows(b.indices, rows, b.rows, b.padding);
  }
  if (b.scale_by_frequency) {
    const Tensor ones = flambeau::ones(b.indices.sizes(), options_of(grad));
    const Tensor uses = index_add(zeros(IntSpan{b.rows}, options_of(grad)), 0, b.indices, ones, 1);
    rows = rows / unsqueeze(index_select(uses, 0, b.indices), 1);
  }
  return index_add(empty_table(), 0, b.indices, rows, 1);
}

void check_offsets(const Tensor& offsets, const Tensor& indices, bool include_last) {
  CHECK(offsets.dim() == 1 && (!include_last || offsets.numel() > 0), RuntimeError,
        "embedding_bag: offsets must be a vector{}, got shape {}",
        include_last ? " of at least one element" : "", offsets.sizes());
  if (offsets.device_type() != DeviceType::cpu || offsets.numel() == 0) return;
  const Tensor at = contiguous(to(offsets, DType::int64));
  const int64_t *place = at.data<int64_t>(), count = at.numel();
  CHECK(place[0] == 0, RuntimeError,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        "position 0. However, got {}",
        place[0]);
  CHECK(place[count - 1] <= indices.numel(), RuntimeError,
        "offsets[-1] can not be greater than input's length {} but got offsets[-1] of {}",
        indices.numel(), place[count - 1]);
  for (int64_t i = 1; i < count; ++i) {
    CHECK(place[i] >= place[i - 1], RuntimeError,
          "embedding_bag: offsets must not decrease, but offset {} is {} after {}", i, place[i],
          place[i - 1]);
  }
}

void check_weight(const Tensor& weight) {
  CHECK(weight.is_floating(), RuntimeError,
        "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
        "BFloat16, Float, Double; but got torch.{}Tensor instead (while checking arguments for "
        "embedding_bag)",
        dtype_legacy_name(weight.dtype()));
}

void check_dtype(const char* name, int place, const Tensor& x) {
  CHECK(x.dtype() == DType::int64 || x.dtype() == DType::int32, RuntimeError,
        "Expected tensor for argument #{} '{}' to have one of the following scalar types: Long, "
        "Int; but got torch.{}Tensor instead (while checking arguments for embedding_bag)",
        place, name, dtype_legacy_name(x.dtype()));
}

// The start of each bag, and the end of the last. As in PyTorch, the last bag reaches to the end of
// the indices even where include_last_offset tells an earlier one; only plain sums go by the
// offset.
Tensor bounds_of(const Tensor& offsets, const Tensor& indices, bool include_last,
                 bool is_plain_sum) {
  const Tensor starts = to(offsets, DType::int64);
  if (include_last && is_plain_sum) return contiguous(starts);
  const Tensor bags = include_last ? narrow(starts, 0, 0, starts.numel() - 1) : starts;
  return cat({bags, full(IntSpan{1}, indices.numel(), options_of(starts))}, 0);
}

// The padding row counted from the front, -1 for none.
int64_t wrapped_padding(std::optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return -1;
  CHECK(*padding_idx >= -rows && *padding_idx < rows, RuntimeError,
        "padding_idx must be within the number of embeddings, -{} through {}, but got {}", rows,
        rows - 1, *padding_idx);
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

void check_factors(const Tensor& factors, const Tensor& weight, const Tensor& indices,
                   BagMode mode) {
  if (!factors.defined()) return;
  CHECK(factors.dtype() == weight.dtype(), RuntimeError,
        "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
        "'per_sample_weights'; but type torch.{}Tensor does not equal torch.{}Tensor (while "
        "checking arguments for embedding_bag)",
        dtype_legacy_name(weight.dtype()), dtype_legacy_name(factors.dtype()));
  CHECK(mode == BagMode::sum && factors.sizes() == indices.sizes(), RuntimeError,
        "embedding_bag: per_sample_weights take mode sum and the shape of the indices, {}; got "
        "mode {} and shape {}",
        indices.sizes(), static_cast<int64_t>(mode), factors.sizes());
}

using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The result and what is told of the bags beside it, in the dtype of the indices. As in PyTorch on
// the CPU, the bags of a sum are not counted.
Quadruple with_facts(const Tensor& out, const Bagging& b, DType dtype) {
  const NoGrad off;
  Tensor bag_size = to(b.bag_size, dtype);
  if (b.mode == BagMode::sum) bag_size = zeros_like(bag_size, dtype);
  const Tensor chosen =
      b.mode == BagMode::max ? to(clamp(b.chosen, Scalar(0), {}), dtype) : clone(bag_size);
  return {out, to(b.bag_of, dtype), bag_size, chosen};
}

Quadruple embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                        bool scale_grad_by_freq, int64_t mode, bool sparse,
                        const Tensor& per_sample_weights, bool include_last_offset,
                        std::optional<int64_t> padding_idx) {
  CHECK(weight.dim() == 2 && indices.dim() == 1, RuntimeError,
        "embedding_bag: expected a matrix of weights and a vector of indices, got shapes {} and {}",
        weight.sizes(), indices.sizes());
  CHECK(mode >= 0 && mode <= 2, ValueError, "embedding_bag: unknown mode {}", mode);
  check_dtype("indices", 1, indices);
  check_dtype("offsets", 1, offsets);
  check_weight(weight);
  check_offsets(offsets, indices, include_last_offset);
  const int64_t rows = weight.sizes()[0], width = weight.sizes()[1];
  const int64_t padding = wrapped_padding(padding_idx, rows);
  const auto how = static_cast<BagMode>(mode);
  const Tensor& factors = per_sample_weights;
  check_factors(factors, weight, indices, how);
  Bagging b{contiguous(to(detach(indices), DType::int64)),
            {},
            {},
            {},
            how,
            rows,
            padding,
            scale_grad_by_freq,
            sparse};
  Tensor out;
  {
    const NoGrad off;
    const bool is_plain_sum =
        how == BagMode::sum && padding < 0 && weight.dtype() != DType::float64;
    const Tensor bounds = bounds_of(offsets, indices, include_last_offset, is_plain_sum);
    const int64_t bags = bounds.numel() - 1;
    const Options integers{.dtype = DType::int64, .device = weight.device()};
    out = make_tensor({bags, width}, weight.dtype(), weight.device());
    b.bag_of = zeros(indices.sizes(), integers), b.bag_size = zeros(IntSpan{bags}, integers);
    if (how == BagMode::max) b.chosen = zeros({bags, width}, integers);
    if (bags > 0) {
      kernels::embedding_bag(weight.device_type(), contiguous(weight), b.indices, bounds,
                             factors.defined() ? contiguous(factors) : factors, how, padding, out,
                             b.bag_of, b.bag_size, b.chosen);
    }
  }
  if (Record r{"embedding_bag", {out}, {weight, factors}}) {
    // The indices themselves are in b; what is saved of them is that nobody has written there.
    r.all([b, weight = r.save(weight), factors = factors.defined() ? r.save(factors) : Saved(),
           unchanged = r.save(indices), wants = r.wants(0)](Grads& in, Grads& to_inputs) {
      if (!in[0].defined()) return;
      (void)unchanged();
      const Tensor scale = factors.defined() ? factors() : Tensor();
      if (wants) to_inputs[0] = table_gradient(in[0], scale, b);
      if (factors.defined())
        to_inputs[1] =
            sum(spread(in[0], b) * index_select(weight(), 0, b.indices), IntSpan{1}, false);
    });
  }
  return with_facts(out, b, promote_types(indices.dtype(), offsets.dtype()));
}
OP_FUNCTION(embedding_bag,
            "embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, "
            "sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None)",
            "Sums (mode 0), means (1) or maxima (2) of the rows that each bag names; bag i goes "
            "from offsets[i] on. Also the bag of each index, the sizes of bags, and the rows that "
            "maxima came from.",
            no_out)

}  // namespace
}  // namespace flambeau
