// Views: new sizes and strides over the memory of the input. A view costs one small allocation.
#include "flambeau/ops/shape/views.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"

#include <algorithm>

#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

// A view that only rearranges the input, so that reshaping the gradient undoes it.
Tensor reshaped(const char* op, const Tensor& input, IntSpan sizes, IntSpan strides) {
  Tensor out = window(input, sizes, strides, input.offset());
  if (Record r{op, out, {input}}) {
    r.wrt(0, [shape = input->sizes](const Tensor& g) { return reshape(g, shape); });
  }
  return out;
}

void check_has_dims(const char* op, const Tensor& input) {
  CHECK(input.dim() > 0, IndexError, "{}() cannot be applied to a 0-dim tensor.", op);
}

}  // namespace

// --- as_strided --------------------------------------------------------------------------------

// Note [Gradients of overlapping windows]
// A window reads memory that the input wrote. Going back, the gradient of the window is added up in
// memory, location by location, and the input reads its own gradient there. Where several elements
// of the input share a location (an expanded input), they share its gradient equally. The
// derivative of this map is the same map with the two windows exchanged.
namespace {

// False only if every element certainly has a location of its own.
bool may_overlap(const Geometry& at) {
  InlineVector<std::pair<int64_t, int64_t>, 8> dims;
  for (size_t d = 0; d < at.sizes.size(); ++d) {
    if (at.sizes[d] == 0) return false;
    if (at.sizes[d] > 1) dims.push_back({at.strides[d], at.sizes[d]});
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

// values added up in memory that begins at location `first`.
Tensor pile_up(const Tensor& values, const Geometry& at, int64_t first, int64_t extent) {
  Tensor memory = zeros(extent, options_of(values));
  const Tensor there = make_alias(memory, at.sizes, at.strides, at.offset - first);
  if (!may_overlap(at)) {
    copy_(there, values);
    return memory;
  }
  Options integers = options_of(values);
  integers.dtype = DType::int64;
  const Tensor locations = arange(0, extent, 1, integers);
  const Tensor index = make_alias(locations, at.sizes, at.strides, at.offset - first);
  return index_add_(memory, 0, reshape(index, -1), reshape(expand(values, at.sizes), -1), 1);
}

Tensor through_memory(const Tensor& values, const Geometry& from, const Geometry& to,
                      const Geometry& shared) {
  Tensor out;
  {
    const NoGrad off;
    const int64_t first = std::min(from.offset, to.offset);
    const int64_t extent = std::max(from.offset + storage_extent(from.sizes, from.strides),
                                    to.offset + storage_extent(to.sizes, to.strides)) -
                           first;
    Tensor memory = pile_up(values, from, first, extent);
    if (may_overlap(shared)) {
      const Tensor ones_there = ones(shared.sizes, options_of(values));
      memory = memory / maximum(pile_up(ones_there, shared, first, extent), ones_like(memory));
    }
    out = make_alias(memory, to.sizes, to.strides, to.offset - first);
    if (may_overlap(to)) out = clone(out, MemoryFormat::contiguous);
  }
  if (values.numel() == 0) return out;  // zeros, and no function of anything
  if (Record r{"as_strided_backward", out, {values}}) {
    r.wrt(0, [from, to, shared](const Tensor& g) { return through_memory(g, to, from, shared); });
  }
  return out;
}

}  // namespace

Tensor window_gradient(const Tensor& g, const Geometry& out, const Geometry& input) {
  return through_memory(g, out, input, input);
}

Tensor as_strided(const Tensor& input, IntSpan size, IntSpan stride,
                  std::optional<int64_t> offset) {
  REDIRECT(as_strided, input, size, stride, offset)
  Tensor out =
      make_over(input.storage(), size, stride, offset.value_or(input.offset()), input.dtype());
  out->inference = input->inference;
  out->pending = input->pending & ~Dispatched::mark;
  if (!input->inference) out->version = input.shared_version();
  mark_view(out, input);
  if (Record r{"as_strided", out, {input}}) {
    r.wrt(0, [there = geometry_of(out), here = geometry_of(input)](const Tensor& g) {
      return window_gradient(g, there, here);
    });
  }
  return out;
}
OP_VIEW(as_strided, "as_strided(input, size, stride, storage_offset=None)",
        "A view of input's memory with the given size, strides and offset.")

// --- The same elements in another shape --------------------------------------------------------

Tensor view(const Tensor& input, IntSpan size) {
  REDIRECT(view, input, size)
  const Dims sizes = infer_size(size, input.numel());
  const std::optional<Dims> strides = view_strides(input.sizes(), input.strides(), sizes);
  CHECK(strides, RuntimeError,
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead. Input size {}, strides "
        "{}, view size {}.",
        input.sizes(), input.strides(), sizes);
  return reshaped("view", input, sizes, *strides);
}

Tensor reshape(const Tensor& input, IntSpan size) {
  REDIRECT(reshape, input, size)
  const Dims sizes = infer_size(size, input.numel());
  if (const std::optional<Dims> strides = view_strides(input.sizes(), input.strides(), sizes)) {
    return reshaped("view", input, sizes, *strides);
  }
  Tensor out = make_tensor(sizes, input.dtype(), input.device());
  {
    const NoGrad off;
    copy_(make_alias(out, input.sizes(), contiguous_strides(input.sizes()), 0), input);
  }
  if (Record r{"unsafe_view", out, {input}}) {
    r.wrt(0, [shape = input->sizes](const Tensor& g) { return reshape(g, shape); });
  }
  return out;
}
OP_FUNCTION(reshape, "reshape(input, shape)",
            "input with another shape: a view where strides allow it, else a copy.",
            makes_view | reshapes | composed)
OP_METHOD(reshape, "reshape(self, *shape)",
          "self with another shape: a view where strides allow it, else a copy.",
          makes_view | reshapes | composed)

// What PyTorch makes of it.
static Tensor reshape_steps(const Tensor& input, IntSpan size) {
  const Dims sizes = infer_size(size, input.numel());
  if (view_strides(input.sizes(), input.strides(), sizes)) return view(input, sizes);
  return tensor_op("_unsafe_view", {clone(input, MemoryFormat::contiguous), sizes});
}
STEPS(reshape, reshape_steps)

Tensor alias(const Tensor& input) {
  REDIRECT(alias, input)
  return reshaped("alias", input, input.sizes(), input.strides());
}
OP_FUNCTION(alias, "alias(input)", "Another tensor over the same memory.",
            makes_view | elementwise | takes_nested)

namespace {

Tensor view_sizes(const Tensor& self, IntSpan size) { return view(self, size); }
Tensor view_as(const Tensor& self, const Tensor& other) { return view(self, other.sizes()); }
Tensor reshape_as(const Tensor& self, const Tensor& other) { return reshape(self, other.sizes()); }
Tensor ravel(const Tensor& input) { return reshape(contiguous(input), -1); }

Tensor unflatten(const Tensor& input, int64_t dim, IntSpan sizes) {
  dim = wrap_dim(dim, input.dim());
  CHECK(!sizes.empty(), RuntimeError, "unflatten: sizes must be non-empty");
  CHECK(
      input.dim() > 0, RuntimeError,
      "unflatten: Provided sizes {} don't multiply up to the size of dim 0 (1) in the input tensor",
      sizes);
  const int64_t whole = input->sizes[dim];
  int64_t known = 1, unknown = 0;
  for (const int64_t size : sizes) {
    if (size == -1) {
      ++unknown;
    } else {
      known = checked_multiply(known, size);
    }
  }
  CHECK(unknown <= 1, RuntimeError, "unflatten: only one dimension can be inferred, got sizes {}",
        sizes);
  CHECK(unknown ? known > 0 && whole % known == 0 : known == whole, RuntimeError,
        "unflatten: Provided sizes {} don't multiply up to the size of dim {} ({}) in the input "
        "tensor",
        sizes, dim, whole);
  Dims shape = input.sizes().first(dim).dims();
  for (const int64_t size : sizes) shape.push_back(size == -1 ? whole / known : size);
  const IntSpan after = input.sizes().from(dim + 1);
  shape.append(after.begin(), after.end());
  return view(input, shape);
}

}  // namespace

OP_METHOD(view_sizes, "view(self, *size)", "A view of self with another shape.",
          makes_view | reshapes)
OP_METHOD(view_as, "view_as(self, other)", "A view of self with the shape of other.",
          makes_view | composed)
OP_METHOD(reshape_as, "reshape_as(self, other)", "self with the shape of other.",
          makes_view | composed)
OP_VIEW(ravel, "ravel(input)", "input with all dimensions in one.", composed)
OP_VIEW(unflatten, "unflatten(input, dim, sizes)", "input with dimension dim spread over several.",
        reshapes | takes_nested | composed)

Tensor flatten(const Tensor& input, int64_t start_dim, int64_t end_dim) {
  REDIRECT(flatten, input, start_dim, end_dim)
  const int64_t first = wrap_dim(start_dim, input.dim()), last = wrap_dim(end_dim, input.dim());
  CHECK(first <= last, RuntimeError,
        "flatten() has invalid args: start_dim cannot come after end_dim");
  if (input.dim() == 0) return reshape(input, 1);
  if (first == last) return input;
  Dims shape = input.sizes().first(first).dims();
  int64_t joined = 1;
  for (int64_t d = first; d <= last; ++d) joined *= input->sizes[d];
  shape.push_back(joined);
  const IntSpan after = input.sizes().from(last + 1);
  shape.append(after.begin(), after.end());
  return reshape(input, shape);
}
OP_VIEW(flatten, "flatten(input, start_dim=0, end_dim=-1)",
        "input with the dimensions from start_dim to end_dim in one.",
        reshapes | takes_nested | composed)

Tensor squeeze(const Tensor& input) {
  REDIRECT(squeeze, input)
  Dims sizes, strides;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (input->sizes[d] == 1) continue;
    sizes.push_back(input->sizes[d]);
    strides.push_back(input->strides[d]);
  }
  return reshaped("squeeze", input, sizes, strides);
}
Tensor squeeze(const Tensor& input, IntSpan dims) {
  REDIRECT(squeeze, input, dims)
  uint64_t chosen = 0;
  for (const int64_t dim : dims) {
    const int64_t d = wrap_dim(dim, input.dim());
    CHECK(!(chosen >> d & 1), RuntimeError,
          "squeeze: dim {} appears multiple times in the list of dims {}", d, dims);
    chosen |= uint64_t{1} << d;
  }
  Dims sizes, strides;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if ((chosen >> d & 1) && input->sizes[d] == 1) continue;
    sizes.push_back(input->sizes[d]);
    strides.push_back(input->strides[d]);
  }
  return reshaped(dims.size() == 1 ? "squeeze.1" : "squeeze.2", input, sizes, strides);
}
namespace {
Tensor squeeze_all(const Tensor& input) { return squeeze(input); }
Tensor squeeze_dim(const Tensor& input, int64_t dim) { return squeeze(input, dim); }
Tensor squeeze_dims(const Tensor& input, IntSpan dim) { return squeeze(input, dim); }
}  // namespace
OP_VIEW(squeeze_all, "squeeze(input)", "input without its dimensions of size 1.",
        reshapes | takes_nested)
