// Views that are copied at once: what the view shows, in memory of its own.
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

Tensor copied(const Tensor& seen) { return clone(seen, MemoryFormat::contiguous); }

std::vector<Tensor> all_copied(std::vector<Tensor> seen) {
  for (Tensor& part : seen) part = copied(part);
  return seen;
}

Tensor view_copy(const Tensor& input, IntSpan size) { return copied(view(input, size)); }
Tensor view_dtype_copy(const Tensor& input, DType dtype) { return copied(view(input, dtype)); }
Tensor narrow_copy(const Tensor& input, int64_t dim, int64_t start, int64_t length) {
  return copied(narrow(input, dim, start, length));
}
Tensor permute_copy(const Tensor& input, IntSpan dims) { return copied(permute(input, dims)); }
OP_FUNCTION((one_step<view_copy, "view.0_copy">), "view_copy(input, size)",
            "A copy of input in another shape.", reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<view_dtype_copy, "view.0_copy">), "view_copy(input, dtype)",
            "A copy of the bytes of input as a dtype.",
            reshapes | moves | takes_quantized | out_fails)
OP(narrow_copy, "narrow_copy(input, dim, start, length)", "A copy of a part of dimension dim.",
   reshapes | moves | takes_quantized)
OP_FUNCTION((one_step<permute_copy, "permute.0_copy">), "permute_copy(input, dims)",
            "A copy of input with its dimensions reordered.",
            reshapes | moves | takes_quantized | out_fails)

Tensor expand_copy(const Tensor& input, IntSpan size, bool /*implicit*/) {
  return copied(expand(input, size));
}
Tensor transpose_copy(const Tensor& input, int64_t dim0, int64_t dim1) {
  return copied(transpose(input, dim0, dim1));
}
Tensor t_copy(const Tensor& input) { return copied(t(input)); }
Tensor unsqueeze_copy(const Tensor& input, int64_t dim) { return copied(unsqueeze(input, dim)); }
Tensor squeeze_copy(const Tensor& input) { return copied(squeeze(input)); }
Tensor squeeze_dims_copy(const Tensor& input, IntSpan dim) { return copied(squeeze(input, dim)); }
Tensor alias_copy(const Tensor& input) { return clone(alias(input), MemoryFormat::contiguous); }
Tensor detach_copy(const Tensor& input) { return clone(detach(input), MemoryFormat::contiguous); }
OP_FUNCTION((one_step<expand_copy, "expand.0_copy">), "expand_copy(input, size, *, implicit=False)",
            "A copy of input expanded to a size.", reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<transpose_copy, "transpose.0_copy">), "transpose_copy.int(input, dim0, dim1)",
            "A copy of input with two dimensions exchanged.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<t_copy, "t.0_copy">), "t_copy(input)", "A copy of the transpose of a matrix.",
            moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<unsqueeze_copy, "unsqueeze.0_copy">), "unsqueeze_copy(input, dim)",
            "A copy of input with a dimension of size one inserted.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<squeeze_copy, "squeeze.0_copy">), "squeeze_copy(input)",
            "A copy of input without its dimensions of size one.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<squeeze_dims_copy, "squeeze.1_copy">), "squeeze_copy(input, dim)",
            "A copy of input without those of the given dimensions that have size one.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<alias_copy, "alias.0_copy">), "alias_copy(input)", "A copy of input.",
            moves | takes_quantized | out_fails)
OP_FUNCTION(detach_copy, "detach_copy(input)", "A copy of input without history.",
            moves | takes_quantized | out_fails)

Tensor as_strided_copy(const Tensor& input, IntSpan size, IntSpan stride,
                       std::optional<int64_t> storage_offset) {
  return copied(as_strided(input, size, stride, storage_offset));
}
Tensor diagonal_copy(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
  return copied(diagonal(input, offset, dim1, dim2));
}
Tensor select_copy(const Tensor& input, int64_t dim, int64_t index) {
  return copied(select(input, dim, index));
}
Tensor slice_copy(const Tensor& input, int64_t dim, std::optional<int64_t> start,
                  std::optional<int64_t> end, int64_t step) {
  return copied(slice(input, dim, start, end, step));
}
Tensor view_as_real_copy(const Tensor& input) { return copied(view_as_real(input)); }
Tensor view_as_complex_copy(const Tensor& input) { return copied(view_as_complex(input)); }
Tensor unfold_copy(const Tensor& input, int64_t dimension, int64_t size, int64_t step) {
  return copied(unfold(input, dimension, size, step));
}
OP_FUNCTION((one_step<as_strided_copy, "as_strided.0_copy">),
            "as_strided_copy(input, size, stride, storage_offset=None)",
            "A copy of the memory of input seen with other sizes and strides.",
            moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<diagonal_copy, "diagonal.0_copy">),
            "diagonal_copy(input, offset=0, dim1=0, dim2=1)",
            "A copy of a diagonal of two dimensions.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<select_copy, "select.0_copy">), "select_copy.int(input, dim, index)",
            "A copy of one slice along dim.", reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<slice_copy, "slice.0_copy">),
            "slice_copy.Tensor(input, dim=0, start=None, end=None, step=1)",
            "A copy of a range of slices along dim.",
            reshapes | moves | takes_quantized | out_fails)
OP_FUNCTION((one_step<view_as_real_copy, "view_as_real.0_copy">), "view_as_real_copy(input)",
            "A copy of complex numbers as pairs of real ones.", out_fails)
OP_FUNCTION((one_step<view_as_complex_copy, "view_as_complex.0_copy">),
            "view_as_complex_copy(input)", "A copy of pairs of real numbers as complex ones.",
            out_fails)
OP_FUNCTION((one_step<unfold_copy, "unfold.0_copy">), "unfold_copy(input, dimension, size, step)",
            "A copy of windows of size elements along a dimension, step apart.",
            reshapes | moves | takes_quantized | out_fails)

std::vector<Tensor> unbind_copy(const Tensor& input, int64_t dim) {
  return all_copied(unbind(input, dim));
}
std::vector<Tensor> split_copy(const Tensor& input, int64_t split_size, int64_t dim) {
  return all_copied(split(input, split_size, dim));
}
std::vector<Tensor> split_with_sizes_copy(const Tensor& input, IntSpan split_sizes, int64_t dim) {
  return all_copied(split(input, split_sizes, dim));
}
OP_FUNCTION((one_step<unbind_copy, "unbind.0_copy">), "unbind_copy.int(input, dim=0)",
            "Copies of all slices along dim.", reshapes | moves | takes_quantized | out_drops)
OP_FUNCTION((one_step<split_copy, "split.0_copy">), "split_copy.Tensor(input, split_size, dim=0)",
            "Copies of chunks of equal size along dim.",
            reshapes | moves | takes_quantized | out_drops)
OP_FUNCTION((one_step<split_with_sizes_copy, "split_with_sizes.0_copy">),
            "split_with_sizes_copy(input, split_sizes, dim=0)",
            "Copies of chunks of given sizes along dim.",
            reshapes | moves | takes_quantized | out_drops)

}  // namespace
}  // namespace flambeau
