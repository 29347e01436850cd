// gather and scatter, whose index tensor names a place along one dimension for every element, and
// take and put, which see a tensor as flat.
#include "flambeau/base/warn.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {
namespace {

// A zero-dim tensor counts as a vector of one element.
int64_t rank_of(const Tensor& tensor) { return std::max<int64_t>(tensor.dim(), 1); }
int64_t size_at(const Tensor& tensor, int64_t dim) {
  return tensor.dim() == 0 ? 1 : tensor->sizes[dim];
}

// `tensor` over the shape of the index, standing still along `dim` if there is one.
Tensor over_index(const Tensor& tensor, const Tensor& index, int64_t dim) {
  Dims strides = tensor->strides;
  strides.resize(index.dim(), 0);
  if (dim >= 0 && dim < index.dim()) strides[dim] = 0;
  return make_alias(tensor, index.sizes(), strides, tensor.offset());
}

IndexedDim along(const Tensor& self, int64_t dim) {
  const int64_t stride = self.dim() == 0 ? 1 : self->strides[dim];
  const int64_t size = size_at(self, dim);
  // The stride of a single place may be any number.
  return {dim, size, size > 1 ? scaled_stride(stride, self.item_size()) : 0, false, true};
}

}  // namespace

Tensor gather(const Tensor& input, int64_t dim, const Tensor& index) {
  REDIRECT(gather, input, dim, index)
  dim = wrap_dim(dim, input.dim());
  // An index without elements may have any dtype and shape.
  const bool any = index.numel() > 0;
  const Tensor indices =
      any ? checked_index("gather", index, input.device()) : to(index, DType::int64);
  if (any) {
    CHECK(rank_of(index) == rank_of(input), RuntimeError,
          "gather: Index tensor must have the same number of dimensions as input tensor, got {} "
          "and {}",
          index.sizes(), input.sizes());
    for (int64_t d = 0; d < rank_of(input); ++d) {
      CHECK(d == dim || size_at(index, d) <= size_at(input, d), RuntimeError,
            "gather: Size does not match at dimension {} expected index {} to be no larger than "
            "self {} "
            "apart from dimension {}",
            d, index.sizes(), input.sizes(), dim);
    }
  }
  Tensor out = make_tensor(index.sizes(), input.dtype(), input.device());
  if (out.numel() > 0) {
    const DType dtype = input.dtype();
    const Tensor window = over_index(input, index, dim);
    const Operand inputs[] = {window, indices};
    TensorIter iter;
    iter.build({"gather", false, false}, &out, &dtype, 1, inputs, 2, dtype);
    kernels::gather(input.device_type(), iter, along(input, dim));
  }
  if (Record r{"gather", out, {input}}) {
    r.wrt(0, [shape = input->sizes, dim, saved = r.save(any ? index : indices)](const Tensor& g) {
      return scatter_add_(zeros(shape, options_of(g)), dim, saved(), g);
    });
  }
  return out;
}
namespace {
Tensor gather_op(const Tensor& input, int64_t dim, const Tensor& index, bool) {
  return gather(input, dim, index);
}
}  // namespace
OP(gather_op, "gather(input, dim, index, *, sparse_grad=False)",
   "For every element of index, the element of input at that place along dim.",
   picks | along | moves)

// --- scatter -----------------------------------------------------------------------------------

namespace {

void check_scatter(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                   const Operand& src) {
  if (src.is_tensor()) {
    CHECK(src.tensor().dtype() == self.dtype(), RuntimeError,
          "{}(): Expected self.dtype to be equal to src.dtype, got {} and {}", op, self.dtype(),
          src.tensor().dtype());
    check_same_device(op, self.device(), src.tensor().device());
  } else if (index.numel() > 0) {
    check_number_fits(op, src.scalar(), self.dtype());
  }
  if (index.numel() == 0) return;
  CHECK(rank_of(index) == rank_of(self), RuntimeError,
        "{}: Index tensor must have the same number of dimensions as self tensor, got {} and {}",
        op, index.sizes(), self.sizes());
  bool fits = true;
  for (int64_t d = 0; d < rank_of(self); ++d)
    fits &= d == dim || size_at(index, d) <= size_at(self, d);
  if (!src.is_tensor()) {
    CHECK(fits, RuntimeError,
          "{}: Expected index {} to be no larger than self {} apart from dimension {}", op,
          index.sizes(), self.sizes(), dim);
    return;
  }
  const Tensor& source = src.tensor();
  CHECK(rank_of(index) <= rank_of(source), IndexError,
        "{}: Index tensor must have the same number of dimensions as src tensor, got {} and {}", op,
        index.sizes(), source.sizes());
  CHECK(rank_of(index) == rank_of(source), RuntimeError,
        "{}: Index tensor must have the same number of dimensions as src tensor, got {} and {}", op,
        index.sizes(), source.sizes());
  for (int64_t d = 0; d < rank_of(source); ++d) fits &= size_at(index, d) <= size_at(source, d);
  CHECK(fits, RuntimeError,
        "{}: Expected index {} to be no larger than self {} apart from dimension {} and to be no "
        "larger "
        "size than src {}",
        op, index.sizes(), self.sizes(), dim, source.sizes());
}

}  // namespace

