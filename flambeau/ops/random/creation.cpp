// New tensors of random numbers: rand, randn, randint, randperm, normal, and their *_like forms.
#include <array>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// The tensor to fill: a new one, or `out` in the wanted shape. What is drawn depends on the dtype,
// so a given `out` decides it.
Tensor prepare(const char* op, IntSpan size, const Tensor& out, Options options, DType dtype) {
  options.requires_grad = false;
  if (!out.defined()) {
    options.dtype = options.dtype_or(dtype);
    return empty(size, options);
  }
  CHECK(!options.dtype || *options.dtype == out.dtype(), RuntimeError,
        "{}: dtype {} does not match dtype of out parameter ({})", op,
        dtype_legacy_name(*options.dtype), dtype_legacy_name(out.dtype()));
  CHECK(!options.device || options.device->type == out.device().type, RuntimeError,
        "{}: device type {} does not match device type of out parameter ({})", op,
        options.device->type, out.device().type);
  checked_numel(size);
  if (!(out.sizes() == size)) resize_tensor(out, size, contiguous_strides(size));
  return out;
}

// What a result like `tensor` is made with, unless `out` says it all.
Options options_of(const Tensor& tensor, const Tensor& out) {
  Options options;
  if (!out.defined()) options.device = tensor.device();
  return options;
}

Tensor finish(const char* op, Tensor tensor, const Tensor& out, const Options& options) {
  if (out.defined()) out.bump_version(op);
  CHECK(!options.requires_grad || is_differentiable(tensor.dtype()), RuntimeError,
        "{}: Only Tensors of floating point and complex dtype can require gradients, got {}", op,
        tensor.dtype());
  return finished(std::move(tensor), options);
}

// An uninitialised tensor like `input`, but for what the options say.
Tensor blank_like(const Tensor& input, std::optional<MemoryFormat> format, const Options& options) {
  const MemoryFormat wanted = format.value_or(MemoryFormat::preserve);
  const Dims strides = wanted == MemoryFormat::preserve ? preserved_strides(input)
                                                        : format_strides(input.sizes(), wanted);
  return make_strided(input.sizes(), strides, options.dtype_or(input.dtype()),
                      options.device.value_or(input.device()));
}

// --- Uniform and normal numbers ------------------------------------------------------------------

Tensor rand(IntSpan size, Generator* generator, const Options& options) {
  Tensor result = prepare("rand", size, {}, options, default_dtype());
  draw_uniform(result, 0, 1, generator);
  return finish("rand", result, {}, options);
}
OP_FUNCTION(rand, "rand(*size, *, generator=None, **options)",
            "A tensor of numbers drawn uniformly from [0, 1).", draws)

Tensor randn(IntSpan size, Generator* generator, const Options& options) {
  Tensor result = prepare("randn", size, {}, options, default_dtype());
  draw_normal(result, 0, 1, generator);
  return finish("randn", result, {}, options);
}
OP_FUNCTION(randn, "randn(*size, *, generator=None, **options)",
            "A tensor of samples of the standard normal distribution.", draws)

Tensor rand_like(const Tensor& input, Generator* generator,
                 std::optional<MemoryFormat> memory_format, const Options& options) {
  Tensor result = blank_like(input, memory_format, options);
  draw_uniform(result, 0, 1, generator);
  return finish("rand_like", result, {}, options);
}
OP_FUNCTION(rand_like, "rand_like(input, *, generator=None, memory_format=None, **options)",
            "A tensor shaped like input of numbers drawn uniformly from [0, 1).",
            takes_pending | draws | takes_jagged | no_out)

Tensor randn_like(const Tensor& input, Generator* generator,
                  std::optional<MemoryFormat> memory_format, const Options& options) {
  Tensor result = blank_like(input, memory_format, options);
  draw_normal(result, 0, 1, generator);
  return finish("randn_like", result, {}, options);
}
OP_FUNCTION(randn_like, "randn_like(input, *, generator=None, memory_format=None, **options)",
            "A tensor shaped like input of samples of the standard normal distribution.",
            takes_pending | draws | takes_nested | takes_jagged | no_out)

// --- Integers ------------------------------------------------------------------------------------

Tensor randint_between(int64_t low, int64_t high, IntSpan size, Generator* generator,
                       const Options& options) {
  Tensor result = prepare("randint", size, {}, options, DType::int64);
  draw_integers(result, low, high, generator);
  return finish("randint", result, {}, options);
}
Tensor randint_below(int64_t high, IntSpan size, Generator* generator, const Options& options) {
  return randint_between(0, high, size, generator, options);
}
OP_FUNCTION(randint_below, "randint(high, size, *, generator=None, **options)",
            "A tensor of integers drawn uniformly from [0, high).", draws)
OP_FUNCTION(randint_between, "randint.low(low, high, size, *, generator=None, **options)",
            "A tensor of integers drawn uniformly from [low, high).", draws)

Tensor randint_like_between(const Tensor& input, int64_t low, int64_t high, Generator* generator,
                            std::optional<MemoryFormat> memory_format, const Options& options) {
  Tensor result = blank_like(input, memory_format, options);
  draw_integers(result, low, high, generator);
  return finish("randint_like", result, {}, options);
}

Tensor randint_like_below(const Tensor& input, int64_t high, Generator* generator,
                          std::optional<MemoryFormat> memory_format, const Options& options) {
  return randint_like_between(input, 0, high, generator, memory_format, options);
}
OP_FUNCTION(randint_like_below,
            "randint_like(input, high, *, generator=None, memory_format=None, **options)",
            "A tensor shaped like input of integers drawn uniformly from [0, high).",
            takes_pending | draws | takes_jagged | no_out)
