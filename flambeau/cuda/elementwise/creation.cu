// CUDA kernels that fill contiguous tensors with sequences.
#include "flambeau/kernels/creation.h"

#include "flambeau/cuda/elementwise/loops.cuh"

namespace flambeau::cuda {
namespace {

template <class T, class F>
__global__ void __launch_bounds__(block_size) fill_kernel(T* out, int64_t n, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < n) out[i] = static_cast<T>(f(i));
}

template <class T, class F>
void fill(const char* op, const Tensor& out, const F& f) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  launch(op, fill_kernel<T, F>, blocks_for(out.numel(), block_size), block_size,
         static_cast<T*>(out.raw()), out.numel(), f);
}

template <class C>
struct Arange {
  C first, step;
  __device__ C operator()(int64_t i) const { return first + step * static_cast<C>(i); }
};

void arange_kernel(const Tensor& out, const Scalar& start, const Scalar& step) {
  dispatch<dtypes::Real>("arange", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    fill<T>("arange", out, Arange<C>{start.to<C>(), step.to<C>()});
  });
}
KERNEL_FOR(arange, arange_kernel)

// From both ends towards the middle, so that the sequence is symmetric and ends exactly. In half
// precision every number on the way is rounded, as PyTorch does on this device.
template <class T, class C>
struct Linspace {
  C first, last, step;
  int64_t n;
  using Real = decltype(math::abs(C()));
  __device__ static C rounded(C x) {
    if constexpr (is_reduced_type<T>) return static_cast<C>(static_cast<T>(x));
    return x;
  }
  __device__ C steps(int64_t count) const {
    if constexpr (is_reduced_type<T>) return rounded(step * rounded(static_cast<C>(count)));
    return step * static_cast<Real>(count);
  }
  __device__ C operator()(int64_t i) const {
    return i < n / 2 || n == 1 ? first + steps(i) : last - steps(n - 1 - i);
  }
};

void linspace_kernel(const Tensor& out, const Scalar& start, const Scalar& end) {
  const int64_t n = out.numel();
  dispatch<dtypes::Numeric>("linspace", out.dtype(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = std::conditional_t<std::is_integral_v<T>, float, ComputeType<T>>;
    using Real = decltype(math::abs(C()));
    C first = number_as<C>(start), last = number_as<C>(end);
    C step = n > 1 ? (last - first) / static_cast<Real>(n - 1) : C(0);
    if constexpr (is_reduced_type<T>) {
      first = C(T(first)), last = C(T(last));
      step = n > 1 ? C(T(C(T(last - first)) / C(T(static_cast<C>(n - 1))))) : C(0);
    }
    fill<T>("linspace", out, Linspace<T, C>{first, last, step, n});
  });
}
KERNEL_FOR(linspace, linspace_kernel)

}  // namespace
}  // namespace flambeau::cuda
