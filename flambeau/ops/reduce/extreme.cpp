// The largest and smallest elements, with or without their indices.
#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

// The gradient of an extreme value goes to the elements that equal it, in equal parts.
Tensor share_among(const Tensor& g, const Tensor& chosen, DimSet dims) {
  Dims list;
  for (int64_t d = 0; d < chosen.dim(); ++d) {
    if (dims.has(d)) list.push_back(d);
  }
  const Tensor ties = list.empty() ? to(chosen, g.dtype()) : sum(chosen, IntSpan(list), true);
  return g / ties * chosen;
}

Tensor extreme(const char* op, const ReduceSlot& slot, const Tensor& input,
               std::optional<IntSpan> dim, bool keepdim) {
  const DimSet dims = DimSet::of(dim, input.dim());
  check_not_empty(op, input, dim);
  const Dims shape = reduced_shape(input.sizes(), dims, keepdim);
  const bool has_results = std::find(shape.begin(), shape.end(), 0) == shape.end();
  Tensor out = has_results ? reduce_with(slot, input, dims, keepdim, input.dtype())
                           : make_tensor(shape, input.dtype(), input.device());
  if (Record r{op, out, {input}}) {
    r.wrt(0, [x = r.save(input), y = r.save_output(out), dims, keepdim](const Tensor& g) {
      const Tensor values = x();
      const IntSpan sizes = values.sizes();
      return share_among(with_reduced_dims(g, sizes, dims, keepdim),
                         values == with_reduced_dims(y(), sizes, dims, keepdim), dims);
    });
  }
  return out;
}

// max() and min(): as amax and amin, except that NaN, where it is the result, takes the gradient.
Tensor extreme_of_all(const char* op, const ReduceSlot& slot, const Tensor& input) {
  const DimSet dims = DimSet::all(input.dim());
  Tensor out = reduce_with(slot, input, dims, false, input.dtype());
  if (Record r{op, out, {input}}) {
    r.wrt(0, [x = r.save(input), y = r.save_output(out), dims](const Tensor& g) {
      const Tensor values = x(), most = y();
      const Tensor chosen = (values == most) | (isnan(values) & isnan(most));
      // A gradient that is no number stays with the elements that it belongs to.
      return where(chosen, share_among(g, chosen, dims), 0.0);
    });
  }
  return out;
}

Pair extreme_with_index(const char* op, const ReduceSlot& slot, const Tensor& input, int64_t dim,
                        bool keepdim) {
  const DimSet dims = DimSet::of(dim, input.dim());
  if (input.dim() > 0) check_not_empty(op, input, IntSpan(dim));
  CHECK(!input.is_complex(), TypeError, "{}(): does not support complex input", op);
  const Dims shape = reduced_shape(input.sizes(), dims, keepdim);
  Tensor values = make_tensor(shape, input.dtype(), input.device());
  Tensor indices = make_tensor(shape, DType::int64, input.device());
  Reduction reduction;
  describe_reduction(reduction, input, dims, values, indices);
  slot(input.device_type(), reduction);
  record_selection(op, input, dim, keepdim, values, indices);
  return {values, indices};
}

Tensor index_of_extreme(const char* op, const ReduceSlot& slot, const Tensor& input,
                        std::optional<int64_t> dim, bool keepdim) {
  CHECK(!input.is_complex(), TypeError, "{}(): does not support complex input", op);
  CHECK(input.dtype() != DType::bool_, NotImplementedError, "{}(): does not support bool input",
        op);
  CHECK(dim || input.numel() > 0, IndexError,
        "{}(): Expected reduction dim to be specified for input.numel() == 0.", op);
  const DimSet dims = dim ? DimSet::of(*dim, input.dim()) : DimSet::all(input.dim());
  if (dim && input.dim() > 0) check_not_empty(op, input, IntSpan(*dim));
  // Indices into the whole tensor count in its logical order.
  const Tensor x = dim ? input : contiguous(detach(input));
  Tensor indices = make_tensor(reduced_shape(x.sizes(), dims, keepdim), DType::int64, x.device());
  Reduction reduction;
  describe_reduction(reduction, x, dims, {}, indices);
  slot(x.device_type(), reduction);
  return indices;
}

