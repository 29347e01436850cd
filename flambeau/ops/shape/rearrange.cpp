// Ops that rearrange elements into new memory: repeating, flipping, rolling, triangles, diagonals.
#include <algorithm>
#include <numeric>

#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/join.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {

// --- Repeating ---------------------------------------------------------------------------------

namespace {

// Shapes in which a repeated tensor has two dimensions for each one: copies, and its own size.
struct Tiling {
  Dims source, whole, copies;
};
Tiling tiling_of(IntSpan sizes, IntSpan repeats) {
  Tiling tiling;
  const size_t extra = repeats.size() - sizes.size();
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t size = d < extra ? 1 : sizes[d - extra];
    tiling.source.push_back(1);
    tiling.source.push_back(size);
    tiling.copies.push_back(static_cast<int64_t>(2 * d));
    tiling.whole.push_back(repeats[d]);
    tiling.whole.push_back(size);
  }
  return tiling;
}

}  // namespace

Tensor repeat(const Tensor& input, IntSpan repeats) {
  REDIRECT(repeat, input, repeats)
  CHECK(static_cast<int64_t>(repeats.size()) >= input.dim(), RuntimeError,
        "repeat: Number of dimensions of repeat dims ({}) can not be smaller than number of "
        "dimensions "
        "of tensor ({})",
        repeats.size(), input.dim());
  const Tiling tiling = tiling_of(input.sizes(), repeats);
  Dims sizes;
  for (size_t d = 0; d < repeats.size(); ++d) {
    sizes.push_back(checked_multiply(repeats[d], tiling.source[2 * d + 1]));
    CHECK(repeats[d] >= 0, RuntimeError,
          "repeat: Trying to create tensor with negative dimension {}: repeats {}", sizes[d],
          repeats);
  }
  Tensor out = make_tensor(sizes, input.dtype(), input.device());
  if (out.numel() > 0) {
    const NoGrad off;
    // As many dimensions as a tensor may have are enough for the copy only if half are dropped:
    // where nothing is repeated, one will do.
    Dims from_sizes, from_strides, to_sizes, to_strides;
    const Dims dense = contiguous_strides(sizes);
    const int64_t extra = static_cast<int64_t>(repeats.size()) - input.dim();
    for (size_t d = 0; d < repeats.size(); ++d) {
      const int64_t own = static_cast<int64_t>(d) - extra, size = tiling.source[2 * d + 1];
      if (repeats[d] != 1) {
        from_sizes.push_back(repeats[d]);
        from_strides.push_back(0);
        to_strides.push_back(dense[d] * size);
      }
      from_sizes.push_back(size);
      from_strides.push_back(own >= 0 ? input->strides[own] : 0);
      to_strides.push_back(dense[d]);
    }
    copy_(make_alias(out, from_sizes, to_strides, 0),
          make_alias(input, from_sizes, from_strides, input.offset()));
  }
  if (Record r{"repeat", out, {input}}) {
    r.wrt(0, [tiling, shape = input->sizes](const Tensor& g) {
      if (tiling.copies.empty()) return g;
      return reshape(sum(reshape(g, tiling.whole), IntSpan(tiling.copies), false), shape);
    });
  }
  return out;
}
OP_METHOD(repeat, "repeat(self, *repeats)", "Copies of self, so many along each dimension.",
          moves | takes_quantized)

