// CPU kernels of special functions. They are long and full of branches, so one loop a dtype calls
// them through a pointer: nothing would be won by a loop for each.
#include "flambeau/kernels/special.h"

#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int cost = 16;  // of an addition

void run_unary(const char* name, const TensorIter& iter, double (*f)(double)) {
  dispatch<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    unary_loop<T, T>(
        iter, [f](C x) { return static_cast<C>(f(static_cast<double>(x))); }, cost);
  });
}

void run_binary(const char* name, const TensorIter& iter, double (*f)(double, double)) {
  dispatch<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    binary_loop<T, T>(
        iter,
        [f](C a, C b) { return static_cast<C>(f(static_cast<double>(a), static_cast<double>(b))); },
        cost);
  });
}

void polygamma_kernel(const TensorIter& iter, const Scalar* params) {
  const double n = params[0].to_double();
  dispatch<dtypes::Floating>("polygamma", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    unary_loop<T, T>(
        iter, [n](C x) { return static_cast<C>(math::polygamma_of(n, static_cast<double>(x))); },
        cost);
  });
}
KERNEL_FOR(polygamma, polygamma_kernel)

double xlog1py_of(double a, double b) { return b != b ? b : a == 0 ? 0 : a * std::log1p(b); }

// The library has one for floats, as exact and twice as fast.
void lgamma_kernel(const TensorIter& iter, const Scalar*) {
  dispatch<dtypes::Floating>("lgamma", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    unary_loop<T, T>(
        iter,
        [](C x) {
          int sign = 0;
          if constexpr (std::is_same_v<C, float>) return ::lgammaf_r(x, &sign);
          return static_cast<C>(::lgamma_r(x, &sign));
        },
        cost);
  });
}

#define UNARY_KERNEL(name, function) \
  KERNEL_FOR(                        \
      name, [](const TensorIter& iter, const Scalar*) { run_unary(#name, iter, math::function); })
#define BINARY_KERNEL(name, value)                             \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) { \
    run_binary(#name, iter, [](double a, double b) -> double { \
      using namespace math;                                    \
      return value;                                            \
    });                                                        \
  })
#define METHOD(name, function, keeps, gradient, doc) UNARY_KERNEL(name, function)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) UNARY_KERNEL(name, function)
#define POLYNOMIAL(name, value, doc) BINARY_KERNEL(name, value)
#include "flambeau/kernels/special.def"
// After the rows, so that it stays in the slot.
KERNEL_FOR(lgamma, lgamma_kernel)
BINARY_KERNEL(special_zeta, zeta_of(a, b))
BINARY_KERNEL(special_xlog1py, xlog1py_of(a, b))
BINARY_KERNEL(igamma, gammainc_of(a, b, false))
BINARY_KERNEL(igammac, gammainc_of(a, b, true))

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
