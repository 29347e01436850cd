// Window functions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/kernels/special.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// The positions 2 pi k / (length - 1), or / length for a window that is to be repeated.
Tensor window_angles(const char* op, int64_t length, bool periodic, const Options& options) {
  CHECK(length >= 0, RuntimeError, "{} requires non-negative window_length, got window_length={}",
        op, length);
  Options wide = options;
  wide.requires_grad = false;
  const DType dtype = options.dtype_or(default_dtype());
  CHECK(is_differentiable(dtype), RuntimeError, "{} expects floating point dtypes, got: {}", op,
        dtype);
  wide.dtype = dtype;
  if (length <= 1) return ones({length}, wide);  // of any dtype; see finished_window
  const double last = static_cast<double>(std::max<int64_t>(periodic ? length : length - 1, 1));
  return arange(0, length, 1, wide) * (2 * std::numbers::pi / last);
}

Tensor finished_window(Tensor window, const Options& options) {
  if (window.size(0) <= 1) window = ones_like(window, options.dtype_or(default_dtype()));
  return finished(std::move(window), options);
}

Tensor hann_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("hann_window", window_length, periodic, options);
  return finished_window(cos(x) * -0.5 + 0.5, options);
}
OP_FUNCTION(hann_window, "hann_window(window_length, periodic=True, **options)",
            "The Hann window: half of a raised cosine.", no_out)

Tensor hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                      const Options& options) {
  const Tensor x = window_angles("hamming_window", window_length, periodic, options);
  return finished_window(cos(x) * -beta + alpha, options);
}
OP_FUNCTION(hamming_window,
            "hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, **options)",
            "The Hamming window: a raised cosine that does not fall to zero.", no_out)

Tensor bartlett_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("bartlett_window", window_length, periodic, options);
  return finished_window(1 - abs(x * (1 / std::numbers::pi) - 1), options);
}
OP_FUNCTION(bartlett_window, "bartlett_window(window_length, periodic=True, **options)",
            "The Bartlett window: a triangle.", no_out)

Tensor blackman_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("blackman_window", window_length, periodic, options);
  return finished_window(cos(x) * -0.5 + cos(x * 2) * 0.08 + 0.42, options);
}
OP_FUNCTION(blackman_window, "blackman_window(window_length, periodic=True, **options)",
            "The Blackman window: a sum of three cosines.", no_out)

Tensor kaiser_window(int64_t window_length, bool periodic, double beta, const Options& options) {
  window_angles("kaiser_window", window_length, periodic, options);  // checks
  Tensor window = ones(IntSpan{window_length}, {.dtype = DType::float64, .device = Device()});
  const int64_t last = periodic ? window_length : window_length - 1;
  for (int64_t k = 0; k < window_length && last > 0; ++k) {
    const double x = 2.0 * static_cast<double>(k) / static_cast<double>(last) - 1;
    window.data<double>()[k] = beta * std::sqrt(std::max(0.0, 1 - x * x));
  }
  const NoGrad off;
  static constexpr UnaryRow i0 = {"i0",          dtypes::Floating, OutDType::same, &kernels::i0,
                                  Keep::nothing, nullptr,          OpDef::plain};
  const Tensor most = scalar_tensor(beta, options_of(window));
  window = unary_op(i0, window, nullptr, 0) / unary_op(i0, most, nullptr, 0);
  const Tensor cast = to(window, options.device_or_default(), options.dtype_or(default_dtype()),
                         false, false, std::nullopt);
  return finished_window(cast, options);
}
Tensor kaiser_window_default(int64_t window_length, bool periodic, const Options& options) {
  return kaiser_window(window_length, periodic, 12.0, options);
}
OP_FUNCTION(kaiser_window_default, "kaiser_window(window_length, periodic=True, **options)",
            "The Kaiser window with beta 12.", no_out)
OP_FUNCTION(kaiser_window, "kaiser_window(window_length, periodic, beta, **options)",
            "The Kaiser window: the modified Bessel function of a semicircle.", no_out)

}  // namespace
}  // namespace flambeau
