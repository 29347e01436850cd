#include "flambeau/tensor/shape.h"

#include <algorithm>

#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

std::string to_text(IntSpan values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  CHECK(!__builtin_mul_overflow(a, b, &product), RuntimeError,
        "numel: integer multiplication overflow ({} * {})", a, b);
  return product;
}

int64_t checked_numel(IntSpan sizes) {
  int64_t numel = 1;
  bool zero = false;
  for (const int64_t size : sizes) {
    CHECK(size >= 0, RuntimeError, "Trying to create tensor with negative dimension {}: {}", size,
          sizes);
    zero |= size == 0;
  }
  if (zero) return 0;
  for (const int64_t size : sizes) {
    CHECK(!__builtin_mul_overflow(numel, size, &numel), RuntimeError,
          "Storage size calculation overflowed with sizes={}", sizes);
  }
  return numel;
}

size_t checked_bytes(IntSpan sizes, DType dtype) {
  int64_t bytes = 0;
  CHECK(
      !__builtin_mul_overflow(checked_numel(sizes), static_cast<int64_t>(item_size(dtype)), &bytes),
      RuntimeError, "Storage size calculation overflowed with sizes={}", sizes);
  return static_cast<size_t>(bytes);
}

Dims contiguous_strides(IntSpan sizes) {
  Dims strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = next_stride(step, sizes[i]);
  }
  return strides;
}

namespace {

// Strides that make memory order `order` (outermost first) dense.
Dims ordered_strides(IntSpan sizes, std::initializer_list<int> order) {
  Dims strides(sizes.size(), 0);
  int64_t step = 1;
  for (auto it = std::rbegin(order); it != std::rend(order); ++it) {
    strides[*it] = step;
    step = next_stride(step, sizes[*it]);
  }
  return strides;
}

bool is_ordered_geometry(IntSpan sizes, IntSpan strides, std::initializer_list<int> inner_first) {
  int64_t least = 0;
  if (strides[1] == 0) return false;
  for (const int d : inner_first) {
    if (sizes[d] == 0) return false;
    if (strides[d] < least) return false;
    // A plain contiguous N x 1 x H x W tensor is not taken for channels-last.
    if (d == 0 && least == strides[1]) return false;
    least = strides[d];
    if (sizes[d] > 1) least *= sizes[d];
  }
  return true;
}

}  // namespace

Dims format_strides(IntSpan sizes, MemoryFormat format) {
  if (format == MemoryFormat::channels_last) {
    CHECK(sizes.size() == 4, RuntimeError,
          "required rank 4 tensor to use channels_last format, got sizes {}", sizes);
    return ordered_strides(sizes, {0, 2, 3, 1});
  }
  if (format == MemoryFormat::channels_last_3d) {
    CHECK(sizes.size() == 5, RuntimeError,
          "required rank 5 tensor to use channels_last_3d format, got sizes {}", sizes);
    return ordered_strides(sizes, {0, 2, 3, 4, 1});
  }
  return contiguous_strides(sizes);
}

bool is_contiguous_geometry(IntSpan sizes, IntSpan strides) {
  uint64_t step = 1;  // wraps only on the way to a size of zero
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (static_cast<uint64_t>(strides[i]) != step) {
      return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    }
    step *= static_cast<uint64_t>(sizes[i]);
  }
  return true;
}

bool is_channels_last_geometry(IntSpan sizes, IntSpan strides) {
  return sizes.size() == 4 && is_ordered_geometry(sizes, strides, {1, 3, 2, 0});
}

bool is_channels_last_3d_geometry(IntSpan sizes, IntSpan strides) {
  return sizes.size() == 5 && is_ordered_geometry(sizes, strides, {1, 4, 3, 2, 0});
}

bool is_non_overlapping_and_dense(IntSpan sizes, IntSpan strides) {
  InlineVector<uint32_t, 8> order;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (const uint32_t i : order) {
    if (strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

int64_t storage_extent(IntSpan sizes, IntSpan strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    int64_t reach = 0;
    CHECK(!__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) &&
              !__builtin_add_overflow(extent, reach, &extent),
          RuntimeError, "Storage size calculation overflowed with sizes={} and strides={}", sizes,
          strides);
  }
  return extent;
}

namespace {

// Whether strides rise from the channels over the last dimension to the first, each at least what
// lies inside it: also with gaps, and where sizes of one leave strides free. Where all but the
// first size are one, they tell nothing.
bool has_channels_inside(IntSpan sizes, IntSpan strides) {
  const size_t rank = sizes.size();
  if (strides[1] == 0) return false;
  int64_t inside = 0;
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    const bool untold = d == 0 && inside == strides[1];
    if (sizes[d] == 0 || strides[d] < inside || untold) return false;
    inside = next_stride(strides[d], sizes[d]);
  }
  return true;
}

}  // namespace

