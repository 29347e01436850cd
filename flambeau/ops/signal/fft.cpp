// Fourier transforms: torch.fft. Everything comes down to three differentiable transforms over
// several dimensions (complex, real to half, half to real); the rest are lengths and norms.
#include "flambeau/kernels/fft.h"

#include <algorithm>
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/shape/views.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// --- The three transforms -----------------------------------------------------------------------

// Dimensions of the input, those of large steps in memory first.
Dims by_stride(const Tensor& input, Dims dims) {
  const IntSpan steps = input.strides();
  std::stable_sort(dims.begin(), dims.end(),
                   [&](int64_t a, int64_t b) { return steps[a] > steps[b]; });
  return dims;
}

// Transformed dimensions lie innermost in the result, in the order given; the others keep the order
// they have in the input.
Tensor make_result(const Tensor& input, IntSpan sizes, IntSpan dims, DType dtype) {
  Dims order;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  order = by_stride(input, order);
  for (const int64_t d : dims) order.push_back(d);
  Dims strides(sizes.size(), 0);
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = step;
    const int64_t size = std::max<int64_t>(sizes[order[k]], 1);
    CHECK(!__builtin_mul_overflow(step, size, &step), RuntimeError,
          "fft: Stride calculation overflowed with sizes {}", sizes);
  }
  return make_strided(sizes, strides, dtype, input.device());
}

// The dimensions of a transform of which the last one is halved.
struct HalvedDims {
  Dims others, all;  // the last one innermost
  int64_t last;
  HalvedDims(const Tensor& input, const Dims& dims)
      : others(by_stride(input, Dims(dims.begin(), dims.end() - 1))),
        all(others),
        last(dims.back()) {
    all.push_back(last);
  }
};

Tensor from_half(const Tensor& input, const Dims& dims, int64_t last_size, double scale);

// Of real numbers, too, where the kernel takes them.
Tensor complex_fft(const Tensor& input, const Dims& dims, bool inverse, double scale) {
  if (dims.empty()) return clone(input);
  const bool is_real = !input.is_complex();
  Tensor out = make_result(input, input.sizes(), by_stride(input, dims), to_complex(input.dtype()));
  Tensor source = input;
  for (size_t k = dims.size(); k-- > 0 && out.numel() > 0;) {
    kernels::fft_complex(input.device_type(), source, out, dims[k], inverse,
                         k + 1 == dims.size() ? scale : 1.0);
    source = out;
  }
  if (Record r{is_real ? "fft_r2c" : "fft_c2c", out, {input}}) {
    r.wrt(0, [dims, inverse, scale, is_real](const Tensor& g) {
      const Tensor result = complex_fft(g, dims, !inverse, scale);
      return is_real ? real(result) : result;
    });
  }
  return out;
}

// What to multiply halves of transforms by: the weight, and one for the first element along dim
// and, of an even length, the last, which stand for themselves and not also for a conjugate
// partner.
Tensor weights_of_partners(const Tensor& x, int64_t dim, int64_t length, double weight) {
  const int64_t half = x.size(dim), partners = (length - 1) / 2;
  Dims shape(x.dim(), 1);
  shape[dim] = half;
  const NoGrad off;
  Tensor weights = ones(shape, {.dtype = to_real(x.dtype()), .device = x.device()});
  if (partners > 0) fill_(narrow(weights, dim, 1, partners), weight);
  return weights;
}

Tensor to_real_half(const Tensor& input, const Dims& dims, double scale) {
  const HalvedDims order(input, dims);
  const int64_t n = input.size(order.last);
  Dims sizes = input->sizes;
  sizes[order.last] = n / 2 + 1;
  Tensor out = make_result(input, sizes, order.all, to_complex(input.dtype()));
  if (out.numel() > 0) {
    kernels::fft_real(input.device_type(), input, out, order.last, scale);
    for (const int64_t d : order.others) {
      kernels::fft_complex(input.device_type(), out, out, d, false, 1.0);
    }
  }
  if (Record r{"fft_r2c", out, {input}}) {
    r.wrt(0, [dims, n, scale](const Tensor& g) {
      return from_half(g * weights_of_partners(g, dims.back(), n, 0.5), dims, n, scale);
    });
  }
  return out;
}

