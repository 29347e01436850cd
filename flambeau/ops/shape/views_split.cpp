// Views that come several at once: split, chunk, unbind and their relatives. Writing into one of
// several outputs of a recorded call is refused, since the graph could not tell who sees it.
#include <algorithm>

#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

// The gradients of the parts, zeros where nobody asked.
std::vector<Tensor> filled_in(Grads& grads, const std::vector<Dims>& shapes,
                              const Options& options) {
  std::vector<Tensor> chunks;
  for (size_t i = 0; i < shapes.size(); ++i) {
    chunks.push_back(grads[i].defined() ? grads[i] : zeros(shapes[i], options));
  }
  return chunks;
}

// A list of more tensors than this is a mistake that would exhaust memory.
void check_count(const char* op, int64_t count) {
  constexpr int64_t most = int64_t{1} << 26;
  CHECK(count <= most, RuntimeError, "{}: cannot create {} tensors, the most is {}", op, count,
        most);
}

// Consecutive chunks of the given lengths; lengths have been checked to add up. Chunks that are not
// `watched` are no views to autograd: the caller promises that writes into them do not mix.
std::vector<Tensor> views_of(const char* op, const Tensor& input, IntSpan lengths, int64_t dim,
                             bool watched = true) {
  std::vector<Tensor> chunks;
  chunks.reserve(lengths.size());
  Dims sizes = input->sizes;
  int64_t offset = input.offset();
  for (const int64_t length : lengths) {
    sizes[dim] = length;
    check_inside(input, sizes, input.strides(), offset);
    chunks.push_back(make_alias(input, sizes, input.strides(), offset));
    if (watched) {
      mark_view(chunks.back(), input, ViewOrigin::multiple_outputs);
    } else {
      chunks.back()->version = nullptr;
    }
    // Behind the last chunk there is nothing, and the stride of a single element may lead anywhere.
    if (chunks.size() < lengths.size()) offset += length * input->strides[dim];
  }
  if (Record r{op, chunks, {input}}) {
    std::vector<Dims> shapes;
    for (const Tensor& chunk : chunks) shapes.push_back(chunk->sizes);
    r.all([shapes = std::move(shapes), options = options_of(input), dim](Grads& in, Grads& out) {
      out[0] = cat(filled_in(in, shapes, options), dim);
    });
  }
  return chunks;
}

Dims equal_lengths(int64_t size, int64_t length) {
  const int64_t count = length == 0 ? 1 : std::max<int64_t>((size + length - 1) / length, 1);
  check_count("split", count);
  Dims lengths(count, length);
  lengths.back() = size - length * (count - 1);
  return lengths;
}

int64_t checked_split_size(const Tensor& input, int64_t split_size, int64_t dim) {
  CHECK(input.dim() > 0, RuntimeError, "split expects at least a 1-dimensional tensor");
  CHECK(split_size >= 0, RuntimeError,
        "split expects split_size be non-negative, but got split_size={}", split_size);
  const int64_t size = input.size(dim);
  CHECK(split_size > 0 || size == 0, RuntimeError,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {}", size);
  return std::min(split_size, std::max<int64_t>(size, 1));
}

void check_split_sizes(const Tensor& input, IntSpan split_sizes, int64_t dim) {
  int64_t total = 0;
  for (const int64_t size : split_sizes) {
    CHECK(size >= 0, RuntimeError,
          "split_with_sizes expects split_sizes have only non-negative entries, but got "
          "split_sizes={}",
          split_sizes);
    if (__builtin_add_overflow(total, size, &total)) total = -1;
    if (total < 0) break;
  }
  CHECK(
      total == input.size(dim), RuntimeError,
      "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension "
      "{}), but got split_sizes={}",
      input.size(dim), dim, split_sizes);
}

int64_t chunk_length(const Tensor& input, int64_t chunks, int64_t dim) {
  CHECK(input.dim() > 0, RuntimeError, "chunk expects at least a 1-dimensional tensor");
  CHECK(chunks > 0, RuntimeError, "chunk expects `chunks` to be greater than 0, got: {}", chunks);
  const int64_t size = input.size(dim);
  return size / chunks + (size % chunks != 0);
}

}  // namespace

std::vector<Tensor> split(const Tensor& input, int64_t split_size, int64_t dim) {
  REDIRECT(split, input, split_size, dim)
  const int64_t length = checked_split_size(input, split_size, dim);
  dim = wrap_dim(dim, input.dim());
  return views_of("split", input, equal_lengths(input->sizes[dim], length), dim);
}