Tensor apart_from(const Tensor& target, const Tensor& values) {
  const NoGrad off;
  return values.storage() == target.storage() ? clone(values) : values;
}

Tensor place_of_sums(const Tensor& self, int64_t per_element, int64_t count) {
  const bool narrow = self.dtype() == DType::float16 || self.dtype() == DType::bfloat16;
  // A few may be rounded one by one where it would take longer to convert all of self.
  const bool many = per_element > 16 || (per_element > 1 && count >= self.numel() / 4);
  const NoGrad off;
  return narrow && many && self.device().is_cpu() ? to(self, DType::float32) : self;
}

void keep_sums(const Tensor& self, const Tensor& sums) {
  if (sums.dtype() == self.dtype()) return;
  const NoGrad off;
  const Tensor window = make_alias(self);
  window->version = {};  // the caller counts this write
  copy_(window, sums);
}

// The only index of each slice along dim, as a vector, where an expanded index names whole slices.
static Tensor index_of_whole_slices(const Tensor& index, int64_t dim) {
  bool whole = index.dim() > 1 && index.device().is_cpu();
  for (int64_t d = 0; whole && d < index.dim(); ++d) {
    whole = d == dim || index->strides[d] == 0;
  }
  return whole ? make_alias(index, index->sizes[dim], index->strides[dim], index.offset())
               : Tensor();
}

void write_scattered(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                     const Operand& src, WriteMode mode) {
  check_inplace(op, self, src.requires_grad());
  const Tensor indices = checked_index(op, index, self.device());
  check_scatter(op, self, dim, index, src);
  check_no_internal_overlap(op, self);
  check_no_overlap(op, self, index);
  if (src.is_tensor()) check_no_overlap(op, self, src.tensor());
  if (index.numel() > 0) {
    const NoGrad off;
    // Written one after the other, unlike values that replace each other.
    if (const Tensor slices = index_of_whole_slices(indices, dim);
        slices.defined() && src.is_tensor() && mode != WriteMode::assign) {
      Dims sizes = index->sizes;
      sizes[dim] = self->sizes[dim];
      write_along(op, corner(self, sizes), dim, slices, {.runtime_error = true},
                  over_index(apart_from(self, src.tensor()), index, -1), mode);
      return self.bump_version(op);
    }
    const Tensor target =
        mode == WriteMode::add ? place_of_sums(self, size_at(index, dim), index.numel()) : self;
    const DType dtype = target.dtype();
    Tensor window = over_index(target, index, dim), values;
    if (src.is_tensor()) values = over_index(apart_from(self, src.tensor()), index, -1);
    if (values.defined()) values = to(values, dtype);
    const Operand inputs[] = {src.is_tensor() ? Operand(values) : src, indices};
    TensorIter iter;
    iter.build({op, false, false}, &window, &dtype, 1, inputs, 2, dtype);
    kernels::scatter(self.device_type(), iter, along(target, dim), mode);
    keep_sums(self, target);
  }
  self.bump_version(op);
}

Tensor corner(const Tensor& input, IntSpan sizes) {
  Tensor part = input;
  for (int64_t d = 0; d < part.dim(); ++d) {
    if (part->sizes[d] != sizes[d]) part = narrow(part, d, 0, sizes[d]);
  }
  return part;
}

Tensor fill_up(const Tensor& used, IntSpan shape) {
  if (used.sizes() == shape) return used;
  if (used.numel() == 0) return zeros(shape, options_of(used));
  if (used.dim() != static_cast<int64_t>(shape.size())) return reshape(used, shape);
  return embed("scatter_backward", used, shape,
               [sizes = used->sizes](const Tensor& whole) { return corner(whole, sizes); });
}

namespace {

const Tensor& tensor_or_none(const Operand& operand) {
  static const Tensor none;
  return operand.is_tensor() ? operand.tensor() : none;
}

// What reaches the elements of src: those beyond the index were not used.
Tensor source_gradient(const Tensor& g, int64_t dim, const Tensor& index, const Dims& shape) {
  return fill_up(gather(g, dim, index), shape);
}

}  // namespace

Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src) {
  REDIRECT(scatter_, self, dim, index, src)
  check_inplace("scatter_", self, src.requires_grad());
  dim = wrap_dim(dim, self.dim());
  write_scattered("scatter", self, dim, index, src, WriteMode::assign);
  const Tensor& source = tensor_or_none(src);
  if (Record r = Record::in_place(source.defined() ? "scatter" : "scatter.1", self, {source})) {
    const Saved saved = r.save(index);
    r.wrt(0, [dim, saved](const Tensor& g) { return scatter(g, dim, saved(), 0); });
    if (source.defined()) {
      r.wrt(1, [dim, saved, shape = source->sizes](const Tensor& g) {
        return source_gradient(g, dim, saved(), shape);
      });
    }
  }
  return self;
}
Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Operand& src) {
  REDIRECT(scatter, input, dim, index, src)
  return scatter_(clone(input, MemoryFormat::contiguous), dim, index, src);
}

