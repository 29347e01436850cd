// Poolings that are compositions: p-norms of windows, and maxima put back to where they were.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// The name of a pooling over `rank` dimensions.
std::string pool_name(const char* kind, int64_t rank) {
  return std::string(kind) + std::to_string(rank) + "d";
}

// From an average of p-th powers, or from a maximum.
Tensor lp_pool(int64_t rank, const Tensor& input, const Scalar& norm_type, IntSpan kernel_size,
               std::optional<IntSpan> stride, bool ceil_mode) {
  const double p = norm_type.to_double();
  const Dims zero{0}, one{1};
  CHECK(p != 0, ValueError, "norm_type must be a non-zero value, but got {}", norm_type);
  if (std::isinf(p)) {  // the least magnitude is the largest negated one
    const double sign = std::copysign(1.0, p);
    const Tensor maxima = tensor_op(pool_name("max_pool", rank),
                                    {abs(input) * sign, kernel_size, stride, zero, one, ceil_mode});
    return maxima * sign;
  }
  const Tensor powers = pow(input, norm_type);
  const Tensor mean =
      tensor_op(pool_name("avg_pool", rank), {powers, kernel_size, stride, zero, ceil_mode});
  int64_t window = 1;  // the op has refused one that is larger than its input
  for (int64_t d = 0; d < rank; ++d) window *= kernel_size[kernel_size.size() == 1 ? 0 : d];
  // The sign keeps windows whose sum is negative (odd powers) at zero.
  const Tensor signs = sign(mean);
  return pow(signs * relu(abs(mean)) * window, 1.0 / p);
}

void check_length(const char* op, const char* name, IntSpan values, int64_t rank) {
  CHECK(static_cast<int64_t>(values.size()) == rank, RuntimeError,
        "{}: there should be exactly {} elements in {}, but got {} elements", op, rank, name,
        values.size());
}

// The spatial size before pooling: that given if it can be, else the smallest.
Dims unpooled_size(const char* op, const Tensor& input, const Dims& kernel, const Dims& stride,
                   const Dims& padding, std::optional<IntSpan> output_size) {
  const auto rank = static_cast<int64_t>(kernel.size());
  Dims usual;
  for (int64_t d = 0; d < rank; ++d)
    usual.push_back((input.size(d - rank) - 1) * stride[d] + kernel[d] - 2 * padding[d]);
  if (!output_size) {
    for (const int64_t size : usual) {
      CHECK(size >= 0, RuntimeError,
            "{}: input of shape {} with kernel_size {}, stride {} and padding {} has no output: "
            "its size would be {}",
            op, input.sizes(), kernel, stride, padding, usual);
    }
    return usual;
  }
  const auto given = static_cast<int64_t>(output_size->size());
  CHECK(given == rank || given == rank + 2, ValueError,
        "output_size should be a sequence containing {} or {} elements, but it has a length of "
        "'{}'",
        rank, rank + 2, given);
  const IntSpan wanted = output_size->from(given - rank);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t low = usual[d] - stride[d], high = usual[d] + stride[d];
    CHECK(low < wanted[d] && wanted[d] < high, ValueError,
          "invalid output_size \"{}\" (dim {} must be between {} and {})", wanted, d, low, high);
  }
  return wanted.dims();
}

Tensor max_unpool(int64_t rank, const Tensor& input, const Tensor& indices, IntSpan kernel_size,
                  std::optional<IntSpan> stride, IntSpan padding,
                  std::optional<IntSpan> output_size) {
  const std::string op = pool_name("max_unpool", rank);
  const Dims kernel = kernel_size.dims(), steps = stride ? stride->dims() : kernel;
  const Dims around = padding.size() == 1 ? Dims(rank, padding[0]) : padding.dims();
  check_length(op.c_str(), "kernel_size", kernel, rank);
  check_length(op.c_str(), "stride", steps, rank);
  check_length(op.c_str(), "padding", around, rank);
  CHECK(input.dim() == rank + 1 || input.dim() == rank + 2, RuntimeError,
        "Input to max_unpooling{}d should be a {}d or {}d Tensor, but got a tensor with {} "
        "dimensions.",
        std::max<int64_t>(rank, 2), rank + 1, rank + 2, input.dim());
  for (const int64_t step : steps) {
    CHECK(rank < 3 || step > 0, RuntimeError,
          "strides should be greater than zero, but got stride: {}", steps);
  }
  const Dims size = unpooled_size(op.c_str(), input, kernel, steps, around, output_size);
  CHECK(indices.dtype() == DType::int64, RuntimeError,
        "elements in indices should be type int64 but got: {}", indices.dtype());
  CHECK(indices.sizes() == input.sizes(), RuntimeError,
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices "
        "tensor with shape: {}",
        input.sizes(), indices.sizes());
  const int64_t start = input.dim() - rank;
  Dims planes = input.sizes().first(start).dims(), shape = planes;
  planes.push_back(1);
  for (const int64_t length : size) planes.back() *= length, shape.push_back(length);
  const Tensor blank = tensor_op("zeros", {planes, options_of(input)});
  const Tensor targets = flatten(indices, start, -1);
  const Tensor values = flatten(input, start, -1);
  const Tensor result = view(tensor_op("scatter", {blank, -1, targets, values}), shape);
  const bool keeps_format = rank == 2 && input.dim() == 4 && !input.is_contiguous() &&
                            input.is_contiguous(MemoryFormat::channels_last);
  Tensor out = keeps_format ? contiguous(result, MemoryFormat::channels_last) : result;
  const Tensor* inputs[] = {&input};
  if (rank > 1) show_as_step(rank == 2 ? "max_unpool2d" : "max_unpool3d", out, inputs, 1);
  return out;
}

#define POOLS(rank)                                                                              \
  Tensor lp_pool##rank##d(const Tensor& input, const Scalar& norm_type, IntSpan kernel_size,     \
                          std::optional<IntSpan> stride, bool ceil_mode) {                       \
    return lp_pool(rank, input, norm_type, kernel_size, stride, ceil_mode);                      \
  }                                                                                              \
  OP_FUNCTION(lp_pool##rank##d,                                                                  \
              "_lp_pool" #rank "d(input, norm_type, kernel_size, stride=None, ceil_mode=False)", \
              "The p-norm of each window.", composed | no_out)                                   \
  Tensor max_unpool##rank##d(const Tensor& input, const Tensor& indices, IntSpan kernel_size,    \
                             std::optional<IntSpan> stride, IntSpan padding,                     \
                             std::optional<IntSpan> output_size) {                               \
    return max_unpool(rank, input, indices, kernel_size, stride, padding, output_size);          \
  }                                                                                              \
  OP_FUNCTION(max_unpool##rank##d,                                                               \
              "_max_unpool" #rank                                                                \
              "d(input, indices, kernel_size, stride=None, padding=0, "                          \
              "output_size=None)",                                                               \
              "Maxima put back to their positions among zeros: the inverse of max pooling.",     \
              cpu_exact | composed | no_out)
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS

}  // namespace
}  // namespace flambeau
