// Fractional max pooling (Graham, 2014): windows at pseudo-random distances, drawn anew for each
// channel, so that any output size can be had.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// The windows of one dimension, for a sample in [0, 1).
template <class T>
PoolDim fractional_dim(int64_t in, int64_t out, int64_t kernel, T sample) {
  PoolDim dim;
  dim.in = in, dim.out = out, dim.regular = false;
  dim.start.clear(), dim.end.clear(), dim.extent.clear();
  const T step = out > 1 ? static_cast<T>(in - kernel) / static_cast<T>(out - 1) : T(0);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t start = i == out - 1 ? in - kernel
                                       : static_cast<int64_t>((static_cast<T>(i) + sample) * step) -
                                             static_cast<int64_t>(sample * step);
    dim.start.push_back(start);
    dim.end.push_back(start + kernel);
    dim.extent.push_back(kernel);
  }
  return dim;
}

// Which coordinate of the samples a dimension uses: images have them reversed.
size_t sample_index(size_t rank, size_t d) { return rank == 2 ? 1 - d : d; }

// The windows of plane p along dimension d, from samples on the host. Offsets are computed in the
// precision of the input, as PyTorch does.
PoolDim windows(const Tensor& x, const Tensor& draws, IntSpan kernel, IntSpan out, int64_t p,
                size_t d) {
  const size_t rank = kernel.size();
  const double sample = draws.data<double>()[static_cast<size_t>(p) * rank + sample_index(rank, d)];
  const int64_t in = x.sizes()[d + 2], size = out[d + 2];
  return x.dtype() == DType::float64
             ? fractional_dim<double>(in, size, kernel[d], sample)
             : fractional_dim<float>(in, size, kernel[d], static_cast<float>(sample));
}

void find_maxima(const Tensor& x, const Tensor& draws, IntSpan kernel, const Tensor& indices) {
  const size_t rank = kernel.size();
  const int64_t planes = x.sizes()[0] * x.sizes()[1];
  const Tensor out = make_tensor(indices.sizes(), x.dtype(), x.device());
  for (int64_t p = 0; p < planes; ++p) {
    const auto one = [&](const Tensor& t) {
      Dims sizes{1, 1}, strides{1, 1};
      int64_t plane = 1;
      for (size_t d = 0; d < rank; ++d) {
        sizes.push_back(t.sizes()[d + 2]), strides.push_back(t.strides()[d + 2]);
        plane *= t.sizes()[d + 2];
      }
      return make_alias(t, sizes, strides, t.offset() + p * plane);
    };
    PoolGeometry geometry;
    for (size_t d = 0; d < rank; ++d) {
      geometry.dims[3 - rank + d] = windows(x, draws, kernel, out.sizes(), p, d);
    }
    kernels::max_pool(x.device_type(), one(x), one(out), one(indices), geometry);
  }
}

// The same where the kernel of maxima knows regular windows only: the elements of all windows are
// gathered.
void gather_maxima(const Tensor& x, const Tensor& draws, IntSpan kernel, const Tensor& indices) {
  const size_t rank = kernel.size();
  const int64_t planes = x.sizes()[0] * x.sizes()[1];
  Tensor offsets;  // (planes, sizes of the output, sizes of the kernel)
  int64_t step = 1, window = 1;
  for (size_t d = rank; d-- > 0; step *= x.sizes()[d + 2], window *= kernel[d]) {
    const int64_t size = indices.sizes()[d + 2];
    const Tensor along = make_tensor({planes, size, kernel[d]}, DType::int64, Device());
    auto* place = along.data<int64_t>();
    for (int64_t p = 0; p < planes; ++p) {
      for (const int64_t start : windows(x, draws, kernel, indices.sizes(), p, d).start) {
        for (int64_t j = 0; j < kernel[d]; ++j) *place++ = (start + j) * step;
      }
    }
    Dims shape{planes};
    for (size_t e = 0; e < rank; ++e) shape.push_back(e == d ? size : 1);
    for (size_t e = 0; e < rank; ++e) shape.push_back(e == d ? kernel[d] : 1);
    const Tensor moved = reshape(to(along, x.device()), shape);
    offsets = offsets.defined() ? offsets + moved : moved;
  }
  const Tensor of_windows = reshape(offsets, {planes, -1, window});
  const Tensor values = gather(reshape(x, {planes, -1}), 1, reshape(offsets, {planes, -1}));
  const Tensor best = argmax(reshape(values, {planes, -1, window}), 2, true);
  copy_(indices, reshape(gather(of_windows, 2, best), indices.sizes()));
}