OP_VIEW(squeeze_dim, "squeeze.dim(input, dim)", "input without dimension dim, if that has size 1.",
        reshapes | takes_nested)
OP_VIEW(squeeze_dims, "squeeze.dims(input, *dim)",
        "input without those of the given dimensions that have size 1.", reshapes | takes_nested)

Tensor unsqueeze(const Tensor& input, int64_t dim) {
  REDIRECT(unsqueeze, input, dim)
  dim = wrap_dim(dim, input.dim() + 1);
  Dims sizes = input->sizes, strides = input->strides;
  const int64_t step = dim < input.dim() ? sizes[dim] * strides[dim] : 1;
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, step);
  CHECK(static_cast<int64_t>(sizes.size()) <= max_dims, RuntimeError,
        "unsqueeze: a tensor can have at most {} dimensions", max_dims);
  return reshaped("unsqueeze", input, sizes, strides);
}
OP_VIEW(unsqueeze, "unsqueeze(input, dim)", "input with a dimension of size 1 inserted at dim.",
        reshapes | takes_nested)

namespace {
bool batch_unsqueeze(Batching& batch, Result& result) {
  batch.use_samples();
  batch.rewrite().set_integer(1, shifted(batch.integer("dim"), batch.rank(0) + 1));
  batch.run(result);
  return true;
}
// Not the dimension of samples, which may be one.
bool batch_squeeze(Batching& batch, Result& result) {
  const Tensor one = batch.tensor(0);
  if (batch.find("dim") >= 0 && one.dim() > 0) return batch_by_kind(batch, result);
  Dims dims;
  for (int64_t d = 0; d < one.dim(); ++d) {
    if (one.size(d) == 1) dims.push_back(d + 1);
  }
  result = call_op(batch.call().in_place() ? "squeeze_" : op_name_of(batch.call().op()),
                   {batch.samples(0), dims});
  return true;
}
bool batch_flatten(Batching& batch, Result& result) {
  if (batch.rank(0) > 0) return batch_by_kind(batch, result);
  result.form = Result::Form::tensor;
  result.tensor = unsqueeze_at(batch.samples(0), 1);
  return true;
}
bool batch_as_strided(Batching& batch, Result& result) {
  const Tensor samples = batch.samples(0);
  Dims size = batch.ints("size"), stride = batch.ints("stride");
  size.insert(size.begin(), batch.size());
  stride.insert(stride.begin(), samples.stride(0));
  batch.use_samples();
  batch.rewrite().set(batch.find("size"), size);
  batch.rewrite().set(batch.find("stride"), stride);
  batch.run(result);
  return true;
}
}  // namespace
BATCH(unsqueeze, batch_unsqueeze)
BATCH(unsqueeze_, batch_unsqueeze)
BATCH(unsqueeze_copy, batch_unsqueeze)
BATCH(squeeze, batch_squeeze)
BATCH(squeeze_, batch_squeeze)
BATCH(squeeze_copy, batch_squeeze)
BATCH(flatten, batch_flatten)
BATCH(ravel, batch_flatten)
BATCH(as_strided, batch_as_strided)
BATCH(as_strided_, batch_as_strided)
BATCH(as_strided_copy, batch_as_strided)