namespace {

Tensor tile(const Tensor& input, IntSpan dims) {
  Dims repeats(std::max<int64_t>(input.dim() - static_cast<int64_t>(dims.size()), 0), 1);
  repeats.append(dims.begin(), dims.end());
  return repeat(input, repeats);
}

// The same where the number of indices is known: nobody has to wait for the device. Where it does
// not fit the counts, or one of them is negative, the indices are out of range, and found to be so.
Tensor interleaved_on_device(const Tensor& repeats, int64_t total) {
  const int64_t n = repeats.numel();
  CHECK(n > 0 || total == 0, RuntimeError,
        "repeat_interleave: allocated size does not match required size ({} and 0)", total);
  const Options options{.dtype = DType::int64, .device = repeats.device()};
  Tensor index = make_tensor(total, DType::int64, repeats.device());
  if (total == 0) return index;
  const Tensor counts = contiguous(to(repeats, DType::int64));
  const Tensor ends = make_tensor(n, DType::int64, repeats.device());
  kernels::cumsum(repeats.device_type(), counts, ends, 0, false);
  kernels::searchsorted(repeats.device_type(), ends, arange(0, total, 1, options), Tensor(), index,
                        true);
  const Tensor fits = (amin(counts, std::nullopt, false) >= 0) & (select(ends, 0, n - 1) == total);
  return index_select(arange(0, n, 1, options), 0, where(fits, index, n));
}

// How often each index appears, as the indices themselves: [2, 0, 1] gives [0, 0, 2].
Tensor interleaved_index(const Tensor& repeats, std::optional<int64_t> output_size) {
  CHECK(repeats.dim() == 1, RuntimeError,
        "repeat_interleave only accept 1D vector as repeat, got shape {}", repeats.sizes());
  CHECK(repeats.dtype() == DType::int64 || repeats.dtype() == DType::int32, RuntimeError,
        "repeat_interleave: repeats has to be Long or Int tensor, got {}", repeats.dtype());
  const NoGrad off;
  if (output_size && !repeats.device().is_cpu()) {
    CHECK(*output_size >= 0, RuntimeError, "repeat_interleave: output_size is negative: {}",
          *output_size);
    return to(interleaved_on_device(repeats, *output_size), repeats.dtype());
  }
  const Tensor counts = contiguous(to(to(repeats, DType::int64), Device()));
  const int64_t* count = counts.data<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    CHECK(count[i] >= 0, RuntimeError, "repeats can not be negative, got {}", count[i]);
    CHECK(!__builtin_add_overflow(total, count[i], &total), RuntimeError,
          "repeat_interleave: the number of elements overflows");
  }
  CHECK(!output_size || *output_size == total, RuntimeError,
        "repeat_interleave: allocated size does not match required size ({} and {})",
        output_size.value_or(0), total);
  if (!repeats.device().is_cpu()) return to(interleaved_on_device(repeats, total), repeats.dtype());
  const Tensor index = make_tensor(total, DType::int64, Device());
  int64_t* at = index.data<int64_t>();
  for (int64_t i = 0; i < counts.numel(); ++i) at = std::fill_n(at, count[i], i);
  return to(index, repeats.dtype());
}

Tensor repeat_interleave(const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  const Tensor x = dim && input.dim() > 0 ? input : reshape(input, -1);
  const int64_t at = wrap_dim(dim.value_or(0), x.dim());
  Tensor counts = repeats.dim() == 0 ? reshape(repeats, 1) : repeats;
  if (counts.dim() == 1 && counts.numel() == 1) counts = expand(counts, x->sizes[at]);
  CHECK(counts.dim() != 1 || counts.numel() == x->sizes[at], RuntimeError,
        "repeats must have the same size as input along dim, but got repeats.size(0) = {} and "
        "input.size({}) = {}",
        counts.numel(), at, x->sizes[at]);
  return index_select(x, at, interleaved_index(counts, output_size));
}
Tensor repeat_interleave_number(const Tensor& input, int64_t repeats, std::optional<int64_t> dim,
                                std::optional<int64_t> output_size) {
  CHECK(repeats >= 0, RuntimeError, "Repeats must be non-negative, got {}", repeats);
  CHECK(!dim || input.dim() > 0, IndexError,
        "repeat_interleave: Dimension out of range: a tensor without dimensions has no dim {}",
        dim.value_or(0));
  const Tensor x = dim && input.dim() > 0 ? input : reshape(input, -1);
  const int64_t at = wrap_dim(dim.value_or(0), x.dim());
  Dims sizes = x->sizes;
  CHECK(!output_size || *output_size == checked_multiply(sizes[at], repeats), RuntimeError,
        "repeat_interleave: Invalid output_size, expected {} but got {}", sizes[at] * repeats,
        output_size.value_or(0));
  sizes.insert(sizes.begin() + at + 1, repeats);
  return flatten(clone(expand(unsqueeze(x, at + 1), sizes), MemoryFormat::contiguous), at, at + 1);
}

}  // namespace
OP_FUNCTION(tile, "tile(input, dims)",
            "Copies of input, so many along each of its last dimensions.",
            moves | takes_quantized | no_out | composed)
