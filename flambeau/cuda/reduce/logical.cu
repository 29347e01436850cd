// CUDA kernels of any, all and count_nonzero.
#include "flambeau/cuda/reduce/reduce.cuh"

namespace flambeau::cuda {
namespace {

template <class T, bool Any>
struct AnyOrAll {
  using Acc = int;
  __device__ int start() const { return !Any; }
  __device__ int merge(int a, int b) const { return Any ? a | b : a & b; }
  __device__ int step(int a, ComputeType<T> x, int64_t) const { return merge(a, math::to_bool(x)); }
  __device__ void store(int a, char* out, char*, int64_t at) const {
    reinterpret_cast<bool*>(out)[at] = a != 0;
  }
};

template <class T>
struct CountNonzero : Adding<CountNonzero<T>, int64_t, int64_t> {
  __device__ int64_t value(ComputeType<T> x) const { return math::to_bool(x); }
};

// Calls body(TypeTag<T>): signs do not matter, so signed integers share the code of unsigned ones.
template <class Body>
void dispatch_unsigned(const char* name, DType dtype, const Body& body) {
  dispatch<dtypes::All>(name, dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    if constexpr (std::is_same_v<T, bool>) {
      body(TypeTag<uint8_t>());
    } else if constexpr (std::is_integral_v<T>) {
      body(TypeTag<std::make_unsigned_t<T>>());
    } else {
      body(TypeTag<T>());
    }
  });
}

void any_kernel(const Reduction& r) {
  dispatch_unsigned("any", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T>("any", r, AnyOrAll<T, true>());
  });
}
KERNEL_FOR(any, any_kernel)

void all_kernel(const Reduction& r) {
  dispatch_unsigned("all", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T>("all", r, AnyOrAll<T, false>());
  });
}
KERNEL_FOR(all, all_kernel)

void count_nonzero_kernel(const Reduction& r) {
  dispatch_unsigned("count_nonzero", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce<T>("count_nonzero", r, CountNonzero<T>());
  });
}
KERNEL_FOR(count_nonzero, count_nonzero_kernel)

}  // namespace
}  // namespace flambeau::cuda
