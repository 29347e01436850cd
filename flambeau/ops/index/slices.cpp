// Ops that take, add, copy and fill whole slices along one dimension, which a vector of indices
// names.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/op.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {

namespace {

Tensor vector_index(const char* op, const Tensor& index, const Tensor& self) {
  CHECK(index.dim() <= 1, IndexError,
        "{}(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}", op,
        index.dim(), dtype_legacy_name(index.dtype()), index.sizes());
  const Tensor checked = checked_index(op, index, self.device());
  return checked.dim() == 0 ? make_alias(checked, 1, 1, checked.offset()) : checked;
}

// self, or its only element as a vector.
Tensor with_dims(const Tensor& self) {
  return self.dim() == 0 ? make_alias(self, 1, 1, self.offset()) : self;
}

void check_same_type(const char* op, const Tensor& self, const Tensor& source) {
  CHECK(self.dtype() == source.dtype(), RuntimeError,
        "{}(): self ({}) and source ({}) must have the same scalar type", op,
        dtype_legacy_name(self.dtype()), dtype_legacy_name(source.dtype()));
  CHECK(self.device() == source.device(), RuntimeError,
        "{}(): self and source must be on the same device, got {} and {}", op, self.device(),
        source.device());
}

// How many slices source has along dim; -1 if it has no such dimension.
int64_t slices_of(const Tensor& source, int64_t dim) {
  return source.dim() == 0 ? 1 : dim < source.dim() ? source->sizes[dim] : -1;
}

// Checks that slices of source have the shape of those of self.
void check_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& source) {
  bool same = self.dim() == source.dim();
  for (int64_t d = 0; same && d < self.dim(); ++d) {
    same = d == dim || self->sizes[d] == source->sizes[d];
  }
  CHECK(same, RuntimeError,
        "{}(): source tensor shape must match self tensor shape, excluding the specified "
        "dimension. Got "
        "self.shape = {} source.shape = {}",
        op, self.sizes(), source.sizes());
}

}  // namespace

Tensor index_of_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source) {
  Tensor vector = vector_index(op, index, self);
  check_same_type(op, self, source);
  CHECK(vector.numel() == slices_of(source, dim), RuntimeError,
        "{}(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {}", op,
        vector.numel(), slices_of(source, dim), dim);
  check_slices(op, self, dim, source);
  return vector;
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  REDIRECT(index_select, input, dim, index)
  dim = wrap_dim(dim, input.dim());
  CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, RuntimeError,
        "index_select(): Expected dtype int32 or int64 for index, got {}", index.dtype());
  const Tensor vector = vector_index("index_select", index, input);
  CHECK(input.dim() > 0 || vector.numel() == 1, RuntimeError,
        "index_select(): Index to scalar can have only 1 value, got {} value(s)", vector.numel());
  const Tensor source = with_dims(input);
  const bool nowhere = source.size(dim) == 0 && vector.numel() > 0;
  CHECK(!nowhere || source.dim() > 1, IndexError, "index_select(): index out of range in self");
  CHECK(!nowhere, RuntimeError,
        "index_select(): self indexing axis dim should be positive (dim {} of shape {})", dim,
        input.sizes());
  Tensor out = read_along("index_select", source, dim, vector, {.runtime_error = dim == 1});
  if (out.numel() == 0) {  // its indices are looked at all the same
    const Tensor slices = zeros(source.size(dim), options_of(vector));
    read_along("index_select", slices, 0, vector, {.runtime_error = true});
  }
  if (input.dim() == 0) out = make_alias(out, {}, {}, out.offset());
  if (Record r{"index_select", out, {input}}) {
    r.wrt(0, [shape = input->sizes, dim, saved = r.save(index)](const Tensor& g) {
      return index_add_(zeros(shape, options_of(g)), dim, saved(), g, 1);
    });
  }
  return out;
}
OP(index_select, "index_select(input, dim, index)",
   "The slices of input along dim that index names.", picks | along | moves | takes_quantized)

Tensor index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha) {
  REDIRECT(index_add_, self, dim, index, source, alpha)
  check_inplace("index_add_", self, source.requires_grad());
  check_number_fits("index_add_", alpha, self.dtype());
  dim = wrap_dim(dim, self.dim());
  const Tensor vector = index_of_slices("index_add_", self, dim, index, source);
  check_no_internal_overlap("index_add_", self);
  for (const Tensor* other : {&source, &index}) check_no_overlap("index_add_", self, *other);
  Tensor values = apart_from(self, source);
  if (!(alpha == Scalar(1))) {
    const NoGrad off;
    values = to(values * alpha, self.dtype());
  }
  const IndexedDim rules{.runtime_error = self.dim() > 1};
  if (self.dim() <= 1 || self.numel() > 0) {  // else it does not matter which slices are named
    write_along("index_add_", with_dims(self), dim, vector, rules, values, WriteMode::add);
  }
  self.bump_version("index_add_");
  if (Record r = Record::in_place("index_add", self, {source})) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(1, [dim, saved = r.save_for(1, index), alpha, shape = source->sizes](const Tensor& g) {
      const Tensor picked = reshape(index_select(g, dim, saved()), shape);
      if (alpha.is_complex()) return mul_conj(picked, scalar_tensor(alpha, options_of(g)));
      return alpha == Scalar(1) ? picked : picked * alpha;
    });
  }
  return self;
}
Tensor index_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
  REDIRECT(index_add, input, dim, index, source, alpha)
  return index_add_(clone(input, MemoryFormat::contiguous), dim, index, source, alpha);
}
OP(index_add, "index_add(input, dim, index, source, *, alpha=1)",
   "A copy of input to whose slices along dim, named by index, those of source are added.", along)