OP_METHOD(tile, "tile(self, *dims)", "Copies of self, so many along each of its last dimensions.",
          moves | takes_quantized | no_out | composed)
OP_FUNCTION(interleaved_index, "repeat_interleave.Tensor(repeats, *, output_size=None)",
            "Each index of repeats as often as repeats says.", moves | takes_quantized)
OP(repeat_interleave_number, "repeat_interleave(input, repeats, dim=None, *, output_size=None)",
   "Every element of input along dim repeated so many times.", moves | takes_quantized)
OP(repeat_interleave, "repeat_interleave(input, repeats, dim=None, *, output_size=None)",
   "Every element of input along dim repeated so many times.", moves | takes_quantized)

// --- Flipping, rolling, turning ----------------------------------------------------------------

Tensor flip(const Tensor& input, IntSpan dims) {
  REDIRECT(flip, input, dims)
  uint64_t flipped = 0;
  for (const int64_t dim : dims) {
    const int64_t d = wrap_dim(dim, input.dim());
    CHECK(!(flipped >> d & 1), RuntimeError,
          "flip: dim {} appears multiple times in the list of dims {}", d, dims);
    flipped |= uint64_t{1} << d;
  }
  Tensor out = make_strided(input.sizes(), preserved_strides(input), input.dtype(), input.device());
  if (out.numel() > 0) {
    // Read backwards: a window that starts at the last element and has negative strides. It never
    // leaves this function.
    Dims strides = input->strides;
    int64_t offset = input.offset();
    for (int64_t d = 0; d < input.dim(); ++d) {
      if (!(flipped >> d & 1)) continue;
      offset += (input->sizes[d] - 1) * strides[d];
      strides[d] = -strides[d];
    }
    const Tensor mirrored = make_alias(input, input.sizes(), strides, offset);
    const DType dtype = input.dtype();
    const Operand inputs[] = {mirrored};
    TensorIter iter;
    iter.build({"flip", false, false}, &out, &dtype, 1, inputs, 1, dtype);
    kernels::copy(input.device_type(), iter);
  }
  if (Record r{"flip", out, {input}}) {
    r.wrt(0, [flipped = dims.dims()](const Tensor& g) { return flip(g, flipped); });
  }
  return out;
}
OP(flip, "flip(input, *dims)", "input with the order of elements reversed along dims.",
   along | moves | takes_quantized | no_out)

namespace {

Tensor fliplr(const Tensor& input) {
  CHECK(input.dim() >= 2, RuntimeError, "fliplr: Input must be >= 2-d.");
  return flip(input, 1);
}
Tensor flipud(const Tensor& input) {
  CHECK(input.dim() >= 1, RuntimeError, "flipud: Input must be >= 1-d.");
  return flip(input, 0);
}

Tensor rolled(const Tensor& input, int64_t shift, int64_t dim) {
  const int64_t size = input->sizes[dim];
  if (size == 0) return clone(input, MemoryFormat::contiguous);
  const int64_t start = ((-(shift % size)) % size + size) % size;
  if (start == 0) return clone(input, MemoryFormat::contiguous);
  return cat({narrow(input, dim, start, size - start), narrow(input, dim, 0, start)}, dim);
}

}  // namespace

Tensor roll(const Tensor& input, IntSpan shifts, std::optional<IntSpan> along) {
  REDIRECT(roll, input, shifts, along)
  const IntSpan dims = along.value_or(IntSpan{});
  CHECK(!shifts.empty(), RuntimeError, "roll: `shifts` required");
  CHECK(shifts.size() == dims.size() || (dims.empty() && shifts.size() == 1), RuntimeError,
        "shifts and dimensions must align. shifts: {}, dims:{}", shifts.size(), dims.size());
  Tensor out;
  {
    const NoGrad off;
    if (dims.empty()) {
      out = reshape(rolled(reshape(input, -1), shifts[0], 0), input.sizes());
    } else {
      out = input;
      for (size_t i = 0; i < dims.size(); ++i) {
        CHECK(input.dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions",
              dims[i]);
        out = rolled(out, shifts[i], wrap_dim(dims[i], input.dim()));
      }
    }
  }
  if (out->view_base) out = detach_alias(out);
  if (Record r{"roll", out, {input}}) {
    Dims back;
    for (const int64_t shift : shifts) back.push_back(shift == INT64_MIN ? shift : -shift);
    r.wrt(0, [back, dims = dims.dims()](const Tensor& g) { return roll(g, back, dims); });
  }
  return out;
}

