// Element types in device code. std::complex is for the host only; on the device its place is taken
// by cuda::std::complex, which has the same layout, and the functions of kernels/math.h that
// formulas need are given for it here.
#pragma once

#include <cuda/std/complex>

#include "flambeau/tensor/scalar.h"

// The overloads for std::complex are of no use to device code, and none of it calls them.
#pragma nv_diag_suppress 20011, 20014
#include "flambeau/kernels/math.h"
#pragma nv_diag_default 20011, 20014

namespace flambeau {

template <class T>
using DeviceComplex = ::cuda::std::complex<T>;

template <class T>
constexpr bool is_complex_type<DeviceComplex<T>> = true;
template <class T>
struct DTypeOf<DeviceComplex<T>> : DTypeOf<std::complex<T>> {};

namespace cuda {

template <class T>
struct StoredOf {
  using type = T;
};
template <class T>
struct StoredOf<std::complex<T>> {
  using type = DeviceComplex<T>;
};
// The device's type for elements of the host's type T.
template <class T>
using Stored = typename StoredOf<T>::type;

// A number in the compute type C of a kernel.
template <class C>
C number_as(const Scalar& number) {
  if constexpr (is_complex_type<C>) {
    using Real = typename C::value_type;
    const auto value = number.to<std::complex<Real>>();
    return C(value.real(), value.imag());
  } else {
    return number.to<C>();
  }
}

}  // namespace cuda

namespace math {

// a / b without overflow on the way. Single precision is divided in double, as the CPU does; there
// both numbers are brought near one by powers of two first. What is not finite, and division by
// zero, is as the library says. One function that is not inlined, so that a quotient is the same
// number in every kernel.
__device__ __noinline__ inline DeviceComplex<double> quotient(DeviceComplex<double> a,
                                                              DeviceComplex<double> b) {
  const double above = ::fmax(::fabs(a.real()), ::fabs(a.imag()));
  const double below = ::fmax(::fabs(b.real()), ::fabs(b.imag()));
  if (!(above > 0 && below > 0 && isfinite(a) && isfinite(b))) return ::cuda::std::operator/(a, b);
  const int up = ::ilogb(above), down = ::ilogb(below);
  const double x = ::scalbn(a.real(), -up), y = ::scalbn(a.imag(), -up);
  const double u = ::scalbn(b.real(), -down), v = ::scalbn(b.imag(), -down);
  const double size = u * u + v * v;
  return {::scalbn((x * u + y * v) / size, up - down), ::scalbn((y * u - x * v) / size, up - down)};
}
__device__ __noinline__ inline DeviceComplex<float> quotient(DeviceComplex<float> a,
                                                             DeviceComplex<float> b) {
  if (b == DeviceComplex<float>(0) || !isfinite(a) || !isfinite(b))
    return ::cuda::std::operator/(a, b);
  const double x = a.real(), y = a.imag(), u = b.real(), v = b.imag(), size = u * u + v * v;
  return {static_cast<float>((x * u + y * v) / size), static_cast<float>((y * u - x * v) / size)};
}
// What `a / b` is in the formulas of rows: no templates, and so preferred to the library's.
__device__ inline DeviceComplex<float> operator/(DeviceComplex<float> a, DeviceComplex<float> b) {
  return quotient(a, b);
}
__device__ inline DeviceComplex<double> operator/(DeviceComplex<double> a,
                                                  DeviceComplex<double> b) {
  return quotient(a, b);
}
template <class T>
requires(std::is_floating_point_v<T>) __device__ inline T quotient(T a, T b) { return a / b; }

template <class T>
__device__ inline DeviceComplex<T> exp2(DeviceComplex<T> x) {
  return exp(x * T(0.693147180559945309417));
}
template <class T>
__device__ inline DeviceComplex<T> expm1(DeviceComplex<T> x) {
  // (e^a - 1) + e^a (cos b - 1) keeps small values exact.
  const T a = ::expm1(x.real()), s = ::sin(x.imag() / 2);
  return {a - 2 * (a + 1) * s * s, (a + 1) * ::sin(x.imag())};
}
template <class T>
__device__ inline DeviceComplex<T> log2(DeviceComplex<T> x) {
  return log(x) * T(1.44269504088896340736);
}
template <class T>
__device__ inline DeviceComplex<T> log1p(DeviceComplex<T> x) {
  // See kernels/math.h.
  const double a = x.real(), b = x.imag(), size = ::hypot(a + 1, b);
  const bool is_near = size > 0.5 && size < 2;
  const double real = is_near ? ::log1p(::fma(b, b, a * (a + 2))) / 2 : ::log(size);
  return {static_cast<T>(real), ::atan2(x.imag(), x.real() + 1)};
}
template <class T>
__device__ inline DeviceComplex<T> rsqrt(DeviceComplex<T> x) {
  return T(1) / sqrt(x);
}
template <class T>
__device__ inline DeviceComplex<T> reciprocal(DeviceComplex<T> x) {
  // One over zero has no sign.
  return quotient(DeviceComplex<T>(1), x == DeviceComplex<T>(0) ? DeviceComplex<T>(0) : x);
}
template <class T>
__device__ inline DeviceComplex<T> logaddexp(DeviceComplex<T> a, DeviceComplex<T> b) {
  const bool first = a.real() > b.real();
  const DeviceComplex<T> top = first ? a : b, rest = first ? b : a;
  return isinf(a) && a == b ? a : top + log1p(exp(rest - top));
}
template <class T>
__device__ inline T abs(DeviceComplex<T> x) {
  return ::hypot(x.real(), x.imag());
}
// Not inlined, so that a power is the same number in the loops for dense and for other operands.
template <class T>
__device__ __noinline__ DeviceComplex<T> pow(DeviceComplex<T> a, DeviceComplex<T> b) {
  if (b == DeviceComplex<T>(0)) return DeviceComplex<T>(1);
  if (a == DeviceComplex<T>(0) && b.real() > 0) return DeviceComplex<T>(0);
  return ::cuda::std::pow(a, b);
}

}  // namespace math
}  // namespace flambeau
