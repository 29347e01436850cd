// Ops whose elements a mask names, the positions of nonzeros, and what every write by index asks
// about shared memory.
#include <cstring>
#include <variant>

#include "flambeau/base/warn.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

void check_mask(const char* op, const Tensor& mask) {
  CHECK(mask.dtype() == DType::bool_, RuntimeError,
        "{} only supports boolean masks, but got mask with dtype {}", op,
        dtype_legacy_name(mask.dtype()));
}

void check_single_value(const Operand& value) {
  CHECK(!value.is_tensor() || value.tensor().dim() == 0, RuntimeError,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} "
        "dimension(s).",
        value.tensor().dim());
}

// out = value where the mask says so, else input. `out` may be the input.
void fill_where(const char* op, Tensor out, const Tensor& input, const Tensor& mask,
                const Operand& value) {
  check_mask("masked_fill_", mask);
  const DType dtype = input.dtype();
  common_device(op, {input, mask, value});
  check_single_value(value);
  Operand filling = value;
  Tensor cast;
  if (value.is_tensor()) {
    const Tensor& tensor = value.tensor();
    const NoGrad off;
    if (tensor.dtype() != dtype && tensor.device().is_cpu() && input.numel() > 0) {
      check_number_fits(op, item(tensor), dtype);
    }
    cast = apart_from(input, cast_operand(value, dtype, input.device()));
    filling = Operand(cast);
  } else {
    check_number_fits(op, value.scalar(), dtype);
  }
  const Operand inputs[] = {mask, filling, input};
  TensorIter iter;
  iter.build({op}, &out, &dtype, 1, inputs, 3, dtype);
  kernels::where(input.device_type(), iter);
}

void record_fill(Record& r, const Tensor& mask) {
  const Saved saved = r.save(mask);
  r.wrt(0, [saved](const Tensor& g) { return masked_fill(g, saved(), 0); });
  r.wrt(1, [saved](const Tensor& g) { return sum(where(saved(), g, 0)); });
}

const char* fill_name(const Operand& value) {
  return value.is_tensor() ? "masked_fill.1" : "masked_fill";
}

const Tensor& tensor_or_none(const Operand& operand) {
  static const Tensor none;
  return operand.is_tensor() ? operand.tensor() : none;
}

}  // namespace

void check_no_overlap(const char* op, const Tensor& target, const Tensor& values) {
  const bool same_window = values.storage() == target.storage() &&
                           values.offset() == target.offset() && values.numel() > 0 &&
                           values.sizes() == target.sizes() &&
                           values.strides() == target.strides() &&
                           is_non_overlapping_and_dense(values.sizes(), values.strides());
  if (!values.is_same(target) && !same_window) return check_no_partial_overlap(op, target, values);
  fail<RuntimeError>(
      "{}: unsupported operation: some elements of the input tensor and the written-to tensor "
      "refer to a single memory location. Please clone() the tensor before performing the "
      "operation.",
      op);
}

bool overlaps_itself(const Tensor& tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor->sizes[d] > 1 && tensor->strides[d] == 0) return true;
  }
  return false;
}

void warn_if_expanded(const char* op, const Tensor& self) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self->strides[d] != 0 || self->sizes[d] < 2) continue;
    return warn(format(
        "Use of {} on expanded tensors is deprecated. Please clone() the tensor before performing "
        "this operation.",
        op));
  }
}

Tensor masked_fill_(const Tensor& self, const Tensor& mask, const Operand& value) {
  REDIRECT(masked_fill_, self, mask, value)
  check_inplace("masked_fill_", self, value.requires_grad());
  warn_if_expanded("masked_fill_", self);
  if (overlaps_itself(self)) {
    // Each element is written once where the mask asks for it, or not at all.
    check_mask("masked_fill_", mask);
    check_single_value(value);
    if (!value.is_tensor()) check_number_fits("masked_fill_", value.scalar(), self.dtype());
    const NoGrad off;
    write_at("masked_fill_", make_alias(self), {expand(mask, self.sizes())},
             cast_operand(value, self.dtype(), self.device()), WriteMode::assign);
  } else {
    fill_where("masked_fill_", self, self, mask, value);
  }
  self.bump_version("masked_fill_");
  if (Record r = Record::in_place(fill_name(value), self, {tensor_or_none(value)}))
    record_fill(r, mask);
  return self;
}
Tensor masked_fill(const Tensor& input, const Tensor& mask, const Operand& value) {
  REDIRECT(masked_fill, input, mask, value)
  Tensor out =
      make_tensor(broadcast_shapes(mask.sizes(), input.sizes()), input.dtype(), input.device());
  fill_where("masked_fill", out, input, mask, value);
  if (Record r{fill_name(value), out, {input, tensor_or_none(value)}}) record_fill(r, mask);
  return out;
}
OP(masked_fill, "masked_fill(input, mask, value)", "A copy of input with value where mask is true.",
   elementwise | takes_nested | no_out)
