// CPU kernels of special functions. Most are long and full of branches, so one loop a dtype calls
// them through a pointer: nothing would be won by a loop for each. Common ones are vector code.
#include "flambeau/kernels/special.h"

#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/cpu/kernels/register_gamma.h"
#include "flambeau/cpu/kernels/special_vector.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int cost = 16;  // of an addition

void run_unary(const char* name, const TensorIter& iter, double (*f)(double)) {
  dispatch_loop<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    unary_loop<T, T>(
        iter, [f](C x) { return static_cast<C>(f(static_cast<double>(x))); }, cost);
  });
}

void run_binary(const char* name, const TensorIter& iter, double (*f)(double, double)) {
  dispatch_loop<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    binary_loop<T, T>(
        iter,
        [f](C a, C b) { return static_cast<C>(f(static_cast<double>(a), static_cast<double>(b))); },
        cost);
  });
}

// Floats and what is computed in them by vector code, doubles one by one.
template <class Vector>
void run_common(const char* name, const TensorIter& iter, Vector vector, double (*f)(double)) {
  if (iter.dtypes[1] == DType::float64) return run_unary(name, iter, f);
  dispatch_loop<dtypes::Floating - DType::float64>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    unary_loop<T, T>(iter, vector, cost);
  });
}

void polygamma_kernel(const TensorIter& iter, const Scalar* params) {
  const double n = params[0].to_double();
  if (n == 1) {
    return run_common(
        "polygamma", iter,
        [](float x) __attribute__((always_inline)) { return trigamma_vector(x); },
        math::trigamma_of);
  }
  dispatch_loop<dtypes::Floating>("polygamma", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    unary_loop<T, T>(
        iter, [n](C x) { return static_cast<C>(math::polygamma_of(n, static_cast<double>(x))); },
        cost);
  });
}
KERNEL_FOR(polygamma, polygamma_kernel)

double xlog1py_of(double a, double b) { return b != b ? b : a == 0 ? 0 : a * std::log1p(b); }

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
// After the rows, so that they stay in the slots.
#define COMMON_KERNEL(name, by_register)                                        \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) {                  \
    run_common(                                                                 \
        #name, iter, [](Floats x) { return by_register(x); }, math::name##_of); \
  })
// Those that GCC makes vector code of.
#define VECTOR_KERNEL(name, function)                                                             \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) {                                    \
    run_common(                                                                                   \
        #name, iter, [](float x) __attribute__((always_inline)) { return function##_vector(x); }, \
        math::function##_of);                                                                     \
  })
VECTOR_KERNEL(i0, i0)
VECTOR_KERNEL(special_i0e, i0e)
VECTOR_KERNEL(special_i1, i1)
VECTOR_KERNEL(special_i1e, i1e)
VECTOR_KERNEL(special_modified_bessel_i0, i0)
VECTOR_KERNEL(special_modified_bessel_i1, i1)
COMMON_KERNEL(lgamma, lgamma_by_register)
COMMON_KERNEL(digamma, digamma_by_register)
COMMON_KERNEL(erfinv, erfinv_vector)
BINARY_KERNEL(special_zeta, zeta_of(a, b))
BINARY_KERNEL(special_xlog1py, xlog1py_of(a, b))
BINARY_KERNEL(igamma, gammainc_of(a, b, false))
BINARY_KERNEL(igammac, gammainc_of(a, b, true))

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