Tensor scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  REDIRECT(scatter_add_, self, dim, index, src)
  check_inplace("scatter_add_", self, src.requires_grad());
  dim = wrap_dim(dim, self.dim());
  write_scattered("scatter_add", self, dim, index, src, WriteMode::add);
  if (Record r = Record::in_place("scatter_add", self, {src})) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(1, [dim, saved = r.save_for(1, index), shape = src->sizes](const Tensor& g) {
      return source_gradient(g, dim, saved(), shape);
    });
  }
  return self;
}
Tensor scatter_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src) {
  REDIRECT(scatter_add, input, dim, index, src)
  return scatter_add_(clone(input, MemoryFormat::contiguous), dim, index, src);
}
OP(scatter_add, "scatter_add(input, dim, index, src)",
   "A copy of input to which the elements of src are added at the positions along dim that index "
   "names.",
   along | cuda_widest)
OP_METHOD(scatter_add_, "scatter_add_(self, dim, index, src)",
          "Adds the elements of src to self at the positions along dim that index names.", along)

namespace {

// scatter with reduce="add" or "multiply".
Tensor scatter_with_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src,
                     std::optional<std::string_view> reduce) {
  if (!reduce) return scatter_(self, dim, index, src);
  CHECK(*reduce == "add" || *reduce == "multiply", RuntimeError,
        "scatter: reduce argument must be either add or multiply. Got {}", *reduce);
  CHECK(!grad_enabled() || !(self.requires_grad() || src.requires_grad()), RuntimeError,
        "scatter: the derivative for reduce='{}' is not implemented; use scatter_reduce()",
        *reduce);
  if (src.is_tensor()) {
    static std::atomic<bool> told{false};
    warn_once(told,
              "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
              "removed in a future PyTorch release. Use torch.scatter_reduce instead, which knows "
              "more reductions.");
  }
  const WriteMode mode = *reduce == "add" ? WriteMode::add : WriteMode::multiply;
  write_scattered("scatter", self, wrap_dim(dim, self.dim()), index, src, mode);
  return self;
}
Tensor scatter_with(const Tensor& input, int64_t dim, const Tensor& index, const Operand& src,
                    std::optional<std::string_view> reduce) {
  return scatter_with_(clone(input, MemoryFormat::contiguous), dim, index, src, reduce);
}
Tensor scatter_value_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                      std::optional<std::string_view> reduce) {
  return scatter_with_(self, dim, index, value, reduce);
}
Tensor scatter_value(const Tensor& input, int64_t dim, const Tensor& index, const Scalar& value,
                     std::optional<std::string_view> reduce) {
  return scatter_with_(clone(input, MemoryFormat::contiguous), dim, index, value, reduce);
}

}  // namespace
OP(scatter_with, "scatter.src(input, dim, index, src, *, reduce=None)",
   "A copy of input with the elements of src at the positions along dim that index names.", along)
OP(scatter_value, "scatter.value(input, dim, index, value, *, reduce=None)",
   "A copy of input with value at the positions along dim that index names.", along)
OP_METHOD(scatter_with_, "scatter_.src(self, dim, index, src, *, reduce=None)",
          "Writes the elements of src at the positions along dim that index names.", along)
OP_METHOD(scatter_value_, "scatter_.value(self, dim, index, value, *, reduce=None)",
          "Writes value at the positions along dim that index names.", along)

// --- take, put, take_along_dim -----------------------------------------------------------------

namespace {

Tensor long_index(const char* op, const Tensor& index) {
  CHECK(index.dtype() == DType::int64, RuntimeError,
        "{}(): Expected a long tensor for index, but got {}", op, dtype_legacy_name(index.dtype()));
  return index;
}

Tensor put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate);

Tensor take(const Tensor& input, const Tensor& index) {
  long_index("take", index);
  CHECK(input.numel() > 0 || index.numel() == 0, IndexError,
        "take(): tried to take from an empty tensor");
  Tensor out;
  {
    const NoGrad off;
    out = read_at("take", reshape(input, -1), {index});
  }
  if (Record r{"take", out, {input}}) {
    r.wrt(0, [shape = input->sizes, strides = preserved_strides(input),
              saved = r.save(index)](const Tensor& g) {
      return put_(zero_(make_strided(shape, strides, g.dtype(), g.device())), saved(), g, true);
    });
  }
  return out;
}