OP_METHOD(masked_fill_, "masked_fill_(self, mask, value)", "Writes value where mask is true.",
          elementwise | takes_nested)

// A value that each sample has one of is no single one.
static bool batch_masked_fill(Batching& batch, Result& result) {
  if (!batch.is_batched(2)) return batch_elementwise(batch, result);
  const Tensor input = batch.tensor(0);
  const int64_t rank = std::max(batch.rank(0), batch.rank(1));
  const Tensor value = tensor_op("to", {aligned(batch, batch.tensor(2), rank), input.dtype()});
  result.form = Result::Form::tensor;
  result.tensor = tensor_op(
      "where", {aligned(batch, batch.tensor(1), rank), value, aligned(batch, input, rank)});
  return true;
}
static bool batch_masked_fill_(Batching& batch, Result& result) {
  return !batch.is_batched(2) && batch_elementwise(batch, result);
}
BATCH(masked_fill, batch_masked_fill)
BATCH(masked_fill_, batch_masked_fill_)

Tensor masked_select(const Tensor& input, const Tensor& mask) {
  REDIRECT(masked_select, input, mask)
  CHECK(mask.dtype() == DType::bool_, RuntimeError,
        "masked_select: expected BoolTensor for mask, got {}", mask.dtype());
  common_device("masked_select", {input, mask});
  const Dims shape = broadcast_shapes(mask.sizes(), input.sizes());
  Tensor out;
  {
    const NoGrad off;
    out = read_at("masked_select", expand(input, shape), {expand(mask, shape)});
  }
  if (Record r{"masked_select", out, {input}}) {
    r.wrt(0, [shape, saved = r.save(mask)](const Tensor& g) {
      return masked_scatter(zeros(shape, options_of(g)), saved(), g);
    });
  }
  return out;
}
OP(masked_select, "masked_select(input, mask)",
   "The elements of input where mask is true, as a vector.", picks | moves | dynamic_shape)