Tensor max_all(const Tensor& input) {
  check_not_empty("max", input, std::nullopt);
  return extreme_of_all("max.1", kernels::amax, input);
}
Tensor min_all(const Tensor& input) {
  check_not_empty("min", input, std::nullopt);
  return extreme_of_all("min.1", kernels::amin, input);
}
void check_real(const char* op, const Tensor& input) {
  CHECK(!input.is_complex(), TypeError, "{}(): does not support complex input", op);
}
Tensor max_of_two(const Tensor& input, const Tensor& other) {
  check_real("max", input), check_real("max", other);
  return maximum(input, other);
}
Tensor min_of_two(const Tensor& input, const Tensor& other) {
  check_real("min", input), check_real("min", other);
  return minimum(input, other);
}
Pair max_along(const Tensor& input, int64_t dim, bool keepdim) {
  return extreme_with_index("max", kernels::max_index, input, dim, keepdim);
}
Pair min_along(const Tensor& input, int64_t dim, bool keepdim) {
  return extreme_with_index("min", kernels::min_index, input, dim, keepdim);
}
OP(max_all, "max(input)", "The largest element; NaN if there is one.",
   casts_out | reduces | takes_jagged | foreach)
OP(max_of_two, "max.other(input, other)", "The larger of input and other, element by element.",
   casts_out | reduces | takes_jagged | foreach | composed)
OP(max_along, "max.dim(input, dim, keepdim=False) -> (values, indices)",
   "The largest elements along dim and the index of the first of each.",
   reduces | takes_jagged | foreach)
OP(min_all, "min(input)", "The smallest element; NaN if there is one.",
   casts_out | reduces | takes_jagged)
OP(min_of_two, "min.other(input, other)", "The smaller of input and other, element by element.",
   casts_out | reduces | takes_jagged | composed)
OP(min_along, "min.dim(input, dim, keepdim=False) -> (values, indices)",
   "The smallest elements along dim and the index of the first of each.", reduces | takes_jagged)

}  // namespace

Tensor amax(const Tensor& input, std::optional<IntSpan> dim, bool keepdim) {
  REDIRECT(amax, input, dim, keepdim)
  return extreme("amax", kernels::amax, input, dim, keepdim);
}
Tensor amin(const Tensor& input, std::optional<IntSpan> dim, bool keepdim) {
  REDIRECT(amin, input, dim, keepdim)
  return extreme("amin", kernels::amin, input, dim, keepdim);
}
OP(amax, "amax(input, dim=None, keepdim=False)",
   "The largest elements along the given dimensions; equal ones share the gradient.",
   reduces | takes_jagged | out_repeats)
OP(amin, "amin(input, dim=None, keepdim=False)",
   "The smallest elements along the given dimensions; equal ones share the gradient.",
   reduces | takes_jagged | out_repeats)

namespace {

Pair aminmax(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  CHECK(!input.is_complex(), TypeError, "aminmax not implemented for {}",
        dtype_legacy_name(input.dtype()));
  CHECK(dim || input.numel() > 0, RuntimeError,
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
        "identity.");
  const std::optional<IntSpan> dims = dim ? std::optional(IntSpan(*dim)) : std::nullopt;
  if (dim) {
    wrap_dim(*dim, input.dim());
    CHECK(input.dim() == 0 || input.size(*dim) != 0, IndexError,
          "aminmax(): Expected reduction dim {} to have non-zero size.", *dim);
  }
  return {extreme("aminmax", kernels::amin, input, dims, keepdim),
          extreme("aminmax", kernels::amax, input, dims, keepdim)};
}
OP(aminmax, "aminmax(input, *, dim=None, keepdim=False) -> (min, max)",
   "The smallest and the largest elements, of all or along dim.", reduces)

}  // namespace

Tensor argmax(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  REDIRECT(argmax, input, dim, keepdim)
  return index_of_extreme("argmax", kernels::max_index, input, dim, keepdim);
}
Tensor argmin(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  REDIRECT(argmin, input, dim, keepdim)
  return index_of_extreme("argmin", kernels::min_index, input, dim, keepdim);
}

OP(argmax, "argmax(input, dim=None, keepdim=False)",
   "The index of the first largest element, of all in row-major order or along dim.",
   reduces | takes_jagged | gives_bool)
OP(argmin, "argmin(input, dim=None, keepdim=False)",
   "The index of the first smallest element, of all in row-major order or along dim.",
   reduces | takes_jagged | gives_bool)

// Of two tensors, element by element.
static bool batch_extreme(Batching& batch, Result& result) {
  return batch.find("other") >= 0 ? batch_elementwise(batch, result) : batch_by_kind(batch, result);
}
BATCH(max, batch_extreme)
BATCH(min, batch_extreme)

}  // namespace flambeau