namespace {

// input rotated by quarters, as a view of new memory.
Tensor rotated(const Tensor& input, int64_t quarters, int64_t a, int64_t b) {
  const NoGrad off;
  switch (quarters) {
    case 1: return detach_alias(transpose(flip(input, b), a, b));
    case 2: return flip(input, {a, b});
    case 3: return detach_alias(transpose(flip(input, a), a, b));
    default: return clone(input, MemoryFormat::contiguous);
  }
}

Tensor rot90(const Tensor& input, int64_t k, IntSpan dims) {
  CHECK(dims.size() == 2, RuntimeError,
        "rot90: expected total rotation dims == 2, but got dims = {}", dims.size());
  CHECK(input.dim() >= 2, RuntimeError, "rot90: expected total dims >= 2, but got total dims = {}",
        input.dim());
  const int64_t a = wrap_dim(dims[0], input.dim()), b = wrap_dim(dims[1], input.dim());
  CHECK(a != b, RuntimeError,
        "rot90: expected rotation dims to be different, but got dim0 = {} and dim1 = {}", dims[0],
        dims[1]);
  const int64_t quarters = ((k % 4) + 4) % 4;
  Tensor out = rotated(input, quarters, a, b);
  if (Record r{"rot90", out, {input}}) {
    r.wrt(0, [quarters, a, b](const Tensor& g) { return rot90(g, -quarters, {a, b}); });
  }
  return out;
}

}  // namespace
OP(fliplr, "fliplr(input)", "input with its columns in reverse order.",
   moves | takes_quantized | no_out | composed)
OP(flipud, "flipud(input)", "input with its rows in reverse order.",
   moves | takes_quantized | no_out | composed)
OP(roll, "roll(input, shifts, dims=None)",
   "input moved along dims; what leaves at one end enters at the other.", moves | no_out)
OP(rot90, "rot90(input, k=1, dims=(0, 1))",
   "input rotated k times by 90 degrees in the plane of dims.", moves | takes_quantized | no_out)

namespace {

std::vector<Tensor> unravel_index(const Tensor& indices, IntSpan shape) {
  CHECK(is_integral(indices.dtype()), TypeError,
        "expected 'indices' to be integer dtype, but got {}", indices.dtype());
  for (const int64_t size : shape) {
    CHECK(size >= 0, ValueError, "'shape' cannot have negative values, but got {}", shape);
    CHECK(size > 0 || indices.numel() == 0, ValueError,
          "unravel_index: a shape without elements has no indices, got {}", shape);
  }
  if (shape.size() == 0) return {};
  // All of them in the last dimension of one tensor, which lies in memory as the indices do.
  const auto count = static_cast<int64_t>(shape.size());
  const Tensor sizes = make_tensor(IntSpan{count}, DType::int64, Device());
  const Tensor steps = make_tensor(IntSpan{count}, DType::int64, Device());
  uint64_t step = 1;  // may wrap for shapes too large to be
  for (int64_t d = count; d-- > 0;) {
    sizes.data<int64_t>()[d] = std::max<int64_t>(shape[d], 1);
    steps.data<int64_t>()[d] = std::max<int64_t>(static_cast<int64_t>(step), 1);
    step *= static_cast<uint64_t>(sizes.data<int64_t>()[d]);
  }
  const Tensor flat = unsqueeze(to(indices, DType::int64), -1);
  return unbind(
      remainder(div_floor(flat, sent_to(steps, flat.device())), sent_to(sizes, flat.device())), -1);
}

}  // namespace
OP_FUNCTION(unravel_index, "unravel_index(indices, shape)",
            "The coordinates of flat indices into a tensor of the given shape.", no_out)