std::tuple<Tensor, Tensor> fractional_max_pool(const Tensor& input, IntSpan kernel_size,
                                               IntSpan output_size, const Tensor& samples) {
  const size_t rank = kernel_size.size();
  const char* op = rank == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d";
  const auto dims = static_cast<size_t>(input.dim());
  CHECK((rank == 2 || rank == 3) && output_size.size() == rank &&
            (dims == rank + 1 || dims == rank + 2),
        RuntimeError,
        "{}(): Expected {}D or {}D tensor, but got: {} (kernel_size {}, output_size {})", op,
        rank + 1, rank + 2, input.sizes(), kernel_size, output_size);
  static constexpr const char* names[] = {"time", "height", "width"};
  const Tensor x = dims == rank + 1 ? unsqueeze(input, 0) : input;
  CHECK(x.sizes()[1] > 0, RuntimeError,
        "{}(): Expected input to have non-zero size for non-batch dimensions, but got {} with "
        "dimension {} being empty.",
        op, input.sizes(), dims - rank - 1);
  for (size_t d = 0; d < rank; ++d) {
    CHECK(x.sizes()[d + 2] > 0 && kernel_size[d] > 0 && kernel_size[d] <= x.sizes()[d + 2] &&
              output_size[d] >= 0 && output_size[d] <= x.sizes()[d + 2] - kernel_size[d] + 1,
          RuntimeError, "{}(): pool {} {} too large relative to input {} {}", op,
          names[3 - rank + d], kernel_size[d], names[3 - rank + d], x.sizes()[d + 2]);
  }
  CHECK(samples.dim() == 3 && samples.sizes()[0] >= x.sizes()[0] &&
            samples.sizes()[1] == x.sizes()[1] &&
            samples.sizes()[2] == static_cast<int64_t>(rank) && samples.dtype() == x.dtype(),
        RuntimeError, "Expect _random_samples of shape ({}, {}, {}) and dtype {}, got {} and {}",
        x.sizes()[0], x.sizes()[1], rank, x.dtype(), samples.sizes(), samples.dtype());
  Dims shape{x.sizes()[0], x.sizes()[1]};
  for (const int64_t size : output_size) shape.push_back(size);
  Tensor indices = make_tensor(shape, DType::int64, x.device());
  if (x.device_type() != DeviceType::meta && indices.numel() != 0) {
    const NoGrad off;
    const Tensor draws = contiguous(to(samples, Device(), DType::float64, false, false, {}));
    const auto find = x.device_type() == DeviceType::cpu ? find_maxima : gather_maxima;
    find(contiguous(x), draws, kernel_size, indices);
  }
  const Tensor chosen = gather(flatten(x, 2, -1), 2, flatten(indices, 2, -1));
  const Tensor out = reshape(chosen, shape);
  if (dims == rank + 2) return {out, indices};
  return {squeeze(out, int64_t{0}), squeeze(indices, int64_t{0})};
}
OP_FUNCTION(fractional_max_pool,
            "_fractional_max_pool(input, kernel_size, output_size, random_samples)",
            "Maxima of windows at pseudo-random distances, and their indices.", cpu_exact)

// The same of sizes that may come as ratios, with samples drawn where none are given.
std::tuple<Tensor, Tensor> drawn_fractional_pool(const char* op, int64_t rank, const Tensor& input,
                                                 IntSpan kernel_size,
                                                 std::optional<IntSpan> output_size,
                                                 const std::vector<double>& output_ratio,
                                                 const Tensor& random_samples) {
  Dims size;
  if (!output_size) {
    CHECK(!output_ratio.empty(), ValueError,
          "{} requires specifying either an output_size or an output_ratio", op);
    CHECK(static_cast<int64_t>(output_ratio.size()) == rank, ValueError,
          "{} requires output_ratio to either be a single Int or tuple of Ints, {} of them, but "
          "got {}",
          op, rank, output_ratio.size());
    for (int64_t d = 0; d < rank; ++d) {
      const auto length = static_cast<double>(input.size(d - rank));
      size.push_back(static_cast<int64_t>(length * output_ratio[d]));
    }
  }
  const auto check_length = [&](const char* name, IntSpan values) {
    CHECK(static_cast<int64_t>(values.size()) == rank, RuntimeError,
          "{}: {} must either be a single Int or tuple of {}Ints, but got {}", op, name,
          rank == 3 ? "three " : "", values);
  };
  check_length("kernel_size", kernel_size);
  if (output_size) size = output_size->dims();
  check_length("output_size", size);
  Tensor samples = random_samples;
  if (!samples.defined()) {
    const int64_t batch = input.dim() == rank + 1 ? 1 : input.size(0);
    const Dims shape{batch, input.size(-rank - 1), rank};
    samples = tensor_op("rand", {shape, std::nullopt, options_of(input)});
  }
  const Result pooled = call_op("_fractional_max_pool", {input, kernel_size, size, samples});
  return {pooled.tensors[0], pooled.tensors[1]};
}
#define FRACTIONAL_POOL(name, rank)                                                                \
  std::tuple<Tensor, Tensor> name(                                                                 \
      const Tensor& input, IntSpan kernel_size, std::optional<IntSpan> output_size,                \
      const std::vector<double>& output_ratio, const Tensor& random_samples) {                     \
    return drawn_fractional_pool(#name, rank, input, kernel_size, output_size, output_ratio,       \
                                 random_samples);                                                  \
  }                                                                                                \
  OP_FUNCTION(                                                                                     \
      name, "_" #name "(input, kernel_size, output_size=None, output_ratio, random_samples=None)", \
      "Maxima of windows at pseudo-random distances, and their indices; output_ratio "             \
      "is empty where there is output_size.",                                                      \
      composed | no_out)
FRACTIONAL_POOL(fractional_max_pool2d, 2)
FRACTIONAL_POOL(fractional_max_pool3d, 3)
#undef FRACTIONAL_POOL

}  // namespace
}  // namespace flambeau
