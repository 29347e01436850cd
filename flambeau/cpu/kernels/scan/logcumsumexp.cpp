// CPU kernels of logcumsumexp.
#include <cmath>
#include <limits>

#include "flambeau/cpu/kernels/scan/scan.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// log(exp(a) + exp(b)) without overflow; equal infinities give themselves. Calls of the C library
// take the time, so that a copy in every loop would win nothing.
[[gnu::noinline]] double log_add_exp(double a, double b) {
  const double high = math::maximum(a, b), low = math::minimum(a, b);
  if (high == low || std::isinf(high)) return std::isinf(high) ? high : high + M_LN2;
  return high + std::log1p(std::exp(low - high));
}

[[gnu::noinline]] std::complex<double> log_add_exp(std::complex<double> a, std::complex<double> b) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto unknown = [](std::complex<double> z) { return z != z; };
  if (unknown(a) || unknown(b)) return {nan, nan};
  if (a.real() < b.real()) std::swap(a, b);
  if (std::isinf(b.real()) && b.real() < 0) return a;
  if (std::isinf(b.real())) return std::log(std::exp(a) + std::exp(b));  // nothing to overflow
  return a + std::log(1.0 + std::exp(b - a));
}

void logcumsumexp_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  dispatch<dtypes::FloatingComplex>("logcumsumexp_out_cpu", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Carry<T>;
    scan<T>(input, out, dim, reverse, A(-std::numeric_limits<double>::infinity()),
            [](A a, A b) { return log_add_exp(a, b); });
  });
}
KERNEL_FOR(logcumsumexp, logcumsumexp_kernel)

// grad_k = exp(x_k - y_k) r_k, where r_k = g_k + exp(y_k - y_{k+1}) r_{k+1}: no exponent is
// positive.
template <class T>
void logcumsumexp_backward_slice(const T* g, const T* x, const T* y, T* out, int64_t size,
                                 int64_t step) {
  double carried = 0;
  for (int64_t i = size - 1; i >= 0; --i) {
    const int64_t k = i * step;
    const auto at = [](T value) { return static_cast<double>(static_cast<ComputeType<T>>(value)); };
    const double fade = i + 1 < size ? std::exp(at(y[k]) - at(y[k + step])) : 0;
    carried = at(g[k]) + (carried == 0 ? 0 : fade * carried);
    const double share = std::exp(at(x[k]) - at(y[k]));
    out[k] = narrow<T>(at(x[k]) == -std::numeric_limits<double>::infinity() ? 0 : share * carried);
  }
}

void logcumsumexp_backward_kernel(const Tensor& grad, const Tensor& input, const Tensor& output,
                                  const Tensor& out, int64_t dim) {
  dispatch<dtypes::Floating>("logcumsumexp_backward", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SliceShape s(input, dim);
    const auto slice = [&](int64_t at) {
      logcumsumexp_backward_slice(grad.data<T>() + at, input.data<T>() + at, output.data<T>() + at,
                                  out.data<T>() + at, s.size, s.inner);
    };
    const auto rows = [&](int64_t at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) slice(at + i * s.size);
    };
    for_each_slice(s, 16, rows, [&](int64_t at, int64_t n) {
      for (int64_t j = 0; j < n; ++j) slice(at + j);
    });
  });
}
KERNEL_FOR(logcumsumexp_backward, logcumsumexp_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