Tensor put(const Tensor& input, const Tensor& index, const Tensor& source, bool accumulate);

Tensor put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  long_index("put_", index);
  CHECK(source.numel() == index.numel(), IndexError,
        "put_(): Expected source and index to have the same number of elements, but got "
        "source.numel() = "
        "{}, index.numel() = {}",
        source.numel(), index.numel());
  CHECK(source.dtype() == self.dtype(), RuntimeError,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and "
        "source.dtype = {}",
        dtype_legacy_name(self.dtype()), dtype_legacy_name(source.dtype()));
  common_device("put_", {self, index, source});
  check_inplace("put_", self);
  check_no_internal_overlap("put_", self);
  check_no_overlap("put_", self, index);
  check_no_overlap("put_", self, source);
  {
    const NoGrad off;
    const Tensor window = make_alias(self);
    const Tensor flat = reshape(window, -1);  // a copy where strides do not allow a view
    write_at("put_", flat, {reshape(index, -1)}, reshape(apart_from(self, source), -1),
             accumulate ? WriteMode::add : WriteMode::assign);
    if (flat.storage() == self.storage()) {
      self.bump_version("put_");
    } else {
      copy_(window, reshape(flat, self.sizes()));  // counts as a write to self
    }
  }
  if (Record r = Record::in_place("put", self, {source})) {
    const Saved saved = r.save(index);
    r.wrt(0, [saved, accumulate, shape = source->sizes](const Tensor& g) {
      return accumulate ? g : put(g, saved(), zeros(shape, options_of(g)), false);
    });
    r.wrt(1, [saved, shape = source->sizes](const Tensor& g) {
      return reshape(take(g, saved()), shape);
    });
  }
  return self;
}
Tensor put(const Tensor& input, const Tensor& index, const Tensor& source, bool accumulate) {
  return put_(clone(input), index, source, accumulate);
}

Tensor take_along_dim(const Tensor& input, const Tensor& indices, std::optional<int64_t> dim) {
  CHECK(indices.dtype() == DType::int64, RuntimeError,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        dtype_legacy_name(indices.dtype()));
  if (!dim) return gather(reshape(input, -1), 0, reshape(indices, -1));
  CHECK(input.dim() == indices.dim(), RuntimeError,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
        "got {} "
        "dimensions for input, and {} dimensions for indices",
        input.dim(), indices.dim());
  CHECK(input.dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions",
        *dim);
  const int64_t at = wrap_dim(*dim, input.dim());
  // Everything but dim broadcasts.
  Dims a = input->sizes, b = indices->sizes;
  a[at] = b[at] = 1;
  Dims source = broadcast_shapes(a, b), wanted = source;
  source[at] = input->sizes[at];
  wanted[at] = indices->sizes[at];
  const Tensor wrapped = where(indices < 0, indices + source[at], indices);
  return gather(expand(input, source), at, expand(wrapped, wanted));
}

}  // namespace
OP(take, "take(input, index)", "The elements of input, seen as flat, at index.", picks | moves)
OP(put, "put(input, index, source, accumulate=False)",
   "A copy of input, seen as flat, with the elements of source written (or added) at index.",
   no_out)
OP_METHOD(put_, "put_(self, index, source, accumulate=False)",
          "Writes (or adds) the elements of source into self, seen as flat, at index.")
OP(take_along_dim, "take_along_dim(input, indices, dim=None)",
   "The elements of input along dim at indices; everything but dim broadcasts.",
   along | moves | composed)

// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
Tensor flat_samples(const Batching& batch, int i) {
  return reshape_to(batch.whole(i), {batch.size(), batch.tensor(i).numel()});
}
bool batch_take(Batching& batch, Result& result) {
  Dims size = batch.tensor(1).sizes().dims();
  size.insert(size.begin(), batch.size());
  const Tensor index = flat_samples(batch, 1);
  const int64_t count = batch.tensor(0).numel();
  const Tensor wrapped =
      tensor_op("where", {tensor_op("lt", {index, 0}), tensor_op("add", {index, count}), index});
  result.form = Result::Form::tensor;
  result.tensor = reshape_to(tensor_op("gather", {flat_samples(batch, 0), 1, wrapped}), size);
  return true;
}
// A sample of no dimensions is a line of one element.
bool batch_gather(Batching& batch, Result& result) {
  const int at = batch.find("index");
  if (batch.rank(0) == batch.rank(at)) return batch_by_kind(batch, result);
  return false;
}
}  // namespace
BATCH(take, batch_take)
BATCH(gather, batch_gather)

}  // namespace flambeau
