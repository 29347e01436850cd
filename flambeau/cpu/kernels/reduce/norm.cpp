// CPU kernels of vector norms.
#include <cmath>

#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class In>
struct Norm0 : Adding<Norm0<In>, ComputeType<In>> {
  using C = ComputeType<In>;
  static C value(C x) { return math::to_bool(x) ? C(1) : C(0); }
};
template <class In>
struct Norm1 : Adding<Norm1<In>, ComputeType<In>> {
  static auto value(ComputeType<In> x) { return math::abs(x); }
};
template <class R>
struct Norm2 : Adding<Norm2<R>, R> {
  static R value(R x) { return x * x; }
  static R value(std::complex<R> x) { return x.real() * x.real() + x.imag() * x.imag(); }
  static R finish(R total) { return std::sqrt(total); }
};
template <class In>
struct NormP : Adding<NormP<In>, ComputeType<In>> {
  using C = ComputeType<In>;
  C p;
  explicit NormP(double order) : p(static_cast<C>(order)) {}
  C value(C x) const { return math::pow(math::abs(x), p); }
  C finish(C total) const { return std::pow(total, C(1) / p); }
};

// The largest magnitude, or with the sign -1 the smallest: the largest of what lies below zero.
template <class C>
struct NormInf {
  using Lane = C;
  using Acc = C;
  C sign;
  Lane start() const { return sign > 0 ? Lane(0) : -std::numeric_limits<Lane>::infinity(); }
  Lane step(Lane a, Lane x) const { return math::maximum(a, math::abs(x) * sign); }
  static Lane join(Lane a, Lane b) { return math::maximum(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return math::maximum(a, b); }
  Acc finish(Acc a) const { return a * sign; }
};

void vector_norm_kernel(const Reduction& r, double p) {
  if (r.in_dtype == DType::complex64) return reduce<std::complex<float>, float>(r, Norm2<float>());
  if (r.in_dtype == DType::complex128) {
    return reduce<std::complex<double>, double>(r, Norm2<double>());
  }
  if (p == 1 || p == 2) {
    return dispatch<dtypes::Floating>("linalg_vector_norm", r.in_dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      p == 1 ? reduce<T, T>(r, Norm1<T>()) : reduce<T, T>(r, Norm2<ComputeType<T>>());
    });
  }
  // Rare orders have no loops for half precision: see ops/reduce/norm.cpp.
  dispatch<dtypes::Floating - dtypes::Reduced>("linalg_vector_norm", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p == 0) return reduce<T, T>(r, Norm0<T>());
    if (std::isinf(p)) return reduce<T, T>(r, NormInf<T>{p > 0 ? T(1) : T(-1)});
    reduce<T, T>(r, NormP<T>(p));
  });
}
KERNEL_FOR(vector_norm, vector_norm_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
