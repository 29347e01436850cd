// im2col and col2im: windows of an image as columns, and columns added up to an image again. Each
// is the derivative of the other.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/vision.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Dims two(const char* name, IntSpan values) {
  CHECK(values.size() == 1 || values.size() == 2, RuntimeError,
        "It is expected {} equals to 2, but got size {}", name, values.size());
  return values.size() == 2 ? values.dims() : Dims(2, values[0]);
}

WindowShape window_shape(IntSpan in, IntSpan kernel, IntSpan dilation, IntSpan padding,
                         IntSpan stride) {
  const Dims k = two("kernel_size", kernel), d = two("dilation", dilation),
             p = two("padding", padding), s = two("stride", stride);
  CHECK(k[0] > 0 && k[1] > 0, RuntimeError,
        "kernel size should be greater than zero, but got kernel_height: {} kernel_width: {}", k[0],
        k[1]);
  CHECK(d[0] > 0 && d[1] > 0, RuntimeError,
        "dilation should be greater than zero, but got dilation_height: {} dilation_width: {}",
        d[0], d[1]);
  CHECK(p[0] >= 0 && p[1] >= 0, RuntimeError,
        "padding should be non-negative, but got pad_height: {} pad_width: {}", p[0], p[1]);
  CHECK(s[0] > 0 && s[1] > 0, RuntimeError,
        "stride should be greater than zero, but got stride_height: {} stride_width: {}", s[0],
        s[1]);
  WindowShape shape{};
  for (int i = 0; i < 2; ++i) {
    shape.kernel[i] = k[i], shape.dilation[i] = d[i], shape.padding[i] = p[i];
    shape.stride[i] = s[i], shape.in[i] = in[i];
    // Bounds within which no product or sum of theirs overflows.
    constexpr int64_t most = INT32_MAX;
    CHECK(
        k[i] <= most && d[i] <= most && p[i] <= most && s[i] <= most && in[i] <= most &&
            in[i] >= -most,
        RuntimeError,
        "window too large: kernel size {}, dilation {}, padding {} and stride {} for a size of {}",
        k[i], d[i], p[i], s[i], in[i]);
    const int64_t span = in[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1;
    shape.out[i] = span < 0 ? 0 : span / s[i] + 1;
  }
  return shape;
}

std::string pair_text(const int64_t* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ")";
}

Tensor from_columns(const Tensor& columns, const WindowShape& shape);

// x: (N, C, H, W)
Tensor to_columns(const Tensor& x, const WindowShape& shape) {
  const int64_t rows = x.sizes()[1] * shape.kernel[0] * shape.kernel[1];
  Tensor out =
      make_tensor({x.sizes()[0], rows, shape.out[0] * shape.out[1]}, x.dtype(), x.device());
  {
    const NoGrad off;
    if (out.numel() != 0) kernels::im2col(x.device_type(), contiguous(x), out, shape);
  }
  if (Record r{"im2col", out, {x}})
    r.wrt(0, [shape](const Tensor& g) { return from_columns(g, shape); });
  return out;
}

Tensor from_columns(const Tensor& columns, const WindowShape& shape) {
  const int64_t channels = columns.sizes()[1] / (shape.kernel[0] * shape.kernel[1]);
  Tensor out = make_tensor({columns.sizes()[0], channels, shape.in[0], shape.in[1]},
                           columns.dtype(), columns.device());
  {
    const NoGrad off;
    if (out.numel() != 0) kernels::col2im(out.device_type(), contiguous(columns), out, shape);
  }
  if (Record r{"col2im", out, {columns}})
    r.wrt(0, [shape](const Tensor& g) { return to_columns(g, shape); });
  return out;
}

Tensor im2col(const Tensor& input, IntSpan kernel_size, IntSpan dilation, IntSpan padding,
              IntSpan stride) {
  const int64_t rank = input.dim();
  CHECK(rank >= 3 || (rank == 2 && input.size(1) == 0), IndexError,
        "im2col: expected a 3D or 4D tensor, got shape {}: Dimension out of range", input.sizes());
  CHECK(rank == 3 || rank == 4, RuntimeError,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
        "dimensions for input, but got: {}",
        input.sizes());
  CHECK(!is_integral(input.dtype()) || input.numel() == 0, NotImplementedError,
        "\"im2col\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const WindowShape shape =
      window_shape(input.sizes().from(rank - 2), kernel_size, dilation, padding, stride);
  CHECK(input.size(-3) > 0 && input.size(-2) > 0 && input.size(-1) > 0, RuntimeError,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
        "dimensions for input, but got: {}",
        input.sizes());
  CHECK(shape.out[0] >= 1 && shape.out[1] >= 1, RuntimeError,
        "Given input with spatial size {}, kernel_size={}, dilation={}, padding={}, calculated "
        "shape of the array of sliding blocks as {}, but its components must be at least one.",
        pair_text(shape.in), pair_text(shape.kernel), pair_text(shape.dilation),
        pair_text(shape.padding), pair_text(shape.out));
  const Tensor columns = to_columns(rank == 3 ? unsqueeze(input, 0) : input, shape);
  return rank == 3 ? squeeze(columns, int64_t{0}) : columns;
}
OP_FUNCTION(im2col, "im2col(input, kernel_size, dilation, padding, stride)",
            "Every window of (N, C, H, W) as a column.")

Tensor col2im(const Tensor& input, IntSpan output_size, IntSpan kernel_size, IntSpan dilation,
              IntSpan padding, IntSpan stride) {
  const int64_t rank = input.dim();
  const WindowShape shape =
      window_shape(two("output_size", output_size), kernel_size, dilation, padding, stride);
  CHECK((rank == 2 && input.numel() != 0) ||
            (rank == 3 && input.sizes()[1] != 0 && input.sizes()[2] != 0),
        RuntimeError,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
        "dimensions for input, but got: {}",
        input.sizes());
  const int64_t rows = input.size(-2), windows = input.size(-1);
  const int64_t batch_dim = rank - 3;
  CHECK(rows % (shape.kernel[0] * shape.kernel[1]) == 0, RuntimeError,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but "
        "got input.size({})={} and kernel_size={}.",
        batch_dim + 1, rows, pair_text(shape.kernel));
  CHECK(shape.out[0] > 0 && shape.out[1] > 0, RuntimeError,
        "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}, calculated "
        "shape of the array of sliding blocks as {}, which is too small (non-positive)",
        pair_text(shape.in), pair_text(shape.kernel), pair_text(shape.dilation),
        pair_text(shape.padding), pair_text(shape.stride), pair_text(shape.out));
  CHECK(windows == shape.out[0] * shape.out[1], RuntimeError,
        "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}, expected size "
        "of input's dimension 2 to match the calculated number of sliding blocks {} * {} = {}, but "
        "got input.size({})={}.",
        pair_text(shape.in), pair_text(shape.kernel), pair_text(shape.dilation),
        pair_text(shape.padding), pair_text(shape.stride), shape.out[0], shape.out[1],
        shape.out[0] * shape.out[1], batch_dim + 2, windows);
  const Tensor image = from_columns(rank == 2 ? unsqueeze(input, 0) : input, shape);
  return rank == 2 ? squeeze(image, int64_t{0}) : image;
}
OP_FUNCTION(col2im, "col2im(input, output_size, kernel_size, dilation, padding, stride)",
            "The image of the given size whose windows add up from columns.")

}  // namespace
BATCH(im2col, batch_items<3>)
BATCH(col2im, batch_items<2>)

}  // namespace flambeau
