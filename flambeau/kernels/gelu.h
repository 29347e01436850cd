// The slot of gelu's gradient, and its formulas: the slope of gelu in both forms.
#pragma once

#include "flambeau/kernels/math.h"
#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

namespace math {

template <class T>
FLAMBEAU_DEVICE inline T gelu_slope(T x) {
  const T below = T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
  return below + x * exp(x * x * T(-0.5)) * T(0.39894228040143267794);
}
#if !defined(__CUDACC__)
// The share below x is gelu(x) / x: a formula that compilers turn into vector code, as they do not
// with erf and exp together. Near zero it is the line through one half.
inline float gelu_slope(float x) {
  constexpr float density = 0.39894228040143267794f;  // of the normal distribution at zero
  const float share = gelu(x) / x, line = 0.5f + density * x;
  const float below = __builtin_fabsf(x) > 1e-4f ? share : line;
  return below + x * exp(x * x * -0.5f) * density;
}
#endif

template <class T>
FLAMBEAU_DEVICE inline T gelu_tanh_slope(T x) {
  constexpr T k = T(0.79788456080286535588), cubic = T(0.044715);
  const T t = tanh(k * (x + cubic * x * x * x));
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * (k * (T(1) + T(3) * cubic * x * x));
}

}  // namespace math

namespace kernels {
// Operands: out, gradient, x.
SLOT(gelu_backward, void(const TensorIter& iter, bool tanh_form))
}  // namespace kernels

}  // namespace flambeau
