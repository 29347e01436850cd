// CPU kernels of vector norms.
#include <cmath>

#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class In>
struct Norm0 : Adding<Norm0<In>, ComputeType<In>> {
  using C = ComputeType<In>;
  static C value(C x) { return math::truth(x) ? C(1) : C(0); }
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

// The largest or smallest magnitude. No element gives zero.
template <class In, bool Max>
struct NormInf {
  using Lane = ComputeType<In>;
  using Acc = Lane;
  static Lane start() { return Max ? Lane(0) : std::numeric_limits<Lane>::infinity(); }
  static Lane choose(Lane a, Lane b) { return Max ? math::maximum(a, b) : math::minimum(a, b); }
  static Lane step(Lane a, Lane x) { return choose(a, math::abs(x)); }
  static Lane join(Lane a, Lane b) { return choose(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return choose(a, b); }
  static Acc finish(Acc a) { return a; }
};

void vector_norm_kernel(const Reduction& r, double p) {
  if (r.in_dtype == DType::complex64) return reduce<std::complex<float>, float>(r, Norm2<float>());
  if (r.in_dtype == DType::complex128) {
    return reduce<std::complex<double>, double>(r, Norm2<double>());
  }
  dispatch<dtypes::Floating>("linalg_vector_norm", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p == 2) {
      reduce<T, T>(r, Norm2<ComputeType<T>>());
    } else if (p == 1) {
      reduce<T, T>(r, Norm1<T>());
    } else if (p == 0) {
      reduce<T, T>(r, Norm0<T>());
    } else if (p == HUGE_VAL) {
      reduce<T, T>(r, NormInf<T, true>());
    } else if (p == -HUGE_VAL) {
      reduce<T, T>(r, NormInf<T, false>());
    } else {
      reduce<T, T>(r, NormP<T>(p));
    }
  });
}
KERNEL_FOR(vector_norm, vector_norm_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