OP_METHOD(index_add_, "index_add_(self, dim, index, source, *, alpha=1)",
          "Adds the slices of source to those of self along dim that index names.", along)

namespace {

Tensor index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_inplace("index_copy_", self, source.requires_grad());
  dim = wrap_dim(dim, self.dim());
  check_no_internal_overlap("index_copy_", self);
  CHECK(index.dtype() == DType::int64, RuntimeError,
        "index_copy_(): Expected a long tensor for index, but got {}",
        dtype_legacy_name(index.dtype()));
  const Tensor vector = vector_index("index_copy_", index, self);
  CHECK(source.dim() == self.dim() || source.dim() == 0 || self.dim() == 0, IndexError,
        "index_copy_(): When source and destination are not scalars, their dimensionality must "
        "match. Source dimensionality ({}), destination dimensionality ({})",
        source.dim(), self.dim());
  check_same_type("index_copy_", self, source);
  CHECK(vector.numel() == slices_of(source, dim), IndexError,
        "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({})",
        vector.numel(), slices_of(source, dim));
  if (source.dim() > 0 && self.dim() > 0) check_slices("index_copy_", self, dim, source);
  check_no_overlap("index_copy_", self, source);
  check_no_overlap("index_copy_", self, index);
  write_along("index_copy_", with_dims(self), dim, vector, {}, apart_from(self, source),
              WriteMode::assign);
  self.bump_version("index_copy_");
  if (Record r = Record::in_place("index_copy", self, {source})) {
    const Saved saved = r.save(index);
    r.wrt(0, [dim, saved](const Tensor& g) { return index_fill(g, dim, saved(), 0); });
    r.wrt(1, [dim, saved, shape = source->sizes](const Tensor& g) {
      return reshape(index_select(g, dim, saved()), shape);
    });
  }
  return self;
}
Tensor index_copy(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source) {
  return index_copy_(clone(input, MemoryFormat::contiguous), dim, index, source);
}

}  // namespace
OP(index_copy, "index_copy(input, dim, index, source)",
   "A copy of input whose slices along dim, named by index, are those of source.",
   along | cpu_widest)
OP_METHOD(index_copy_, "index_copy_(self, dim, index, source)",
          "Writes the slices of source into those of self along dim that index names.", along)

namespace {

Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value) {
  check_inplace("index_fill_", self, value.requires_grad());
  warn_if_expanded("index_fill_", self);
  check_no_overlap("index_fill_", self, index);
  CHECK(!value.is_tensor() || value.tensor().dim() == 0, RuntimeError,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} "
        "dimension(s).",
        value.tensor().dim());
  dim = wrap_dim(dim, self.dim());
  CHECK(index.dtype() == DType::int64, IndexError,
        "index_fill_(): Expected dtype int64 for index, got {}", index.dtype());
  const Tensor vector = vector_index("index_fill_", index, self);
  const Tensor target = with_dims(self);
  CHECK(target.size(dim) > 0 || vector.numel() == 0, RuntimeError,
        "index_fill_: dimension {} of a tensor of shape {} has nothing to fill", dim, self.sizes());
  const bool complex =
      value.is_tensor() ? value.tensor().is_complex() : value.scalar().is_complex();
  CHECK(!complex || self.is_complex(), RuntimeError,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  if (!value.is_tensor() || (value.tensor().dtype() != self.dtype() && self.device().is_cpu())) {
    const Scalar number = value.is_tensor() ? item(value.tensor()) : value.scalar();
    check_number_fits("index_fill_", number, self.dtype());
  }
  Tensor filling;
  {
    const NoGrad off;
    filling = cast_operand(value, self.dtype(), self.device());
  }
  write_along("index_fill_", target, dim, vector, python_rules, filling, WriteMode::assign);
  self.bump_version("index_fill_");
  static const Tensor none;
  if (Record r = Record::in_place(value.is_tensor() ? "index_fill.1" : "index_fill", self,
                                  {value.is_tensor() ? value.tensor() : none})) {
    const Saved saved = r.save(index);
    r.wrt(0, [dim, saved](const Tensor& g) { return index_fill(g, dim, saved(), 0); });
    // Everything that reaches the filled elements, each counted once.
    r.wrt(1, [dim, saved](const Tensor& g) { return sum(g - index_fill(g, dim, saved(), 0)); });
  }
  return self;
}

}  // namespace

Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Operand& value) {
  REDIRECT(index_fill, input, dim, index, value)
  return index_fill_(clone(input), dim, index, value);
}
OP(index_fill, "index_fill.int_Tensor/int_Scalar(input, dim, index, value)",
   "A copy of input whose slices along dim, named by index, are filled with value.", along | no_out)
OP_METHOD(index_fill_, "index_fill_.int_Tensor/int_Scalar(self, dim, index, value)",
          "Fills the slices of self along dim that index names with value.", along)

BATCH(index_select, batch_at_index)
BATCH(index_add, batch_at_index)
BATCH(index_copy, batch_at_index)
BATCH(index_fill, batch_at_index)

}  // namespace flambeau