std::vector<Tensor> split(const Tensor& input, IntSpan split_sizes, int64_t dim) {
  REDIRECT(split, input, split_sizes, dim)
  CHECK(input.dim() > 0, RuntimeError, "split_with_sizes expects at least a 1-dimensional tensor");
  dim = wrap_dim(dim, input.dim());
  check_split_sizes(input, split_sizes, dim);
  return views_of("split_with_sizes", input, split_sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& input, int64_t chunks, int64_t dim) {
  REDIRECT(chunk, input, chunks, dim)
  const int64_t length = chunk_length(input, chunks, dim);
  if (length == 0) {
    check_count("chunk", chunks);
    return split(input, Dims(chunks, 0), dim);
  }
  return split(input, length, dim);
}

std::vector<Tensor> unbind(const Tensor& input, int64_t dim) {
  REDIRECT(unbind, input, dim)
  CHECK(input.dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions", dim);
  dim = wrap_dim(dim, input.dim());
  Dims sizes = input->sizes, strides = input->strides;
  const int64_t count = sizes[dim], step = strides[dim];
  check_count("unbind", count);
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  std::vector<Tensor> parts;
  parts.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    check_inside(input, sizes, strides, input.offset() + i * step);
    parts.push_back(make_alias(input, sizes, strides, input.offset() + i * step));
    mark_view(parts.back(), input, ViewOrigin::multiple_outputs);
  }
  if (count == 0) return parts;
  if (Record r{"unbind", parts, {input}}) {
    r.all([sizes, count, options = options_of(input), dim](Grads& in, Grads& out) {
      out[0] = stack(filled_in(in, std::vector<Dims>(count, sizes), options), dim);
    });
  }
  return parts;
}

namespace {

std::vector<Tensor> split_size_op(const Tensor& input, int64_t split_size, int64_t dim) {
  return split(input, split_size, dim);
}
std::vector<Tensor> split_sizes_op(const Tensor& input, IntSpan split_sizes, int64_t dim) {
  return split(input, split_sizes, dim);
}

std::vector<Tensor> unsafe_split(const Tensor& input, int64_t split_size, int64_t dim) {
  const int64_t length = checked_split_size(input, split_size, dim);
  dim = wrap_dim(dim, input.dim());
  return views_of("unsafe_split", input, equal_lengths(input->sizes[dim], length), dim, false);
}
std::vector<Tensor> unsafe_split_with_sizes(const Tensor& input, IntSpan split_sizes, int64_t dim) {
  dim = wrap_dim(dim, input.dim());
  check_split_sizes(input, split_sizes, dim);
  return views_of("unsafe_split_with_sizes", input, split_sizes, dim, false);
}
std::vector<Tensor> unsafe_chunk(const Tensor& input, int64_t chunks, int64_t dim) {
  const int64_t length = chunk_length(input, chunks, dim);
  if (length > 0) return unsafe_split(input, length, dim);
  check_count("unsafe_chunk", chunks);
  return unsafe_split_with_sizes(input, Dims(chunks, 0), dim);
}

void check_tensor_split(const Tensor& input) {
  CHECK(input.dim() > 0, RuntimeError,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {} dims",
        input.dim());
}

std::vector<Tensor> tensor_split_sections(const Tensor& input, int64_t sections, int64_t dim) {
  check_tensor_split(input);
  dim = wrap_dim(dim, input.dim());
  CHECK(sections > 0, RuntimeError, "number of sections must be larger than 0, got {}", sections);
  check_count("tensor_split", sections);
  const int64_t size = input->sizes[dim];
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t length = size / sections + (i < size % sections);
    parts.push_back(slice(input, dim, start, start + length, 1));
    start += length;
  }
  return parts;
}

std::vector<Tensor> tensor_split_indices(const Tensor& input, IntSpan indices, int64_t dim) {
  check_tensor_split(input);
  dim = wrap_dim(dim, input.dim());
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t end : indices) {
    parts.push_back(slice(input, dim, start, end, 1));
    start = end;
  }
  parts.push_back(slice(input, dim, start, std::nullopt, 1));
  return parts;
}

std::vector<Tensor> tensor_split_tensor(const Tensor& input, const Tensor& where, int64_t dim) {
  CHECK(where.dtype() == DType::int64, RuntimeError,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        dtype_legacy_name(where.dtype()));
  CHECK(where.device().is_cpu(), RuntimeError,
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
        where.device());
  CHECK(where.dim() <= 1, RuntimeError,
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
        "one-dimensional tensor, but got a tensor with {} dims",
        where.dim());
  if (where.dim() == 0) return tensor_split_sections(input, item(where).to_int(), dim);
  const Tensor flat = contiguous(resolve(where));
  return tensor_split_indices(input, IntSpan(flat.data<int64_t>(), flat.numel()), dim);
}