// --- Triangles ---------------------------------------------------------------------------------

namespace {

void check_matrix(const char* op, const Tensor& input) {
  CHECK(input.dim() >= 2, RuntimeError,
        "{}: input tensor must have at least 2 dimensions, got shape {}", op, input.sizes());
}
Tensor triangle(const char* op, const Tensor& input, int64_t diagonal, bool upper) {
  check_matrix(op, input);
  Tensor out = make_tensor(input.sizes(), input.dtype(), input.device());
  {
    const NoGrad off;
    kernels::triangle(input.device_type(), contiguous(input), out, diagonal, upper);
  }
  if (Record r{op, out, {input}}) {
    r.wrt(0, [=](const Tensor& g) { return triangle(op, g, diagonal, upper); });
  }
  return out;
}
Tensor triangle_(const char* op, const Tensor& self, int64_t diagonal, bool upper) {
  check_matrix(op, self);
  check_inplace(op, self);
  {
    const NoGrad off;
    if (self.is_contiguous()) {
      kernels::triangle(self.device_type(), self, self, diagonal, upper);
      self.bump_version(op);
    } else if (overlaps_itself(self)) {  // what any of its positions sets to zero is zero
      const Tensor kept =
          triangle(op, ones(self.sizes(), {.dtype = DType::bool_}), diagonal, upper);
      write_at(op, make_alias(self), {sent_to(logical_not(kept), self.device())},
               full({}, 0, options_of(self)), WriteMode::assign);
      self.bump_version(op);
    } else {
      const Tensor window = make_alias(self);
      copy_(window, triangle(op, window, diagonal, upper));  // counts as a write to self
    }
  }
  if (Record r = Record::in_place(op, self, {})) {
    r.wrt(0, [=](const Tensor& g) { return triangle(op, g, diagonal, upper); });
  }
  return self;
}
Tensor tril_(const Tensor& self, int64_t diagonal) {
  return triangle_("tril", self, diagonal, false);
}
Tensor triu_(const Tensor& self, int64_t diagonal) {
  return triangle_("triu", self, diagonal, true);
}

// The elements of a matrix on and below a diagonal.
int64_t lower_count(int64_t rows, int64_t columns, int64_t offset) {
  // Row i has i + 1 + offset of them, at least none and at most all.
  const __int128 first = std::max<__int128>(0, -static_cast<__int128>(offset));
  const __int128 full = std::max<__int128>(first, static_cast<__int128>(columns) - offset);
  const __int128 last = std::min<__int128>(full, rows);
  __int128 count = 0;
  if (last > first) {
    count += (last - first) * (first + last + 1 + 2 * static_cast<__int128>(offset)) / 2;
  }
  if (rows > full) count += (rows - full) * columns;
  CHECK(count <= INT64_MAX, RuntimeError, "the number of indices overflows for {} x {}", rows,
        columns);
  return static_cast<int64_t>(count);
}

Tensor triangle_indices(const char* op, int64_t row, int64_t col, int64_t offset, bool upper,
                        const Options& options) {
  CHECK(row >= 0 && col >= 0, RuntimeError, "{}: row and col must be non-negative, got {} and {}",
        op, row, col);
  const DType dtype = options.dtype_or(DType::int64);
  CHECK(dtype == DType::int64 || dtype == DType::int32 || dtype == DType::int16,
        NotImplementedError, "\"{}\" not implemented for '{}'", op, dtype_legacy_name(dtype));
  const Device device = options.device_or_default();
  const int64_t below = lower_count(row, col, upper && offset > INT64_MIN ? offset - 1 : offset);
  const int64_t count = upper ? checked_multiply(row, col) - below : below;
  if (device.is_meta()) return make_tensor({2, count}, dtype, device);
  const Tensor out = make_tensor({2, count}, DType::int64, Device());
  int64_t *rows = out.data<int64_t>(), *columns = rows + count;
  // Rows without any stand at the top of the lower triangle and at the bottom of the upper one.
  const int64_t first = upper || offset >= 0 || offset == INT64_MIN ? 0 : -offset - 1;
  for (int64_t i = first; i < row && count > 0; ++i) {
    const int64_t border = static_cast<int64_t>(
        std::clamp<__int128>(static_cast<__int128>(i) + offset + (upper ? 0 : 1), 0, col));
    const int64_t from = upper ? border : 0, length = upper ? col - border : border;
    if (upper && length == 0) break;
    rows = std::fill_n(rows, length, i);
    std::iota(columns, columns + length, from);
    columns += length;
  }
  return sent_to(to(out, dtype), device);
}
Tensor tril_indices(int64_t row, int64_t col, int64_t offset, const Options& options) {
  return triangle_indices("tril_indices", row, col, offset, false, options);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, const Options& options) {
  return triangle_indices("triu_indices", row, col, offset, true, options);
}

}  // namespace
Tensor tril(const Tensor& input, int64_t diagonal) {
  REDIRECT(tril, input, diagonal)
  return triangle("tril", input, diagonal, false);
}
Tensor triu(const Tensor& input, int64_t diagonal) {
  REDIRECT(triu, input, diagonal)
  return triangle("triu", input, diagonal, true);
}
OP(tril, "tril(input, diagonal=0)", "The lower triangles of matrices, zeros elsewhere.", event(2))
OP(triu, "triu(input, diagonal=0)", "The upper triangles of matrices, zeros elsewhere.", event(2))
OP_METHOD(tril_, "tril_(self, diagonal=0)", "Sets everything above a diagonal to zero.")
OP_METHOD(triu_, "triu_(self, diagonal=0)", "Sets everything below a diagonal to zero.")
OP_FUNCTION(tril_indices, "tril_indices(row, col, offset=0, **options)",
            "The indices of the lower triangle of a matrix, row indices above column indices.",
            no_out)