namespace {

// By the number that each element has among those which the mask names: nobody has to wait to know
// how many there are. Where the source has too few, the last numbers are found to be out of range.
void scatter_by_number(const Tensor& self, const Tensor& mask, const Tensor& source) {
  const Tensor chosen = contiguous(expand(mask, self.sizes())), flat = reshape(chosen, -1);
  const Tensor numbers = make_tensor(flat.numel(), DType::int64, self.device());
  kernels::cumsum(self.device_type(), to(flat, DType::int64), numbers, 0, false);
  const Tensor positions = where(flat, numbers - 1, int64_t{0});
  const Tensor values = reshape(index_select(reshape(source, -1), 0, positions), self.sizes());
  copy_(self, where(chosen, values, self));
}

// Where the source shares memory with self, what is read may have been written already: elements go
// one after the other, as in PyTorch.
void scatter_shared(const Tensor& self, const Tensor& positions, const Tensor& source) {
  const int64_t extent = storage_extent(self.sizes(), self.strides());
  const Tensor all = make_alias(arange(0, extent, 1, Options()), self.sizes(), self.strides(), 0);
  const Tensor targets = index_select(reshape(all, -1), 0, positions);
  const auto* at = targets.data<int64_t>();
  const auto size = static_cast<size_t>(self.item_size());
  auto* to = static_cast<char*>(self.raw());
  const auto* from = static_cast<const char*>(source.raw());
  for (int64_t k = 0; k < positions.numel(); ++k) {
    std::memmove(to + static_cast<size_t>(at[k]) * size, from + static_cast<size_t>(k) * size,
                 size);
  }
}

Tensor masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_inplace("masked_scatter_", self, source.requires_grad());
  check_mask("masked_scatter_", mask);
  CHECK(self.dtype() == source.dtype(), RuntimeError,
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        dtype_legacy_name(self.dtype()), dtype_legacy_name(source.dtype()));
  common_device("masked_scatter_", {self, mask, source});
  check_no_internal_overlap("masked_scatter_", self);
  const bool on_device = !self.device().is_cpu() && !self.device().is_meta();
  if (on_device && source.numel() > 0 && self.numel() > 0) {
    const NoGrad off;
    scatter_by_number(make_alias(self), mask, apart_from(self, source));
  } else if (!self.device().is_meta()) {
    const NoGrad off;
    const Tensor window = make_alias(self);
    const Tensor positions = nonzero_flat(expand(mask, self.sizes()));
    const int64_t count = positions.numel();
    CHECK(count <= source.numel(), RuntimeError,
          "masked_scatter: Number of elements of source < number of ones in mask ({} < {})",
          source.numel(), count);
    if (self.storage() == source.storage()) {
      scatter_shared(window, positions, contiguous(source));
    } else {
      const Tensor values = narrow(reshape(source, -1), 0, 0, count);
      write_at("masked_scatter_", window, {expand(mask, self.sizes())}, values, WriteMode::assign);
    }
  }
  self.bump_version("masked_scatter_");
  if (Record r = Record::in_place("masked_scatter", self, {source})) {
    const Saved saved = r.save(mask);
    r.wrt(0, [saved](const Tensor& g) { return masked_fill(g, saved(), 0); });
    r.wrt(1, [saved, shape = source->sizes, numel = source.numel()](const Tensor& g) {
      const Tensor used = masked_select(g, expand(saved(), g.sizes()));
      const Tensor all =
          embed("masked_scatter_backward", used, numel,
                [count = used.numel()](const Tensor& whole) { return narrow(whole, 0, 0, count); });
      return reshape(all, shape);
    });
  }
  return self;
}

}  // namespace

Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source) {
  REDIRECT(masked_scatter, input, mask, source)
  const Dims shape = broadcast_shapes(mask.sizes(), input.sizes());
  return masked_scatter_(clone(expand(input, shape), MemoryFormat::contiguous), mask, source);
}
OP(masked_scatter, "masked_scatter(input, mask, source)",
   "A copy of input with the elements of source, in order, where mask is true.", no_out)
OP_METHOD(masked_scatter_, "masked_scatter_(self, mask, source)",
          "Writes the elements of source, in order, where mask is true.")

// --- Positions ---------------------------------------------------------------------------------

namespace {

Tensor positions(const Tensor& input, bool flat) {
  CHECK(!input.device().is_meta(), NotImplementedError,
        "nonzero: the shape of the result depends on the data, which a meta tensor does not have");
  const NoGrad off;
  if (input.dtype() == DType::complex32) return positions(to(input, DType::complex64), flat);
  Tensor out;
  kernels::nonzero(input.device_type(), contiguous(input), flat, out);
  return out;
}

}  // namespace

Tensor nonzero_flat(const Tensor& input) { return positions(input, true); }
Tensor nonzero_columns(const Tensor& input) { return positions(input, false); }

Tensor nonzero(const Tensor& input) {
  REDIRECT(argwhere, input)
  const NoGrad off;
  const Tensor columns = nonzero_columns(input);
  return make_alias(columns, {columns->sizes[1], columns->sizes[0]}, {1, columns->sizes[1]}, 0);
}

namespace {

std::vector<Tensor> nonzero_tuple(const Tensor& input) {
  const NoGrad off;
  if (input.dim() == 0) return {nonzero_flat(input)};
  const Tensor columns = nonzero_columns(input);
  std::vector<Tensor> out;
  for (int64_t d = 0; d < input.dim(); ++d) {
    const int64_t count = columns->sizes[1];
    out.push_back(make_alias(columns, count, 1, d * count));
  }
  return out;
}

std::variant<Tensor, std::vector<Tensor>> nonzero_op(const Tensor& input, bool as_tuple) {
  if (as_tuple) return nonzero_tuple(input);
  return nonzero(input);
}

}  // namespace
OP(nonzero_op, "nonzero(input, *, as_tuple=False)",
   "The positions of the elements that are not zero: a row each, or a vector per dimension.",
   dynamic_shape | out_drops | cpp_by_hand)
OP(nonzero, "argwhere.nonzero.default(input)",
   "The positions of the elements that are not zero, a row each.", no_out)
OP_FUNCTION(nonzero_tuple, "where(condition)",
            "The positions where condition is true, a vector per dimension.", dynamic_shape)

}  // namespace flambeau