// hsplit, vsplit and dsplit differ in their dimension and in the rank they need.
int64_t stacked_dim(const char* op, const Tensor& input, int64_t rank, int64_t dim) {
  CHECK(
      input.dim() >= rank, RuntimeError,
      "torch.{} requires a tensor with at least {} dimension, but got a tensor with {} dimensions!",
      op, rank, input.dim());
  return dim == 1 && input.dim() == 1 ? 0 : dim;
}
std::vector<Tensor> split_evenly(const char* op, const Tensor& input, int64_t sections,
                                 int64_t dim) {
  CHECK(sections > 0 && input->sizes[dim] % sections == 0, RuntimeError,
        "torch.{} attempted to split along dimension {}, but the size of the dimension {} is not "
        "divisible by the split_size {}!",
        op, dim, input->sizes[dim], sections);
  return tensor_split_sections(input, sections, dim);
}
#define STACKED_SPLIT(op, rank, dim)                                                 \
  std::vector<Tensor> op(const Tensor& input, int64_t sections) {                    \
    return split_evenly(#op, input, sections, stacked_dim(#op, input, rank, dim));   \
  }                                                                                  \
  std::vector<Tensor> op##_at(const Tensor& input, IntSpan indices) {                \
    return tensor_split_indices(input, indices, stacked_dim(#op, input, rank, dim)); \
  }
STACKED_SPLIT(hsplit, 1, 1)
STACKED_SPLIT(vsplit, 2, 0)
STACKED_SPLIT(dsplit, 3, 2)
#undef STACKED_SPLIT

}  // namespace

OP_FUNCTION(split_size_op, "split.Tensor(tensor, split_size_or_sections, dim=0)",
            "Views of consecutive chunks of tensor along dim, of one size or of the given sizes.",
            makes_view | reshapes | takes_nested)
OP_FUNCTION(split_sizes_op, "split(tensor, split_size_or_sections, dim=0)",
            "Views of consecutive chunks of tensor along dim, of one size or of the given sizes.",
            makes_view | reshapes | takes_nested | composed)
OP_METHOD(split_size_op, "split.Tensor(self, split_size, dim=0)",
          "Views of consecutive chunks of self along dim, of one size or of the given sizes.",
          makes_view | reshapes | takes_nested)
OP_METHOD(split_sizes_op, "split(self, split_size, dim=0)",
          "Views of consecutive chunks of self along dim, of one size or of the given sizes.",
          makes_view | reshapes | takes_nested | composed)
OP_VIEW(split_sizes_op, "split_with_sizes(input, split_sizes, dim=0)",
        "Views of consecutive chunks of input along dim, of the given sizes.",
        reshapes | takes_nested)
OP_VIEW(chunk, "chunk(input, chunks, dim=0)",
        "Views of about `chunks` equal parts of input along dim.",
        reshapes | takes_nested | composed)
OP_VIEW(unbind, "unbind.int(input, dim=0)", "Views of all slices of input along dim.", reshapes)
OP_VIEW(unsafe_split, "unsafe_split.Tensor(input, split_size, dim=0)",
        "split, whose results may be written into; their bases must not be.", reshapes)
OP_VIEW(unsafe_split_with_sizes, "unsafe_split_with_sizes(input, split_sizes, dim=0)",
        "split_with_sizes, whose results may be written into; their bases must not be.", reshapes)
OP_VIEW(unsafe_chunk, "unsafe_chunk(input, chunks, dim=0)",
        "chunk, whose results may be written into; their bases must not be.", reshapes)
OP_VIEW(tensor_split_sections, "tensor_split(input, sections, dim=0)",
        "Views of chunks of input along dim: a number of them, or cut before the given indices.",
        reshapes | composed)
OP_VIEW(tensor_split_indices, "tensor_split(input, indices, dim=0)",
        "Views of chunks of input along dim: a number of them, or cut before the given indices.",
        reshapes | composed)
OP_VIEW(tensor_split_tensor, "tensor_split(input, tensor_indices_or_sections, dim=0)",
        "Views of chunks of input along dim: a number of them, or cut before the given indices.",
        reshapes | composed)
OP_VIEW(hsplit, "hsplit(input, sections)", "input split along its columns.", composed)
OP_VIEW(hsplit_at, "hsplit(input, indices)", "input split along its columns.", composed)
OP_VIEW(vsplit, "vsplit(input, sections)", "input split along its rows.", composed)
OP_VIEW(vsplit_at, "vsplit(input, indices)", "input split along its rows.", composed)
OP_VIEW(dsplit, "dsplit(input, sections)", "input split along its third dimension.", composed)
OP_VIEW(dsplit_at, "dsplit(input, indices)", "input split along its third dimension.", composed)

}  // namespace flambeau
