// What the files of view ops share.
#pragma once

#include "flambeau/autograd/record.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

// Raises if the window leaves the storage: one can have been made smaller than the views of it.
inline void check_inside(const Tensor& input, IntSpan sizes, IntSpan strides, int64_t offset) {
  const StoragePtr& storage = input.storage();
  const int64_t last = offset + storage_extent(sizes, strides);
  const bool fits = !storage || last * static_cast<int64_t>(input.item_size()) <=
                                    static_cast<int64_t>(storage->bytes());
  if (fits || input->pending & Pending::valueless) [[likely]]
    return;
  make_over(storage, sizes, strides, offset, input.dtype());  // which says what does not fit
}

// The window as a view of input, not yet in the graph.
inline Tensor window(const Tensor& input, IntSpan sizes, IntSpan strides, int64_t offset) {
  check_inside(input, sizes, strides, offset);
  Tensor out = make_alias(input, sizes, strides, offset);
  mark_view(out, input);
  return out;
}

// Zeros of shape `sizes` in which the window that `view` takes holds g: the gradient of a view
// whose elements are distinct. Its own derivative is the view.
template <class View>
Tensor embed(const char* op, const Tensor& g, IntSpan sizes, View view) {
  Tensor whole = zeros(sizes, options_of(g));
  {
    const NoGrad off;
    copy_(view(whole), g);
  }
  if (Record r{op, whole, {g}}) r.wrt(0, std::move(view));
  return whole;
}

// A window on memory.
struct Geometry {
  Dims sizes, strides;
  int64_t offset = 0;
};
inline Geometry geometry_of(const Tensor& tensor) {
  return {tensor->sizes, tensor->strides, tensor.offset()};
}

// See Note [Gradients of overlapping windows].
Tensor window_gradient(const Tensor& g, const Geometry& out, const Geometry& input);

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step);
Tensor roll(const Tensor& input, IntSpan shifts, std::optional<IntSpan> along);

// The length of range(start, end) after Python's clamping; start and end are moved into bounds.
int64_t clamp_slice(int64_t size, int64_t& start, int64_t& end, int64_t step);

}  // namespace flambeau