Tensor from_half(const Tensor& input, const Dims& dims, int64_t last_size, double scale) {
  const HalvedDims order(input, dims);
  Dims sizes = input->sizes;
  sizes[order.last] = last_size;
  Tensor half = detach(input);
  if (!order.others.empty()) {
    const NoGrad off;
    half = complex_fft(half, order.others, true, 1.0);
  }
  Tensor out = make_result(input, sizes, order.all, to_real(input.dtype()));
  if (out.numel() > 0) kernels::fft_to_real(input.device_type(), half, out, order.last, scale);
  if (Record r{"fft_c2r", out, {input}}) {
    r.wrt(0, [dims, last_size, scale](const Tensor& g) {
      const Tensor result = to_real_half(g, dims, scale);
      return result * weights_of_partners(result, dims.back(), last_size, 2.0);
    });
  }
  return out;
}

// --- Arguments --------------------------------------------------------------------------------

using Norm = std::optional<std::string_view>;

double scale_of(const Norm& norm, int64_t count, bool forward) {
  const std::string_view mode = norm.value_or("backward");
  const auto n = static_cast<double>(count);
  if (mode == "ortho") return 1 / std::sqrt(n);
  CHECK(mode == "forward" || mode == "backward", RuntimeError, "Invalid normalization mode: \"{}\"",
        mode);
  return (mode == "forward") == forward ? 1 / n : 1.0;
}

void check_length(int64_t n) {
  CHECK(n >= 1, RuntimeError, "Invalid number of data points ({}) specified", n);
}

// In the floating or complex dtype that the transform is made in.
Tensor promoted(const Tensor& input, bool to_complex_dtype) {
  DType dtype = input.dtype();
  if (is_integral(dtype, true)) dtype = default_dtype();
  const bool narrow = (dtypes::Reduced | dtypes::Stored).has(dtype);
  CHECK(!narrow || (!input.device().is_cpu() && !dtypes::Float8.has(dtype)), NotImplementedError,
        "Unsupported dtype {}", dtype_legacy_name(dtype));
  if (narrow) dtype = is_complex(dtype) ? DType::complex64 : DType::float32;
  if (to_complex_dtype) dtype = to_complex(dtype);
  return dtype == input.dtype() ? input : to(input, dtype);
}

// Whether the complex transform has to be given complex numbers.
bool wants_complex(const Tensor& input) { return !input.device().is_cpu(); }

// What comes of float16 is of that precision again.
Tensor rounded(const Tensor& result, const Tensor& input) {
  if (input.dtype() != DType::float16 && input.dtype() != DType::complex32) return result;
  return to(result, result.is_complex() ? DType::complex32 : DType::float16);
}

// Cut or padded with zeros at the end of a dimension.
Tensor resized(const Tensor& x, int64_t dim, int64_t n) {
  const int64_t size = x.size(dim);
  if (size == n) return x;
  if (size > n) return narrow(x, dim, 0, n);
  Dims pad(2 * (x.dim() - dim), 0);
  pad.back() = n - size;
  return constant_pad_nd(x, pad, 0.0);
}

int64_t wrapped(const Tensor& input, int64_t dim) {
  CHECK(input.dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions", dim);
  return wrap_dim(dim, input.dim());
}

// --- One dimension ----------------------------------------------------------------------------

Tensor transform_1d(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm,
                    bool forward) {
  const Tensor x = promoted(input, wants_complex(input));
  dim = wrapped(x, dim);
  const int64_t length = n.value_or(x.size(dim));
  check_length(length);
  const double scale = scale_of(norm, length, forward);
  return rounded(complex_fft(resized(x, dim, length), Dims{dim}, !forward, scale), input);
}

Tensor real_1d(const char* op, const Tensor& input, std::optional<int64_t> n, int64_t dim,
               const Norm& norm, bool forward) {
  CHECK(!input.is_complex(), TypeError, "{} expects a real input tensor, but got {}", op,
        dtype_legacy_name(input.dtype()));
  const Tensor x = promoted(input, false);
  dim = wrapped(x, dim);
  const int64_t length = n.value_or(x.size(dim));
  check_length(length);
  const Tensor half =
      to_real_half(resized(x, dim, length), Dims{dim}, scale_of(norm, length, forward));
  return rounded(forward ? half : conj_physical(half), input);
}

Tensor to_real_1d(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm,
                  bool forward) {
  Tensor x = promoted(input, true);
  dim = wrapped(x, dim);
  const int64_t length = n.value_or(2 * (x.size(dim) - 1));
  check_length(length);
  x = resized(x, dim, length / 2 + 1);
  if (forward) x = conj_physical(x);
  return rounded(from_half(x, Dims{dim}, length, scale_of(norm, length, forward)), input);
}

Tensor fft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return transform_1d(x, n, dim, norm, true);
}
Tensor ifft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return transform_1d(x, n, dim, norm, false);
}
Tensor rfft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return real_1d("rfft", x, n, dim, norm, true);
}
Tensor irfft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return to_real_1d(x, n, dim, norm, false);
}
Tensor hfft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return to_real_1d(x, n, dim, norm, true);
}
Tensor ihfft(const Tensor& x, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return real_1d("ihfft", x, n, dim, norm, false);
}
OP_FUNCTION(fft, "fft_fft(input, n=None, dim=-1, norm=None)",
            "The discrete Fourier transform along a dimension.", cpu_exact | along)
