// Arithmetic of shapes: checked products, strides, broadcasting, dimension numbers. Every op
// validates with these before it touches memory.
#pragma once

#include <optional>
#include <string_view>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

constexpr int64_t max_dims = 64;

// The number of elements; raises on negative sizes and on overflow.
int64_t checked_numel(IntSpan sizes);
int64_t checked_multiply(int64_t a, int64_t b);  // raises RuntimeError on overflow
size_t checked_bytes(IntSpan sizes, DType dtype);

// The stride of the dimension outside one of this stride and size. Sizes were checked where memory
// was made; saturating keeps shapes of no elements defined.
inline int64_t next_stride(int64_t stride, int64_t size) {
  return __builtin_mul_overflow(stride, size > 1 ? size : 1, &stride) ? INT64_MAX : stride;
}
Dims contiguous_strides(IntSpan sizes);
Dims format_strides(IntSpan sizes, MemoryFormat format);  // channels_last and so on
bool is_contiguous_geometry(IntSpan sizes, IntSpan strides);
bool is_channels_last_geometry(IntSpan sizes, IntSpan strides);     // 4-d NHWC
bool is_channels_last_3d_geometry(IntSpan sizes, IntSpan strides);  // 5-d NDHWC
bool is_non_overlapping_and_dense(IntSpan sizes, IntSpan strides);
// Elements reached from the offset: 1 + the largest index; 0 for empty.
int64_t storage_extent(IntSpan sizes, IntSpan strides);
// The memory format to give an output that should look like this input.
MemoryFormat suggest_format(const Tensor& tensor);
// Strides that keep the order of dimensions of `tensor` but are dense (preserve_format).
Dims preserved_strides(const Tensor& tensor);

Dims broadcast_shapes(IntSpan a, IntSpan b);
bool can_broadcast_to(IntSpan from, IntSpan to);

// The dimension counted from the front. Raises IndexError "Dimension out of range (expected to be
// in range of [-2, 1], but got 5)". A zero-dim tensor is taken to have one dimension.
int64_t wrap_dim(int64_t dim, int64_t rank);
int64_t wrap_dim(std::string_view op, int64_t dim, int64_t rank);
// A mask of the dimensions; none given means all. Raises on repeats.
std::vector<bool> dim_mask(std::string_view op, IntSpan dims, int64_t rank);

// The one size given as -1 filled in so that the product is numel.
Dims infer_size(IntSpan sizes, int64_t numel);
// Strides under which `sizes` views the same elements, if there are any.
std::optional<Dims> view_strides(IntSpan old_sizes, IntSpan old_strides, IntSpan new_sizes);

}  // namespace flambeau
