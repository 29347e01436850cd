// CPU kernels of vector norms.
#include <cmath>

#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// What norms are made of and in: real, at least float.
template <class In>
struct NormTypes {
  using C = ComputeType<In>;
  using Real = C;
  using Out = In;
};
template <class R>
struct NormTypes<std::complex<R>> {
  using C = std::complex<R>;
  using Real = R;
  using Out = R;
};

template <class In>
struct Norm0 : Adding<Norm0<In>, typename NormTypes<In>::Real> {
  using R = typename NormTypes<In>::Real;
  static R value(ComputeType<In> x) { return math::truth(x) ? R(1) : R(0); }
};
template <class In>
struct Norm1 : Adding<Norm1<In>, typename NormTypes<In>::Real> {
  static auto value(ComputeType<In> x) { return math::abs(x); }
};
template <class In>
struct Norm2 : Adding<Norm2<In>, typename NormTypes<In>::Real> {
  using R = typename NormTypes<In>::Real;
  static R value(ComputeType<In> x) {
    if constexpr (is_complex_type<In>) {
      return x.real() * x.real() + x.imag() * x.imag();
    } else {
      return x * x;
    }
  }
  static R finish(R total) { return std::sqrt(total); }
};
template <class In>
struct NormP : Adding<NormP<In>, typename NormTypes<In>::Real> {
  using R = typename NormTypes<In>::Real;
  R p;
  explicit NormP(double order) : p(static_cast<R>(order)) {}
  R value(ComputeType<In> x) const { return math::pow(math::abs(x), p); }
  R finish(R total) const { return std::pow(total, R(1) / p); }
};

// The largest or smallest magnitude. No element gives zero.
template <class In, bool Max>
struct NormInf {
  using Lane = typename NormTypes<In>::Real;
  using Acc = Lane;
  static Lane start() { return Max ? Lane(0) : std::numeric_limits<Lane>::infinity(); }
  static Lane choose(Lane a, Lane b) { return Max ? math::maximum(a, b) : math::minimum(a, b); }
  static Lane step(Lane a, ComputeType<In> x) { return choose(a, math::abs(x)); }
  static Lane join(Lane a, Lane b) { return choose(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return choose(a, b); }
  static Acc finish(Acc a) { return a; }
};

void vector_norm_kernel(const Reduction& r, double p) {
  dispatch<dtypes::FloatingComplex>("linalg_vector_norm", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = typename NormTypes<T>::Out;
    if (p == 2) {
      reduce<T, Out>(r, Norm2<T>());
    } else if (p == 1) {
      reduce<T, Out>(r, Norm1<T>());
    } else if (p == 0) {
      reduce<T, Out>(r, Norm0<T>());
    } else if (p == HUGE_VAL) {
      reduce<T, Out>(r, NormInf<T, true>());
    } else if (p == -HUGE_VAL) {
      reduce<T, Out>(r, NormInf<T, false>());
    } else {
      reduce<T, Out>(r, NormP<T>(p));
    }
  });
}
KERNEL_FOR(vector_norm, vector_norm_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