OP_FUNCTION(ifft, "fft_ifft(input, n=None, dim=-1, norm=None)",
            "The inverse discrete Fourier transform along a dimension.",
            cpu_exact | along | out_fails)
OP_FUNCTION(rfft, "fft_rfft(input, n=None, dim=-1, norm=None)",
            "The first half of the Fourier transform of real numbers; the rest mirrors it.",
            cpu_exact | along)
OP_FUNCTION(irfft, "fft_irfft(input, n=None, dim=-1, norm=None)",
            "The inverse of rfft: n real numbers from half of a transform.",
            casts_out | cpu_exact | along)
OP_FUNCTION(hfft, "fft_hfft(input, n=None, dim=-1, norm=None)",
            "The real Fourier transform of a signal of which half is given, the rest mirroring it.",
            casts_out | cpu_exact | along)
OP_FUNCTION(ihfft, "fft_ihfft(input, n=None, dim=-1, norm=None)",
            "The inverse of hfft: the first half of the inverse transform of real numbers.",
            cpu_exact | along | out_fails)

// --- Several dimensions -----------------------------------------------------------------------

struct Extent {
  Dims dims, lengths;

  [[nodiscard]] int64_t count() const {
    int64_t product = 1;
    for (const int64_t n : lengths) product = checked_multiply(product, n);
    return product;
  }
};

Extent extent_of(const Tensor& x, std::optional<IntSpan> s, std::optional<IntSpan> dim) {
  Extent e;
  if (dim) {
    for (const int64_t d : *dim) e.dims.push_back(wrapped(x, d));
    Dims seen = e.dims;
    std::sort(seen.begin(), seen.end());
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end(), RuntimeError,
          "FFT dims must be unique");
  }
  if (s) {
    CHECK(!dim || dim->size() == s->size(), RuntimeError,
          "When given, dim and shape arguments must have the same length");
    CHECK(static_cast<int64_t>(s->size()) <= x.dim(), RuntimeError,
          "Got shape with {} values but input tensor only has {} dimensions.", s->size(), x.dim());
  }
  if (!dim) {
    const int64_t count = s ? static_cast<int64_t>(s->size()) : x.dim();
    for (int64_t k = x.dim() - count; k < x.dim(); ++k) e.dims.push_back(k);
  }
  for (size_t k = 0; k < e.dims.size(); ++k) {
    const int64_t wanted = s ? (*s)[k] : -1;
    e.lengths.push_back(wanted == -1 ? x.size(e.dims[k]) : wanted);
    check_length(e.lengths.back());
  }
  return e;
}

Tensor resized(Tensor x, const Extent& e) {
  for (size_t k = 0; k < e.dims.size(); ++k) x = resized(x, e.dims[k], e.lengths[k]);
  return x;
}

Tensor transform_nd(const Tensor& input, std::optional<IntSpan> s, std::optional<IntSpan> dim,
                    const Norm& norm, bool forward) {
  const Extent e = extent_of(input, s, dim);
  const Tensor x = promoted(input, e.dims.empty() || wants_complex(input));
  const double scale = scale_of(norm, e.count(), forward);
  return rounded(complex_fft(resized(x, e), e.dims, !forward, scale), input);
}

