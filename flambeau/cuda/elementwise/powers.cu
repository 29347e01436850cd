// CUDA kernels of powers, fused multiply-adds and interpolation.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/elementwise.h"

namespace flambeau::cuda {
namespace {

template <class C>
struct Pow {
  __device__ C operator()(C a, C b) const { return math::pow(a, b); }
};

void pow_kernel(const TensorIter& iter) {
  dispatch<dtypes::Numeric>("pow", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    elementwise<T, T, T>("pow", iter, Pow<ComputeType<T>>{});
  });
}
KERNEL_FOR(pow, pow_kernel)

template <class C>
struct AddProduct {
  C value;
  __device__ C operator()(C x, C a, C b) const {
    return math::plus(x, math::times(value, math::times(a, b)));
  }
};

void addcmul_kernel(const TensorIter& iter, const Scalar& value) {
  dispatch<dtypes::Numeric>("addcmul", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    elementwise<T, T, T, T>("addcmul", iter, AddProduct<C>{number_as<C>(value)});
  });
}
KERNEL_FOR(addcmul, addcmul_kernel)

template <class C>
struct AddQuotient {
  C value;
  __device__ C operator()(C x, C a, C b) const { return x + math::quotient(value * a, b); }
};

void addcdiv_kernel(const TensorIter& iter, const Scalar& value) {
  dispatch<dtypes::FloatingComplex>("addcdiv", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    elementwise<T, T, T, T>("addcdiv", iter, AddQuotient<C>{number_as<C>(value)});
  });
}
KERNEL_FOR(addcdiv, addcdiv_kernel)

// From the nearer end, so that weights 0 and 1 give the ends exactly.
template <class C>
struct Lerp {
  __device__ C operator()(C a, C b, C w) const {
    return math::abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (C(1) - w);
  }
};
template <class C>
struct LerpByNumber {
  C w;
  __device__ C operator()(C a, C b) const { return Lerp<C>{}(a, b, w); }
};

void lerp_kernel(const TensorIter& iter, const Scalar* number) {
  dispatch<dtypes::FloatingComplex>("lerp", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    if (number) return elementwise<T, T, T>("lerp", iter, LerpByNumber<C>{number_as<C>(*number)});
    elementwise<T, T, T, T>("lerp", iter, Lerp<C>{});
  });
}
KERNEL_FOR(lerp, lerp_kernel)

}  // namespace
}  // namespace flambeau::cuda