OP_FUNCTION(triu_indices, "triu_indices(row, col, offset=0, **options)",
            "The indices of the upper triangle of a matrix, row indices above column indices.",
            no_out)

// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
bool batch_repeat(Batching& batch, Result& result) {
  Dims times = batch.ints("repeats"), own = {batch.size()};
  if (static_cast<int64_t>(times.size()) < batch.rank(0)) return false;
  for (size_t d = batch.rank(0); d < times.size(); ++d) own.push_back(1);
  for (const int64_t n : batch.tensor(0).sizes()) own.push_back(n);
  times.insert(times.begin(), 1);
  batch.rewrite().set(0, reshape_to(batch.samples(0), own));
  batch.rewrite().set(batch.find("repeats"), times);
  batch.run(result);
  return true;
}
bool batch_roll(Batching& batch, Result& result) {
  const int at = batch.find("dims");
  const Tensor samples = batch.samples(0);
  const bool flat = !batch.given(at) || batch.ints("dims").empty();
  if (batch.rank(0) == 0) return false;
  batch.rewrite().set(
      0, flat ? reshape_to(samples, {batch.size(), batch.tensor(0).numel()}) : samples);
  batch.rewrite().set(at, flat ? Dims{1} : shifted(batch.ints("dims"), batch.rank(0)));
  batch.run(result);
  if (flat) result.tensor = reshape_to(result.tensor, samples.sizes().dims());
  return true;
}
bool batch_repeat_interleave(Batching& batch, Result& result) {
  const int dim = batch.find("dim");
  if (dim < 0 || !batch.only(0)) {
    CHECK(batch.given(batch.find("output_size")), SampleError,
          "repeat_interleave: vmapping over the `repeats` tensor requires the `output_size` "
          "argument to be specified, because the size of the output equals the sum of `repeats`, "
          "which is data-dependent and may differ between batch elements.");
    return false;
  }
  const bool flat = !batch.given(dim) || batch.rank(0) == 0;
  const Tensor samples = batch.samples(0);
  batch.rewrite().set(
      0, flat ? reshape_to(samples, {batch.size(), batch.tensor(0).numel()}) : samples);
  batch.rewrite().set_integer(dim, flat ? 1 : shifted(batch.integer("dim"), batch.rank(0)));
  batch.run(result);
  return true;
}
}  // namespace
BATCH(repeat, batch_repeat)
BATCH(roll, batch_roll)
BATCH(repeat_interleave, batch_repeat_interleave)

}  // namespace flambeau