Tensor real_nd(const char* op, const Tensor& input, std::optional<IntSpan> s,
               std::optional<IntSpan> dim, const Norm& norm, bool forward) {
  CHECK(!input.is_complex(), TypeError, "{} expects a real-valued input tensor, but got {}", op,
        dtype_legacy_name(input.dtype()));
  const Extent e = extent_of(input, s, dim);
  const Tensor x = promoted(input, false);
  CHECK(!e.dims.empty(), RuntimeError, "{} must transform at least one axis", op);
  const double scale = scale_of(norm, e.count(), forward);
  if (forward) return rounded(to_real_half(resized(x, e), e.dims, scale), input);
  // The others are inverse transforms: conjugate after the real one, not at the end.
  const Tensor half = conj_physical(to_real_half(resized(x, e), Dims{e.dims.back()}, scale));
  const Dims others(e.dims.begin(), e.dims.end() - 1);
  return rounded(others.empty() ? half : complex_fft(half, others, true, 1.0), input);
}

Tensor to_real_nd(const char* op, const Tensor& input, std::optional<IntSpan> s,
                  std::optional<IntSpan> dim, const Norm& norm, bool forward) {
  Tensor x = promoted(input, true);
  Extent e;
  if (s || dim || x.dim() > 0) {
    // Without a length, the last one is what the half stands for.
    Dims lengths = s ? s->dims() : Dims{};
    const bool last_given = s && !s->empty() && lengths.back() != -1;
    if (s && !s->empty() && !last_given) lengths.back() = 1;
    e = extent_of(x, s ? std::optional<IntSpan>(lengths) : std::nullopt, dim);
    if (!e.dims.empty() && !last_given) {
      e.lengths.back() = 2 * (x.size(e.dims.back()) - 1);
      check_length(e.lengths.back());
    }
  }
  CHECK(!e.dims.empty(), RuntimeError, "{} must transform at least one axis", op);
  const int64_t n = e.lengths.back();
  const double scale = scale_of(norm, e.count(), forward);
  Extent half = e;
  half.lengths.back() = n / 2 + 1;
  x = resized(x, half);
  if (!forward) return rounded(from_half(x, e.dims, n, scale), input);
  const Dims others(e.dims.begin(), e.dims.end() - 1);
  if (!others.empty()) x = complex_fft(x, others, false, 1.0);
  return rounded(from_half(conj_physical(x), Dims{e.dims.back()}, n, scale), input);
}

#define SEVERAL(name, call, doc_n, doc_2, ...)                                          \
  Tensor name##n(const Tensor& x, std::optional<IntSpan> s, std::optional<IntSpan> dim, \
                 Norm norm) {                                                           \
    return call;                                                                        \
  }                                                                                     \
  Tensor name##2(const Tensor& x, std::optional<IntSpan> s, IntSpan dim, Norm norm) {   \
    return name##n(x, s, dim, norm);                                                    \
  }                                                                                     \
  OP_FUNCTION(name##n, "fft_" #name "n(input, s=None, dim=None, norm=None)", doc_n,     \
              __VA_OPT__(__VA_ARGS__ |) along)                                          \
  OP_FUNCTION(name##2, "fft_" #name "2(input, s=None, dim=(-2, -1), norm=None)", doc_2, \
              __VA_OPT__(__VA_ARGS__ |) along)
SEVERAL(fft, transform_nd(x, s, dim, norm, true),
        "The discrete Fourier transform over several dimensions.",
        "The discrete Fourier transform over two dimensions.", cpu_exact)
SEVERAL(ifft, transform_nd(x, s, dim, norm, false),
        "The inverse discrete Fourier transform over several dimensions.",
        "The inverse discrete Fourier transform over two dimensions.", cpu_exact)
SEVERAL(rfft, real_nd("rfftn", x, s, dim, norm, true),
        "The Fourier transform of real numbers, the last dimension halved.",
        "The Fourier transform of real numbers over two dimensions, the last one halved.",
        cpu_exact)
SEVERAL(irfft, to_real_nd("irfftn", x, s, dim, norm, false), "The inverse of rfftn.",
        "The inverse of rfft2.", casts_out | cpu_exact)
SEVERAL(hfft, to_real_nd("hfftn", x, s, dim, norm, true),
        "The real Fourier transform of a signal that mirrors itself, half of it given.",
        "The real Fourier transform over two dimensions of a signal, half of it given.", casts_out)
SEVERAL(ihfft, real_nd("ihfftn", x, s, dim, norm, false), "The inverse of hfftn.",
        "The inverse of hfft2.", plain)
#undef SEVERAL

// --- Frequencies and shifts ---------------------------------------------------------------------