MemoryFormat suggest_format(const Tensor& tensor) {
  const int64_t rank = tensor.dim();
  if ((rank != 4 && rank != 5) || !has_channels_inside(tensor.sizes(), tensor.strides())) {
    return MemoryFormat::contiguous;
  }
  return rank == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
}

Dims preserved_strides(const Tensor& tensor) {
  // As they are, also where a dimension of size 1 makes them free.
  if (tensor.is_contiguous() || is_non_overlapping_and_dense(tensor.sizes(), tensor.strides())) {
    return tensor.strides().dims();
  }
  const Tensor* self = &tensor;
  return common_strides(tensor.sizes(), &self, 1);
}

Dims broadcast_shapes(IntSpan a, IntSpan b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims result(rank, 1);
  for (size_t i = 0; i < rank; ++i) {  // i counts from the last dimension
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    CHECK(x == y || x == 1 || y == 1, RuntimeError,
          "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton "
          "dimension {} (shapes {} and {})",
          x, y, rank - 1 - i, a, b);
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

bool can_broadcast_to(IntSpan from, IntSpan to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t have = from[from.size() - 1 - i];
    if (have != 1 && have != to[to.size() - 1 - i]) return false;
  }
  return true;
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t bound = std::max<int64_t>(rank, 1);
  CHECK(dim >= -bound && dim < bound, IndexError,
        "Dimension out of range (expected to be in range of [{}, {}], but got {})", -bound,
        bound - 1, dim);
  return dim < 0 ? dim + bound : dim;
}

int64_t wrap_dim(std::string_view op, int64_t dim, int64_t rank) {
  const int64_t bound = std::max<int64_t>(rank, 1);
  CHECK(dim >= -bound && dim < bound, IndexError,
        "{}(): Dimension out of range (expected to be in range of [{}, {}], but got {})", op,
        -bound, bound - 1, dim);
  return dim < 0 ? dim + bound : dim;
}

std::vector<bool> dim_mask(std::string_view op, IntSpan dims, int64_t rank) {
  std::vector<bool> mask(std::max<int64_t>(rank, 1), dims.empty());
  for (const int64_t dim : dims) {
    const int64_t wrapped = wrap_dim(op, dim, rank);
    CHECK(!mask[wrapped], RuntimeError,
          "{}(): dim {} appears multiple times in the list of dims {}", op, wrapped, dims);
    mask[wrapped] = true;
  }
  return mask;
}

Dims infer_size(IntSpan sizes, int64_t numel) {
  Dims result = sizes.dims();
  int64_t known = 1;
  std::optional<size_t> unknown;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      CHECK(!unknown, RuntimeError, "only one dimension can be inferred, got shape {}", sizes);
      unknown = i;
    } else {
      CHECK(sizes[i] >= 0, RuntimeError, "invalid shape dimension {} in shape {}", sizes[i], sizes);
      known = checked_multiply(known, sizes[i]);
    }
  }
  if (unknown) {
    CHECK(known != 0, RuntimeError,
          "cannot reshape tensor of {} elements into shape {} because the unspecified dimension "
          "size -1 can be any value and is ambiguous",
          numel, sizes);
  }
  CHECK(known == numel || (unknown && numel % known == 0), RuntimeError,
        "shape '{}' is invalid for input of size {}", sizes, numel);
  if (unknown) result[*unknown] = numel / known;
  return result;
}

std::optional<Dims> view_strides(IntSpan old_sizes, IntSpan old_strides, IntSpan new_sizes) {
  if (old_sizes.empty()) return Dims(new_sizes.size(), 1);
  if (std::find(old_sizes.begin(), old_sizes.end(), 0) != old_sizes.end()) {
    return old_sizes == new_sizes ? old_strides.dims() : contiguous_strides(new_sizes);
  }
  // Walk both shapes from the inside; each run of old dimensions that is contiguous in itself
  // must be covered exactly by a run of new ones.
  Dims strides(new_sizes.size(), 0);
  int64_t at = static_cast<int64_t>(new_sizes.size()) - 1;
  int64_t base = old_strides.back();
  int64_t run = 1, covered = 1;
  for (int64_t d = static_cast<int64_t>(old_sizes.size()) - 1; d >= 0; --d) {
    run *= old_sizes[d];
    const bool run_ends = d == 0 || (old_sizes[d - 1] != 1 && old_strides[d - 1] != run * base);
    if (!run_ends) continue;
    while (at >= 0 && (covered < run || new_sizes[at] == 1)) {
      strides[at] = covered * base;
      covered *= new_sizes[at];
      --at;
    }
    if (covered != run) return std::nullopt;
    if (d > 0) {
      base = old_strides[d - 1];
      run = covered = 1;
    }
  }
  if (at != -1) return std::nullopt;
  return strides;
}

}  // namespace flambeau
