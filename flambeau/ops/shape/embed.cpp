// Ops that write one tensor into a part of another: diagonals, padding, and copies in which one
// view is replaced (select_scatter and its relatives).
#include <algorithm>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {

// --- Diagonals ---------------------------------------------------------------------------------

namespace {

Tensor diag_embed(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
  REDIRECT(diag_embed, input, offset, dim1, dim2)
  const int64_t rank = input.dim() + 1;
  CHECK(input.dim() > 0, IndexError,
        "diag_embed: Dimension out of range: input must have at least one dimension, got none");
  const int64_t first = wrap_dim(dim1, rank), second = wrap_dim(dim2, rank);
  CHECK(first != second, RuntimeError, "diagonal dimensions cannot be identical {}, {}", dim1,
        dim2);
  const int64_t distance = offset < 0 ? -(offset + 1) : offset;  // -INT64_MIN does not fit
  int64_t size = 0;
  CHECK(!__builtin_add_overflow(input->sizes.back(), distance, &size) &&
            !__builtin_add_overflow(size, int64_t{offset < 0}, &size),
        RuntimeError, "diag_embed: offset {} is too large", offset);
  Dims shape = input->sizes;
  shape.pop_back();
  for (const int64_t dim : {std::min(first, second), std::max(first, second)}) {
    shape.insert(shape.begin() + dim, size);
  }
  return embed("diag_embed", input, shape,
               [=](const Tensor& whole) { return diagonal(whole, offset, first, second); });
}
Tensor diag(const Tensor& input, int64_t diagonal_) {
  CHECK(input.dim() == 1 || input.dim() == 2, RuntimeError,
        "diag(): Supports 1D or 2D tensors. Got {}D", input.dim());
  if (input.dim() == 1) return diag_embed(input, diagonal_, 0, 1);
  return clone(diagonal(input, diagonal_, 0, 1), MemoryFormat::contiguous);
}
Tensor diagflat(const Tensor& input, int64_t offset) { return diag(reshape(input, -1), offset); }

}  // namespace
OP(diag_embed, "diag_embed(input, offset=0, dim1=-2, dim2=-1)",
   "Matrices of zeros whose diagonals are the last dimension of input.", no_out)
OP(diag, "diag(input, diagonal=0)", "The diagonal of a matrix, or the matrix with that diagonal.",
   composed | out_fails)
OP(diagflat, "diagflat(input, offset=0)", "The matrix whose diagonal has the elements of input.",
   no_out | composed)

namespace {

Tensor fill_diagonal_(const Tensor& self, const Operand& fill_value, bool wrap) {
  CHECK(self.dim() >= 2, RuntimeError,
        "fill_diagonal_: dimensions must larger than 1, got shape {}", self.sizes());
  if (self.dim() > 2) {
    int64_t step = 0;
    for (int64_t d = 0; d < self.dim(); ++d) {
      CHECK(self->sizes[d] == self->sizes[0], RuntimeError,
            "fill_diagonal_: all dimensions of input must be of equal length, got shape {}",
            self.sizes());
      step += self->strides[d];
    }
    fill_(as_strided(self, self->sizes[0], step, self.offset()), fill_value);
    return self;
  }
  // Wrapped, the diagonal begins anew below a row that it leaves out.
  const int64_t rows = self->sizes[0], columns = self->sizes[1];
  int64_t start = 0;
  do {
    fill_(diagonal(narrow(self, 0, start, std::min(columns, rows - start)), 0, 0, 1), fill_value);
    start += columns + 1;
  } while (wrap && columns > 0 && start < rows);
  return self;
}

}  // namespace
OP_METHOD(fill_diagonal_, "fill_diagonal_(self, fill_value, wrap=False)",
          "Fills the main diagonal of self.")

// --- Padding -----------------------------------------------------------------------------------