Options frequency_options(const char* op, const Options& options) {
  const DType dtype = options.dtype_or(default_dtype());
  CHECK(is_differentiable(dtype), RuntimeError, "{} requires a floating point or complex dtype",
        op);
  Options plain = options;
  plain.dtype = dtype;
  plain.requires_grad = false;
  return plain;
}

Tensor scaled(const Tensor& frequencies, int64_t n, double d, const Options& options) {
  return finished(frequencies * (1.0 / (static_cast<double>(n) * d)), options);
}

Tensor fftfreq(int64_t n, double d, const Options& options) {
  const Options plain = frequency_options("fftfreq", options);
  CHECK(n >= 0, RuntimeError, "fftfreq: n must be non-negative, got {}", n);
  const Tensor up = arange(0, n - n / 2, 1, plain), down = arange(-(n / 2), 0, 1, plain);
  return scaled(cat({up, down}, 0), n, d, options);
}
OP_FUNCTION(fftfreq, "fft_fftfreq(n, d=1.0, **options)",
            "The frequencies that belong to the elements of a transform of length n.",
            casts_out | counts | tells_count)
Tensor rfftfreq(int64_t n, double d, const Options& options) {
  CHECK(n >= 0, RuntimeError, "rfftfreq: n must be non-negative, got {}", n);
  return scaled(arange(0, n / 2 + 1, 1, frequency_options("rfftfreq", options)), n, d, options);
}
OP_FUNCTION(rfftfreq, "fft_rfftfreq(n, d=1.0, **options)",
            "The frequencies that belong to the elements of a real transform of length n.",
            casts_out | counts | tells_count)

Tensor shifted(const Tensor& x, std::optional<IntSpan> dim, bool back) {
  Dims dims;
  if (dim) {
    for (const int64_t d : *dim) dims.push_back(wrap_dim(d, x.dim()));
  } else {
    for (int64_t d = 0; d < x.dim(); ++d) dims.push_back(d);
  }
  CHECK(!dims.empty(), RuntimeError, "{}: `shifts` required, there is no dimension to shift along",
        back ? "ifftshift" : "fftshift");
  Dims shifts;
  for (const int64_t d : dims) shifts.push_back((x.size(d) + (back ? 1 : 0)) / 2);
  return roll(x, shifts, dims);
}
Tensor fftshift(const Tensor& input, std::optional<IntSpan> dim) {
  return shifted(input, dim, false);
}
Tensor ifftshift(const Tensor& input, std::optional<IntSpan> dim) {
  return shifted(input, dim, true);
}
OP_FUNCTION(fftshift, "fft_fftshift(input, dim=None)",
            "Moves the frequency zero to the middle of its dimensions.", along | no_out | composed)
OP_FUNCTION(ifftshift, "fft_ifftshift(input, dim=None)", "The inverse of fftshift.",
            along | no_out | composed)

// --- Plans ---------------------------------------------------------------------------------------

struct Plans {
  int64_t count = 0, most = 0;
};
Plans plans_of(int64_t device, std::optional<int64_t> limit) {
  Plans found;
  kernels::fft_plans(DeviceType::cuda, device, limit, &found.count, &found.most);
  return found;
}
int64_t plan_count(int64_t device_index) { return plans_of(device_index, {}).count; }
OP_FUNCTION(plan_count, "_cufft_get_plan_cache_size(device_index)",
            "How many plans of transforms a device keeps.")
int64_t plan_limit(int64_t device_index) { return plans_of(device_index, {}).most; }
OP_FUNCTION(plan_limit, "_cufft_get_plan_cache_max_size(device_index)",
            "How many plans of transforms a device keeps at most.")
void set_plan_limit(int64_t device_index, int64_t max_size) {
  CHECK(max_size >= 0, RuntimeError, "cuFFT plan cache size must be non-negative, but got {}",
        max_size);
  plans_of(device_index, max_size);
}
OP_FUNCTION(set_plan_limit, "_cufft_set_plan_cache_max_size(device_index, max_size)",
            "Lets a device keep as many plans of transforms, and forget those used longest ago.")
void clear_plans(int64_t device_index) {
  const int64_t most = plan_limit(device_index);
  plans_of(device_index, 0);
  plans_of(device_index, most);
}
OP_FUNCTION(clear_plans, "_cufft_clear_plan_cache(device_index)",
            "Lets a device forget all plans of transforms.")

}  // namespace
}  // namespace flambeau
