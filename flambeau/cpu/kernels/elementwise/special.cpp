// CPU kernels of special functions. Most are long, so one loop a dtype calls them through a
// pointer, for a register of doubles: nothing would be won by a loop for each. Common ones have
// formulas for registers of floats.
#include "flambeau/kernels/special.h"

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/math/gamma.h"
#include "flambeau/cpu/kernels/math/special.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int cost = 16;  // of an addition

// Rows of registers of doubles: the driver hands out whole registers alone, as it does for whatever
// costs more than an addition.
inline Doubles doubles_at(const float* from) {
  HalfFloats lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return __builtin_convertvector(lanes, Doubles);
}
inline Doubles doubles_at(const double* from) {
  Doubles lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void store_doubles(Doubles lanes, float* to) {
  const HalfFloats rounded = __builtin_convertvector(lanes, HalfFloats);
  std::memcpy(to, &rounded, sizeof rounded);
}
inline void store_doubles(Doubles lanes, double* to) { std::memcpy(to, &lanes, sizeof lanes); }

template <class T, class F>
void unary_row(const void* formula, char* const* data, int64_t n, bool /*non_temporal*/) {
  const F f = *static_cast<const F*>(formula);
  T* out = reinterpret_cast<T*>(data[0]);
  const T* x = reinterpret_cast<const T*>(data[1]);
  for (int64_t i = 0; i < n; i += double_lanes) store_doubles(f(doubles_at(x + i)), out + i);
}
template <class T, class F>
void binary_row(const void* formula, char* const* data, int64_t n, bool /*non_temporal*/) {
  const F f = *static_cast<const F*>(formula);
  T* out = reinterpret_cast<T*>(data[0]);
  const T *a = reinterpret_cast<const T*>(data[1]), *b = reinterpret_cast<const T*>(data[2]);
  for (int64_t i = 0; i < n; i += double_lanes) {
    store_doubles(f(doubles_at(a + i), doubles_at(b + i)), out + i);
  }
}
// With a formula for results of single precision, and less, and one for doubles.
template <class F>
void run_unary(const TensorIter& iter, F single, F full) {
  const bool wide = iter.dtypes[1] == DType::float64;
  const int64_t size = wide ? 8 : 4;
  const ElementwiseLoop loop{1, {size, size}, wide ? unary_row<double, F> : unary_row<float, F>};
  run_elementwise(iter, loop, wide ? &full : &single, cost);
}
template <class F>
void run_binary(const TensorIter& iter, F single, F full) {
  const bool wide = iter.dtypes[1] == DType::float64;
  const int64_t size = wide ? 8 : 4;
  const ElementwiseLoop loop{
      2, {size, size, size}, wide ? binary_row<double, F> : binary_row<float, F>};
  run_elementwise(iter, loop, wide ? &full : &single, cost);
}

// Floats and what is computed in them in SIMD registers of floats.
template <class Vector>
void run_common(const char* name, const TensorIter& iter, Vector vector, Doubles (*full)(Doubles)) {
  if (iter.dtypes[1] == DType::float64) return run_unary(iter, full, full);
  dispatch_loop<dtypes::Floating - DType::float64>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise_loop<T, T>(iter, vector, cost);
  });
}

struct Polygamma {
  double order;
  Doubles operator()(Doubles x) const { return polygamma_of(x, doubles(order)); }
};
void polygamma_kernel(const TensorIter& iter, const Scalar* params) {
  const double n = params[0].to_double();
  if (n == 0) return run_unary(iter, digamma_of<true>, digamma_of<false>);
  if (n == 1) return run_unary(iter, trigamma_of, trigamma_of);
  run_unary(iter, Polygamma{n}, Polygamma{n});
}
KERNEL_FOR(polygamma, polygamma_kernel)

#define UNARY_KERNEL(name, function)                           \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) { \
    run_unary(iter, function<true>, function<false>);          \
  })
#define BINARY_KERNEL(name, single, full) \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) { run_binary(iter, single, full); })
#define METHOD(name, function, keeps, gradient, doc, ...) UNARY_KERNEL(name, function)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) UNARY_KERNEL(name, function)
#define POLYNOMIAL(name, value, doc)                                  \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) {        \
    const auto formula = +[](Doubles a, Doubles b) { return value; }; \
    run_binary(iter, formula, formula);                               \
  })
#include "flambeau/kernels/special.def"
// After the rows, so that they stay in the slots.
#define COMMON_KERNEL(name, function, simd)                                   \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) {                \
    run_common(                                                               \
        #name, iter, [](Floats x) { return simd(x); }, function##_of<false>); \
  })
COMMON_KERNEL(lgamma, lgamma, lgamma_simd)
COMMON_KERNEL(digamma, digamma, digamma_simd)
COMMON_KERNEL(erfinv, erfinv, erfinv_simd)
COMMON_KERNEL(special_ndtr, ndtr, ndtr_simd)
BINARY_KERNEL(special_zeta, zeta_of, zeta_of)
BINARY_KERNEL(special_xlog1py, xlog1py_of, xlog1py_of)
BINARY_KERNEL(igamma, (gammainc_of<true, false>), (gammainc_of<false, false>))
BINARY_KERNEL(igammac, (gammainc_of<true, true>), (gammainc_of<false, true>))

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