// --- Parts -------------------------------------------------------------------------------------

Tensor select(const Tensor& input, int64_t dim, int64_t index) {
  REDIRECT(select, input, dim, index)
  check_has_dims("select", input);
  dim = wrap_dim(dim, input.dim());
  const int64_t size = input->sizes[dim];
  CHECK(index >= -size && index < size, IndexError,
        "index {} is out of bounds for dimension {} with size {} (select(): index {} out of range "
        "for "
        "tensor of size {} at dimension {})",
        index, dim, size, index, input.sizes(), dim);
  if (index < 0) index += size;
  Dims sizes = input->sizes, strides = input->strides;
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  Tensor out = window(input, sizes, strides, input.offset() + index * input->strides[dim]);
  if (Record r{"select", out, {input}}) {
    r.wrt(0, [shape = input->sizes, dim, index](const Tensor& g) {
      return embed("select_backward", g, shape,
                   [dim, index](const Tensor& whole) { return select(whole, dim, index); });
    });
  }
  return out;
}
OP_VIEW(select, "select.int(input, dim, index)",
        "The slice of input at one index of dimension dim.", reshapes)

int64_t clamp_slice(int64_t size, int64_t& start, int64_t& end, int64_t step) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  return (end - start) / step + ((end - start) % step != 0);
}