namespace {

// Copies what widths below zero leave of input between those above zero, which hold value.
Tensor padded_copy(const Tensor& input, IntSpan sizes, IntSpan pad, const Scalar& value) {
  const NoGrad off;
  Tensor from = input;
  for (size_t i = 0; i < pad.size(); i += 2) {
    const int64_t d = input.dim() - 1 - static_cast<int64_t>(i / 2);
    const int64_t left = std::max<int64_t>(-pad[i], 0), right = std::max<int64_t>(-pad[i + 1], 0);
    from = narrow(from, d, left, from->sizes[d] - left - right);
  }
  // Where nothing is put around it, the layout stays.
  if (from.sizes() == sizes) return clone(from);
  const MemoryFormat format = suggest_format(input);
  Tensor out = make_strided(sizes, format_strides(sizes, format), input.dtype(), input.device());
  // All is filled at once, unless that is much and the rims are little of it.
  const bool by_rims = out.numel() > (1 << 16) && out.numel() - from.numel() < out.numel() / 256;
  if (!by_rims) fill_(out, value);
  Tensor to = out;
  for (size_t i = 0; i < pad.size(); i += 2) {
    const int64_t d = input.dim() - 1 - static_cast<int64_t>(i / 2);
    const int64_t left = std::max<int64_t>(pad[i], 0), end = left + from->sizes[d];
    if (by_rims && left > 0) fill_(narrow(to, d, 0, left), value);
    if (by_rims && end < to->sizes[d]) fill_(narrow(to, d, end, to->sizes[d] - end), value);
    to = narrow(to, d, left, from->sizes[d]);
  }
  copy_(to, from);
  return out;
}

}  // namespace

Tensor constant_pad_nd(const Tensor& input, IntSpan pad, const Scalar& value) {
  REDIRECT(constant_pad_nd, input, pad, value)
  CHECK(pad.size() % 2 == 0, RuntimeError,
        "constant_pad_nd: Length of pad must be even but instead it equals {}", pad.size());
  const int64_t padded = static_cast<int64_t>(pad.size() / 2), rank = input.dim();
  CHECK(
      padded <= rank, RuntimeError,
      "constant_pad_nd: Length of pad should be no more than twice the number of dimensions of the "
      "input. Pad length is {} while the input has {} dimensions.",
      pad.size(), rank);
  Dims sizes = input->sizes;
  for (int64_t i = 0; i < padded; ++i) {
    int64_t& size = sizes[rank - 1 - i];
    const int64_t before = size;
    CHECK(!__builtin_add_overflow(size, pad[2 * i], &size) &&
              !__builtin_add_overflow(size, pad[2 * i + 1], &size) && size >= 0 &&
              before + std::min<int64_t>(pad[2 * i], 0) + std::min<int64_t>(pad[2 * i + 1], 0) >= 0,
          RuntimeError,
          "constant_pad_nd: The input size {}, plus negative padding {} and {}, resulted in a "
          "negative "
          "output size, which is invalid (dimension {} of shape {}).",
          before, pad[2 * i], pad[2 * i + 1], rank - 1 - i, input.sizes());
  }
  Tensor out = padded_copy(input, sizes, pad, value);
  if (Record r{"constant_pad_nd", out, {input}}) {
    Dims back;
    for (const int64_t width : pad) back.push_back(-width);
    r.wrt(0, [back](const Tensor& g) { return constant_pad_nd(g, back, 0); });
  }
  return out;
}

OP(constant_pad_nd, "constant_pad_nd(input, pad, value=0)",
   "input with value around it; pad gives the widths before and after, last dimension first.",
   event(0) | no_out)

// --- Copies in which a view is replaced --------------------------------------------------------

