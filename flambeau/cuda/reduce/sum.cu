// CUDA kernels of sums, means and products.
#include "flambeau/cuda/reduce/reduce.cuh"

namespace flambeau::cuda {
namespace {

template <class T>
struct Sum : Adding<Sum<T>, SumAcc<T>, SumOut<T>> {
  __device__ SumAcc<T> value(ComputeType<T> x) const { return static_cast<SumAcc<T>>(x); }
};

void sum_kernel(const Reduction& r) {
  dispatch<dtypes::All>("sum", r.in_dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    reduce<T>("sum", r, Sum<T>());
  });
}
KERNEL_FOR(sum, sum_kernel)

template <class T>
struct NanSum : Adding<NanSum<T>, ComputeType<T>, T> {
  using C = ComputeType<T>;
  __device__ C value(C x) const { return x == x ? x : C(0); }
};

void nansum_kernel(const Reduction& r) {
  dispatch<dtypes::FloatingComplex>("nansum", r.in_dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    reduce<T>("nansum", r, NanSum<T>());
  });
}
KERNEL_FOR(nansum, nansum_kernel)

template <class T>
struct Mean : Adding<Mean<T>, ComputeType<T>, T> {
  using C = ComputeType<T>;
  decltype(math::abs(C())) count;
  __device__ C value(C x) const { return x; }
  __device__ C finish(C total) const { return total / count; }
};

void mean_kernel(const Reduction& r) {
  dispatch<dtypes::FloatingComplex>("mean", r.in_dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    Mean<T> mean;
    mean.count = static_cast<decltype(mean.count)>(r.count);
    reduce<T>("mean", r, mean);
  });
}
KERNEL_FOR(mean, mean_kernel)

template <class T>
struct Product {
  using Acc = SumAcc<T>;
  __device__ Acc start() const { return Acc(1); }
  __device__ Acc step(Acc a, ComputeType<T> x, int64_t) const {
    return math::times(a, static_cast<Acc>(x));
  }
  __device__ Acc merge(Acc a, Acc b) const { return math::times(a, b); }
  __device__ void store(Acc a, char* out, char*, int64_t at) const {
    reinterpret_cast<SumOut<T>*>(out)[at] = static_cast<SumOut<T>>(a);
  }
};

void prod_kernel(const Reduction& r) {
  dispatch<dtypes::All>("prod", r.in_dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    reduce<T>("prod", r, Product<T>());
  });
}
KERNEL_FOR(prod, prod_kernel)

}  // namespace
}  // namespace flambeau::cuda
