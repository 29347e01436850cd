// CUDA kernels of variances and of vector norms.
#include <cmath>
#include <limits>

#include "flambeau/cuda/reduce/reduce.cuh"

namespace flambeau::cuda {
namespace {

// Mean and sum of squared distances from it, of some of the elements (Welford and Chan's way of
// gathering them, which needs one pass and loses no digits).
struct Spread {
  double mean, squares;
  int64_t count;
};

template <class T>
struct Moments {
  using Acc = Spread;
  double correction;
  bool root;
  __device__ Acc start() const { return {0, 0, 0}; }
  __device__ Acc step(Acc a, ComputeType<T> x, int64_t) const {
    const double value = static_cast<double>(x), before = value - a.mean;
    ++a.count;
    a.mean += before / static_cast<double>(a.count);
    a.squares += before * (value - a.mean);
    return a;
  }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const double n = static_cast<double>(a.count + b.count), apart = b.mean - a.mean;
    const double share = static_cast<double>(b.count) / n;
    return {a.mean + apart * share,
            a.squares + b.squares + apart * apart * static_cast<double>(a.count) * share,
            a.count + b.count};
  }
  __device__ void store(Acc a, char* out, char* second, int64_t at) const {
    using C = ComputeType<T>;
    const double free = static_cast<double>(a.count) - correction;
    const double variance = a.squares / (free > 0 ? free : 0.0);
    const double mean = a.count ? a.mean : std::numeric_limits<double>::quiet_NaN();
    reinterpret_cast<T*>(out)[at] =
        static_cast<T>(static_cast<C>(root ? ::sqrt(variance) : variance));
    if (second) reinterpret_cast<T*>(second)[at] = static_cast<T>(static_cast<C>(mean));
  }
};

void var_mean_kernel(const Reduction& r, double correction, bool root) {
  dispatch<dtypes::Floating>("var_mean", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T>("var_mean", r, Moments<T>{correction, root});
  });
}
KERNEL_FOR(var_mean, var_mean_kernel)

// What the norms of T are made in, and what they are.
template <class T>
struct NormTypes {
  using Real = ComputeType<T>;
  using Out = T;
};
template <class R>
struct NormTypes<DeviceComplex<R>> {
  using Real = R;
  using Out = R;
};

// The sum of |x|**p, by cases that need no power; then its root.
enum class Order { zero, one, two, any };

template <class T, Order order>
struct Norm : Adding<Norm<T, order>, typename NormTypes<T>::Real, typename NormTypes<T>::Out> {
  using R = typename NormTypes<T>::Real;
  R p;
  __device__ R value(ComputeType<T> x) const {
    if constexpr (order == Order::zero) {
      return math::to_bool(x) ? R(1) : R(0);
    } else if constexpr (order == Order::one) {
      return math::abs(x);
    } else if constexpr (order == Order::any) {
      return math::pow(math::abs(x), p);
    } else if constexpr (is_complex_type<T>) {
      return x.real() * x.real() + x.imag() * x.imag();
    } else {
      return x * x;
    }
  }
  __device__ R finish(R total) const {
    if constexpr (order == Order::two) {
      return ::sqrt(total);
    } else if constexpr (order == Order::any) {
      return math::pow(total, R(1) / p);
    } else {
      return total;
    }
  }
};

// The largest or smallest magnitude.
template <class T, bool Max>
struct NormInf {
  using Acc = typename NormTypes<T>::Real;
  __device__ Acc start() const { return Max ? Acc(0) : std::numeric_limits<Acc>::infinity(); }
  __device__ Acc merge(Acc a, Acc b) const {
    return Max ? math::maximum(a, b) : math::minimum(a, b);
  }
  __device__ Acc step(Acc a, ComputeType<T> x, int64_t) const { return merge(a, math::abs(x)); }
  __device__ void store(Acc a, char* out, char*, int64_t at) const {
    using Out = typename NormTypes<T>::Out;
    reinterpret_cast<Out*>(out)[at] = static_cast<Out>(a);
  }
};

template <class T, Order order>
void run_norm(const Reduction& r, double p) {
  Norm<T, order> norm;
  norm.p = static_cast<typename NormTypes<T>::Real>(p);
  reduce<T>("linalg_vector_norm", r, norm);
}

void vector_norm_kernel(const Reduction& r, double p) {
  dispatch<dtypes::FloatingComplex>("linalg_vector_norm", r.in_dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    if (p == 2) return run_norm<T, Order::two>(r, p);
    if (p == 1) return run_norm<T, Order::one>(r, p);
    if (p == 0) return run_norm<T, Order::zero>(r, p);
    if (p == HUGE_VAL) return reduce<T>("linalg_vector_norm", r, NormInf<T, true>());
    if (p == -HUGE_VAL) return reduce<T>("linalg_vector_norm", r, NormInf<T, false>());
    run_norm<T, Order::any>(r, p);
  });
}
KERNEL_FOR(vector_norm, vector_norm_kernel)

}  // namespace
}  // namespace flambeau::cuda