Tensor slice(const Tensor& input, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
  REDIRECT(_slice, input, dim, start, end, step)
  CHECK(input.dim() > 0, RuntimeError, "slice() cannot be applied to a 0-dim tensor.");
  dim = wrap_dim(dim, input.dim());
  CHECK(step > 0, ValueError, "step must be greater than zero");
  int64_t first = start.value_or(0), last = end.value_or(INT64_MAX);
  Dims sizes = input->sizes, strides = input->strides;
  sizes[dim] = clamp_slice(input->sizes[dim], first, last, step);
  // The stride of a dimension with one element says nothing; keep huge ones from overflowing.
  int64_t offset = 0;
  if (__builtin_mul_overflow(first, strides[dim], &offset) ||
      __builtin_add_overflow(offset, input.offset(), &offset))
    offset = input.offset();
  if (__builtin_mul_overflow(strides[dim], step, &strides[dim])) strides[dim] = INT64_MAX;
  Tensor out = window(input, sizes, strides, offset);
  if (Record r{"slice", out, {input}}) {
    r.wrt(0, [shape = input->sizes, dim, first, last, step](const Tensor& g) {
      return embed("slice_backward", g, shape,
                   [=](const Tensor& whole) { return slice(whole, dim, first, last, step); });
    });
  }
  return out;
}
OP_FUNCTION(slice, "_slice.slice.Tensor(input, dim=0, start=None, end=None, step=1)",
            "What a slice of one dimension gives: a view.", makes_view | reshapes)

