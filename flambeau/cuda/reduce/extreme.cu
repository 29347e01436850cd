// CUDA kernels of the largest and smallest elements, with and without their indices. The first of
// equal elements counts, and NaN is both larger and smaller than any number.
#include <limits>

#include "flambeau/cuda/reduce/reduce.cuh"

namespace flambeau::cuda {
namespace {

template <class C, bool Max>
constexpr C worst() {
  using Limits = std::numeric_limits<C>;
  if constexpr (std::is_floating_point_v<C>) {
    return Max ? -Limits::infinity() : Limits::infinity();
  } else {
    return Max ? Limits::lowest() : Limits::max();
  }
}

template <class T, bool Max>
struct Extreme {
  using Acc = ComputeType<T>;
  __device__ Acc start() const { return worst<Acc, Max>(); }
  __device__ Acc merge(Acc a, Acc b) const {
    return Max ? math::maximum(a, b) : math::minimum(a, b);
  }
  __device__ Acc step(Acc a, Acc x, int64_t) const { return merge(a, x); }
  __device__ void store(Acc a, char* out, char*, int64_t at) const {
    reinterpret_cast<T*>(out)[at] = static_cast<T>(a);
  }
};

template <class C>
struct Found {
  C value;
  int64_t index;  // past all elements as long as there is none
};

template <class T, bool Max>
struct ExtremeIndex {
  using C = ComputeType<T>;
  using Acc = Found<C>;
  __device__ Acc start() const { return {worst<C, Max>(), INT64_MAX}; }
  __device__ Acc merge(Acc a, Acc b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = a.value == b.value || (a_nan && b_nan);
    if (equal) return a.index <= b.index ? a : b;
    const bool b_wins = b_nan || (!a_nan && (Max ? b.value > a.value : b.value < a.value));
    return b_wins ? b : a;
  }
  // Elements come in ascending order, so an equal one does not count unless it is the first.
  __device__ Acc step(Acc a, C x, int64_t i) const {
    const bool better = Max ? x > a.value : x < a.value;
    const bool first_nan = x != x && a.value == a.value;
    return better || first_nan || a.index == INT64_MAX ? Acc{x, i} : a;
  }
  __device__ void store(Acc a, char* out, char* second, int64_t at) const {
    if (out) reinterpret_cast<T*>(out)[at] = static_cast<T>(a.value);
    reinterpret_cast<int64_t*>(second)[at] = a.index;
  }
};

template <template <class, bool> class Op, bool Max>
void extreme_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::RealBool>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // A bool is compared as the byte that it is.
    using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    reduce<Element>(name, r, Op<Element, Max>());
  });
}
KERNEL_FOR(amax, [](const Reduction& r) { extreme_kernel<Extreme, true>("amax", r); })
KERNEL_FOR(amin, [](const Reduction& r) { extreme_kernel<Extreme, false>("amin", r); })
KERNEL_FOR(max_index, [](const Reduction& r) { extreme_kernel<ExtremeIndex, true>("max", r); })
KERNEL_FOR(min_index, [](const Reduction& r) { extreme_kernel<ExtremeIndex, false>("min", r); })

}  // namespace
}  // namespace flambeau::cuda
