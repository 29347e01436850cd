// CPU kernels of cumulative extremes and logcumsumexp.
#include <cmath>
#include <limits>

#include "flambeau/cpu/kernels/scan.h"
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

// Extremes so far and their places. The last of equal elements counts; NaN, once seen, stays.
// Without branches, which nobody could foresee: along n columns side by side.
template <class T, class Better>
void scan_index_columns(const T* x, T* values, int64_t* indices, int64_t size, int64_t step,
                        int64_t n, Better better) {
  using C = ComputeType<T>;
  C best[column_block];
  int64_t at[column_block];
  for (int64_t j = 0; j < n; ++j) best[j] = static_cast<C>(x[j]), at[j] = 0;
  for (int64_t i = 0; i < size; ++i, x += step, values += step, indices += step) {
    IVDEP for (int64_t j = 0; j < n; ++j) {
      const C v = static_cast<C>(x[j]), top = best[j];
      const bool taken = (v != v) | ((top == top) & better(v, top));
      const C chosen = taken ? v : top;
      const int64_t place = taken ? i : at[j];
      best[j] = chosen;
      at[j] = place;
      values[j] = static_cast<T>(chosen);
      indices[j] = place;
    }
  }
}

// Along one row: of a block of elements none of which is taken only the places are written.
template <class T, class Better>
void scan_index_row(const T* x, T* values, int64_t* indices, int64_t size, Better better) {
  using C = ComputeType<T>;
  constexpr int block = 16;
  C best = static_cast<C>(x[0]);
  int64_t at = 0;
  for (int64_t i = 0; i < size; i += block) {
    const int64_t n = std::min<int64_t>(block, size - i);
    int any = n < block;
    for (int j = 0; j < block && n == block; ++j) {
      const C v = static_cast<C>(x[i + j]);
      any |= (v != v) | better(v, best);
    }
    if (!any) {
      std::fill_n(values + i, block, static_cast<T>(best));
      std::fill_n(indices + i, block, at);
      continue;
    }
    for (int64_t j = i; j < i + n; ++j) {
      const C v = static_cast<C>(x[j]);
      const bool taken = (v != v) | ((best == best) & better(v, best));
      best = taken ? v : best;
      at = taken ? j : at;
      values[j] = static_cast<T>(best);
      indices[j] = at;
    }
  }
}

template <class Better>
void scan_index(const char* name, const Tensor& input, const Tensor& values, const Tensor& indices,
                int64_t dim, Better better) {
  dispatch<dtypes::RealBool>(name, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SliceShape s(input, dim);
    const T* x = input.data<T>();
    T* y = values.data<T>();
    int64_t* places = indices.data<int64_t>();
    const auto rows = [&](int64_t at, int64_t n) {
      for (; n > 0; --n, at += s.size) {
        scan_index_row(x + at, y + at, places + at, s.size, better);
      }
    };
    for_each_slice(s, 2, rows, [&](int64_t at, int64_t n) {
      scan_index_columns(x + at, y + at, places + at, s.size, s.inner, n, better);
    });
  });
}

void cummax_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index("cummax_cpu", input, values, indices, dim, [](auto a, auto b) { return a >= b; });
}
KERNEL_FOR(cummax, cummax_kernel)
void cummin_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  scan_index("cummin_cpu", input, values, indices, dim, [](auto a, auto b) { return a <= b; });
}
KERNEL_FOR(cummin, cummin_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