OP_FUNCTION(
    randint_like_between,
    "randint_like.low_dtype(input, low, high, *, generator=None, memory_format=None, **options)",
    "A tensor shaped like input of integers drawn uniformly from [low, high).",
    takes_pending | draws | takes_jagged | no_out)

// --- Permutations --------------------------------------------------------------------------------

// All of 0 .. n - 1 must be exact in dtype.
void check_permutation(int64_t n, DType dtype) {
  const auto most = [&](int bits, const char* text) {
    CHECK(n <= (int64_t{1} << bits) + 1, RuntimeError,
          "randperm: n cannot be greater than {} for {} type.", text, dtype_legacy_name(dtype));
  };
  if (dtype == DType::float16) most(11, "2049");
  if (dtype == DType::float32) most(24, "2^24+1");
  if (dtype == DType::float64) most(53, "2^53+1");
  if (is_integral(dtype)) {
    CHECK(n <= 0 || Scalar(n - 1).fits(dtype), RuntimeError,
          "randperm: value cannot be converted to type {}_t without overflow", dtype_name(dtype));
  }
}

Tensor randperm(int64_t n, Generator* generator, const Options& options) {
  compute_dtype("randperm", dtypes::Real, options.dtype_or(DType::int64));
  const std::array<int64_t, 1> size{n};
  Tensor result = prepare("randperm", {size.data(), 1}, {}, options, DType::int64);
  if (!result.device().is_meta()) check_permutation(n, result.dtype());
  with_generator(result, generator,
                 [&](Generator& g) { kernels::permutation(result.device_type(), result, g); });
  return finish("randperm", result, {}, options);
}
OP_FUNCTION(randperm, "randperm(n, *, generator=None, **options)",
            "A random permutation of the integers from 0 to n - 1.", draws)

// --- Normal samples of given mean and deviation --------------------------------------------------

// Gradients do not reach through a draw: those of the mean and the deviation are zero.
Tensor record_normal(const Tensor& result, const Tensor& mean, const Tensor& std) {
  if (Record r{"normal", result, {mean, std}}) {
    if (r.wants(0)) r.wrt(0, [m = r.save(mean)](const Tensor&) { return zeros_like(m()); });
    if (r.wants(1)) r.wrt(1, [s = r.save(std)](const Tensor&) { return zeros_like(s()); });
  }
  return result;
}

void check_deviations(const Tensor& std) {
  CHECK(!std.is_complex(), RuntimeError, "normal expects standard deviation to be non-complex");
  if (std.device().is_meta()) return;
  const NoGrad off;
  CHECK(item(sum(std >= 0)).to_int() == std.numel(), RuntimeError,
        "normal expects all elements of std >= 0.0");
}

Tensor normal_each_out(const Tensor& mean, const Tensor& std, Generator* generator,
                       const Tensor& out) {
  check_deviations(std);
  const Dims size = broadcast_shapes(mean.sizes(), std.sizes());
  Tensor result = prepare("normal", size, out, options_of(mean, out), mean.dtype());
  {
    const NoGrad off;
    draw_normal(result, 0, 1, generator);
    mul_(result, std);
    add_(result, mean);
  }
  return record_normal(finish("normal", result, out, {}), mean, std);
}
Tensor normal_each(const Tensor& mean, const Tensor& std, Generator* generator) {
  return normal_each_out(mean, std, generator, {});
}
OP_FUNCTION(normal_each, "normal.Tensor_Tensor(mean, std, *, generator=None)",
            "Samples of normal distributions whose means and standard deviations are given.", draws)

Tensor normal_means_out(const Tensor& mean, double std, Generator* generator, const Tensor& out) {
  Tensor result = prepare("normal", mean.sizes(), out, options_of(mean, out), mean.dtype());
  {
    const NoGrad off;
    draw_normal(result, 0, std, generator);
    add_(result, mean);
  }
  return record_normal(finish("normal", result, out, {}), mean, {});
}
Tensor normal_means(const Tensor& mean, double std, Generator* generator) {
  return normal_means_out(mean, std, generator, {});
}
OP_FUNCTION(normal_means, "normal.Tensor_float(mean, std=1, *, generator=None)",
            "Samples of normal distributions of given means and one standard deviation.", draws)

Tensor normal_deviations_out(double mean, const Tensor& std, Generator* generator,
                             const Tensor& out) {
  check_deviations(std);
  Tensor result = prepare("normal", std.sizes(), out, options_of(std, out), std.dtype());
  {
    const NoGrad off;
    draw_normal(result, 0, 1, generator);
    mul_(result, std);
    add_(result, mean);
  }
  return record_normal(finish("normal", result, out, {}), {}, std);
}
Tensor normal_deviations(double mean, const Tensor& std, Generator* generator) {
  return normal_deviations_out(mean, std, generator, {});
}
OP_FUNCTION(normal_deviations, "normal.float_Tensor(mean, std, *, generator=None)",
            "Samples of normal distributions of one mean and given standard deviations.", draws)

Tensor normal_sized(double mean, double std, IntSpan size, Generator* generator,
                    const Options& options) {
  Tensor result = prepare("normal", size, {}, options, default_dtype());
  draw_normal(result, mean, std, generator);
  return finish("normal", result, {}, options);
}
OP_FUNCTION(normal_sized, "normal.float_float(mean, std, size, *, generator=None, **options)",
            "A tensor of samples of one normal distribution.", draws)

OP_OUT(normal_each_out, "normal(mean, std, *, generator=None, out)")
OP_OUT(normal_means_out, "normal(mean, std=1, *, generator=None, out)")
OP_OUT(normal_deviations_out, "normal(mean, std, *, generator=None, out)")

}  // namespace
}  // namespace flambeau