Tensor narrow(const Tensor& input, int64_t dim, int64_t start, int64_t length) {
  REDIRECT(narrow, input, dim, start, length)
  CHECK(input.dim() > 0, RuntimeError, "narrow() cannot be applied to a 0-dim tensor.");
  CHECK(length >= 0, RuntimeError, "narrow(): length must be non-negative.");
  dim = wrap_dim(dim, input.dim());
  const int64_t size = input->sizes[dim];
  CHECK(start >= -size && start <= size, IndexError,
        "start out of range (expected to be in range of [-{}, {}], but got {})", size, size, start);
  if (start < 0) start += size;
  CHECK(length <= size - start, RuntimeError,
        "start ({}) + length ({}) exceeds dimension size ({}).", start, length, size);
  return slice(input, dim, start, start + length, 1);
}
namespace {
Tensor narrow_at(const Tensor& input, int64_t dim, const Tensor& start, int64_t length) {
  CHECK(start.dim() == 0 && is_integral(start.dtype()), RuntimeError,
        "start must be an 0-dim integral Tensor.");
  return narrow(input, dim, item(start).to_int(), length);
}
}  // namespace
OP_VIEW(narrow, "narrow(input, dim, start, length)",
        "length elements of dimension dim from start on.", reshapes | composed)
OP_VIEW(narrow_at, "narrow(input, dim, start, length)",
        "length elements of dimension dim from start on.", reshapes | composed)

Tensor diagonal(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
  REDIRECT(diagonal, input, offset, dim1, dim2)
  dim1 = wrap_dim(dim1, input.dim());
  dim2 = wrap_dim(dim2, input.dim());
  CHECK(dim1 != dim2, RuntimeError, "diagonal dimensions cannot be identical {}, {}", dim1, dim2);
  const int64_t rows = input->sizes[dim1], columns = input->sizes[dim2];
  // Beyond the corner there is nothing; comparing this way also keeps INT64_MIN from overflowing.
  int64_t length = 0, start = input.offset();
  if (offset >= 0 && offset < columns) {
    length = std::min(rows, columns - offset);
    if (length > 0) start += offset * input->strides[dim2];
  } else if (offset < 0 && offset > -rows) {
    length = std::min(rows + offset, columns);
    if (length > 0) start -= offset * input->strides[dim1];
  }
  Dims sizes = input->sizes, strides = input->strides;
  // In a tensor without elements, strides may be any numbers.
  int64_t step = 0;
  if (__builtin_add_overflow(strides[dim1], strides[dim2], &step)) step = INT64_MAX;
  for (const int64_t d : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    sizes.erase(sizes.begin() + d);
    strides.erase(strides.begin() + d);
  }
  sizes.push_back(length);
  strides.push_back(step);
  Tensor out = window(input, sizes, strides, start);
  if (Record r{"diagonal", out, {input}}) {
    r.wrt(0, [shape = input->sizes, offset, dim1, dim2](const Tensor& g) {
      return embed("diagonal_backward", g, shape,
                   [=](const Tensor& whole) { return diagonal(whole, offset, dim1, dim2); });
    });
  }
  return out;
}
OP_VIEW(diagonal, "diagonal(input, offset=0, dim1=0, dim2=1)",
        "A view of the diagonals of the planes of dim1 and dim2.", reshapes)

namespace {

Geometry unfolded(const Geometry& from, int64_t dim, int64_t size, int64_t step) {
  Geometry to = from;
  if (from.sizes.empty()) {
    to.sizes = {size};
    to.strides = {1};
    return to;
  }
  to.sizes[dim] = (from.sizes[dim] - size) / step + 1;
  // As in slice: where there is one window, its stride says nothing.
  if (__builtin_mul_overflow(from.strides[dim], step, &to.strides[dim]))
    to.strides[dim] = INT64_MAX;
  to.sizes.push_back(size);
  to.strides.push_back(from.strides[dim]);
  return to;
}

}  // namespace

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  REDIRECT(unfold, self, dimension, size, step)
  const int64_t dim = wrap_dim(dimension, self.dim());
  const int64_t whole = self.dim() == 0 ? 1 : self->sizes[dim];
  CHECK(size >= 0, RuntimeError, "unfold: size is {} but must be >= 0", size);
  CHECK(size <= whole, RuntimeError,
        "unfold: maximum size for tensor at dimension {} is {} but size is {}", dim, whole, size);
  CHECK(step > 0, RuntimeError, "unfold: step is {} but must be > 0", step);
  const Geometry at = unfolded(geometry_of(self), dim, size, step);
  Tensor out = window(self, at.sizes, at.strides, at.offset);
  if (Record r{"unfold", out, {self}}) {
    r.wrt(0, [shape = self->sizes, dim, size, step](const Tensor& g) {
      const Geometry plain{shape, contiguous_strides(shape), 0};
      return window_gradient(g, unfolded(plain, dim, size, step), plain);
    });
  }
  return out;
}

OP_METHOD(unfold, "unfold(self, dimension, size, step)",
          "Windows of size elements along a dimension, step apart, in a new last dimension.",
          makes_view | along)

}  // namespace flambeau
