// Lua Torch's normalization across the channels of images, kept for its models. It adds up the
// squares of an odd number of channels, also where size is even, and never lets go of the first
// channel's square.
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor cross_map_lrn2d(const Tensor& input, int64_t size, double alpha, double beta, double k) {
  CHECK(input.dim() == 4, ValueError, "CrossMapLRN2d: Expected input to be 4D, got {}D instead.",
        input.dim());
  CHECK(size > 0, ValueError, "CrossMapLRN2d: size must be positive, but got {}", size);
  const auto padded = [](const Tensor& x, int64_t before, int64_t after) {
    return tensor_op("pad", {x, Dims{0, 0, 0, 0, before, after}});
  };
  const int64_t reach = (size + 1) / 2;
  const Tensor square = input * input;
  const Tensor windows =
      tensor_op("unfold", {padded(square, reach - 1, reach - 1), 1, 2 * reach - 1, 1});
  const Tensor around = sum(windows, IntSpan(int64_t{-1}), false);
  const Tensor first = expand(narrow(square, 1, 0, 1), square.sizes());
  const Tensor later = slice(first, 1, reach, {}, 1);
  const Tensor all = around + padded(later, reach, 0);
  return input * tensor_op("pow", {all * (alpha / static_cast<double>(size)) + k, -beta});
}
OP_FUNCTION(cross_map_lrn2d, "_cross_map_lrn2d(input, size, alpha, beta, k)",
            "Divides by a power of the sum of squares over neighbouring channels.",
            composed | no_out)

}  // namespace
}  // namespace flambeau