namespace {

// A copy that lies in its storage as input lies in its own, gaps and all, where no two elements
// share memory.
Tensor clone_in_place(const Tensor& input) {
  bool plain = input.storage() && !input.device().is_meta() && !input->pending;
  for (int64_t d = 0; d < input.dim(); ++d) {
    plain &= input.strides()[d] != 0 || input.sizes()[d] <= 1;
  }
  if (!plain) return clone(input);
  const auto count = static_cast<int64_t>(input.storage()->bytes() / input.item_size());
  const Tensor whole = clone(make_alias(input, {count}, {1}, 0));
  return make_alias(whole, input.sizes(), input.strides(), input.offset());
}

template <class View>
Tensor replace_view(const char* op, const Tensor& input, const Tensor& src, View view,
                    MemoryFormat format = MemoryFormat::preserve) {
  Tensor out;
  {
    const NoGrad off;
    out = format == MemoryFormat::preserve ? clone_in_place(input) : clone(input, format);
    const Tensor part = view(out);
    CHECK(part.sizes() == src.sizes(), RuntimeError,
          "{}: expected src to have a size equal to the slice of self. src size = {}, slice size = "
          "{}",
          op, src.sizes(), part.sizes());
    copy_(part, src);
  }
  if (Record r{op, out, {input, src}}) {
    r.wrt(0, [op, view, format, shape = src->sizes](const Tensor& g) {
      return replace_view(op, g, zeros(shape, options_of(g)), view, format);
    });
    r.wrt(1, view);
  }
  return out;
}

Tensor select_scatter(const Tensor& input, const Tensor& src, int64_t dim, int64_t index) {
  return replace_view("select_scatter", input, src,
                      [=](const Tensor& x) { return select(x, dim, index); });
}
Tensor slice_scatter(const Tensor& input, const Tensor& src, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  return replace_view("slice_scatter", input, src,
                      [=](const Tensor& x) { return slice(x, dim, start, end, step); });
}
Tensor diagonal_scatter(const Tensor& input, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  return replace_view("diagonal_scatter", input, src,
                      [=](const Tensor& x) { return diagonal(x, offset, dim1, dim2); });
}
// PyTorch's gradient of input is what lies in the window, not what lies around it.
Tensor as_strided_scatter(const Tensor& input, const Tensor& src, IntSpan size, IntSpan stride,
                          std::optional<int64_t> storage_offset) {
  const auto view = [sizes = size.dims(), strides = stride.dims(),
                     storage_offset](const Tensor& x) {
    return as_strided(contiguous(x), sizes, strides, storage_offset);
  };
  Tensor out;
  {
    const NoGrad off;
    out = replace_view("as_strided_scatter", input, src, [&](const Tensor& copy) {
      return as_strided(copy, size, stride, storage_offset);
    });
  }
  if (Record r{"as_strided_scatter", out, {input, src}}) {
    r.wrt(0, [view](const Tensor& g) {
      const Tensor none = zeros(g.sizes(), options_of(g));
      return replace_view("as_strided_scatter", none, view(g), view, MemoryFormat::contiguous);
    });
    r.wrt(1, view);
  }
  return out;
}

}  // namespace
OP(select_scatter, "select_scatter(input, src, dim, index)",
   "A copy of input in which the slice at index of dim is src.", along | takes_quantized | no_out)
OP(slice_scatter, "slice_scatter(input, src, dim=0, start=None, end=None, step=1)",
   "A copy of input in which a slice of dim is src.", along | takes_quantized | out_fails)
OP(diagonal_scatter, "diagonal_scatter(input, src, offset=0, dim1=0, dim2=1)",
   "A copy of input in which the diagonal is src.", no_out)
OP(as_strided_scatter, "as_strided_scatter(input, src, size, stride, storage_offset=None)",
   "A copy of input in which a strided window is src.", no_out)

// What PyTorch makes of them.
static Tensor diag_steps(const Tensor& input, int64_t diagonal_) {
  return input.dim() == 1 ? diag_embed(input, diagonal_, 0, 1) : Tensor();
}
static Tensor diagflat_steps(const Tensor& input, int64_t offset) {
  return diag_embed(reshape(input, -1), offset, 0, 1);
}
STEPS(diag, diag_steps)
STEPS(diagflat, diagflat_steps)

}  // namespace flambeau
