// CUDA kernels of elementwise ops of one or two tensors that are no rows, and where.
#include <cmath>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/gelu.h"

namespace flambeau::cuda {
namespace {

template <class T>
struct Where {
  __device__ T operator()(bool condition, T a, T b) const { return condition ? a : b; }
};

void where_kernel(const TensorIter& iter) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    elementwise<T, bool, T, T>("where", iter, Where<T>{});
  });
}
KERNEL_FOR(where, where_kernel)

template <class C>
struct Clamp {
  __device__ C operator()(C x, C low, C high) const {
    return math::minimum(math::maximum(x, low), high);
  }
};

void clamp_kernel(const TensorIter& iter) {
  dispatch<dtypes::Real>("clamp", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T, T, T>("clamp", iter, Clamp<ComputeType<T>>{});
  });
}
KERNEL_FOR(clamp, clamp_kernel)

template <class C>
struct Abs {
  __device__ auto operator()(C x) const {
    if constexpr (std::is_same_v<C, bool>) {
      return x;
    } else {
      return math::abs(x);
    }
  }
};

void abs_kernel(const TensorIter& iter) {
  dispatch<dtypes::All>("abs", iter.dtypes[1], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    if constexpr (is_complex_type<T>) {
      elementwise<typename T::value_type, T>("abs", iter, Abs<T>{});
    } else {
      elementwise<T, T>("abs", iter, Abs<ComputeType<T>>{});
    }
  });
}
KERNEL_FOR(abs, abs_kernel)

template <class T>
struct Not {
  __device__ T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>) {
      return !x;
    } else {
      return static_cast<T>(~x);
    }
  }
};

void bitwise_not_kernel(const TensorIter& iter) {
  dispatch<dtypes::IntegralBool>("bitwise_not", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T>("bitwise_not", iter, Not<T>{});
  });
}
KERNEL_FOR(bitwise_not, bitwise_not_kernel)

template <class C>
struct AddScaled {
  C factor;
  __device__ C operator()(C a, C b) const { return math::plus(a, math::times(factor, b)); }
};

void add_scaled_kernel(const TensorIter& iter, const Scalar& alpha) {
  dispatch<dtypes::All>("add", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    elementwise<T, T, T>("add", iter, AddScaled<C>{number_as<C>(alpha)});
  });
}
KERNEL_FOR(add_scaled, add_scaled_kernel)

// To `decimals` digits: by `scale` up, down, or not at all.
template <class C>
struct Round {
  C scale;
  int direction;
  __device__ C operator()(C x) const {
    if constexpr (std::is_floating_point_v<C>) {
      if (direction > 0) return math::rint(x * scale) / scale;
      if (direction < 0) return math::rint(x / scale) * scale;
    }
    return math::rint(x);
  }
};

void round_kernel(const TensorIter& iter, int64_t decimals) {
  dispatch<dtypes::Real>("round", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    Round<C> round{C(1), decimals > 0 ? 1 : decimals < 0 ? -1 : 0};
    if constexpr (std::is_floating_point_v<C>) {
      round.scale = static_cast<C>(std::pow(10.0, std::abs(static_cast<double>(decimals))));
    }
    elementwise<T, T>("round", iter, round);
  });
}
KERNEL_FOR(round, round_kernel)

template <class C>
struct NanToNum {
  C nan, up, down;
  __device__ C operator()(C x) const {
    return x != x ? nan : math::isinf(x) ? (x > 0 ? up : down) : x;
  }
};

void nan_to_num_kernel(const TensorIter& iter, double nan, double posinf, double neginf) {
  dispatch<dtypes::Floating>("nan_to_num", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    elementwise<T, T>(
        "nan_to_num", iter,
        NanToNum<C>{static_cast<C>(nan), static_cast<C>(posinf), static_cast<C>(neginf)});
  });
}
KERNEL_FOR(nan_to_num, nan_to_num_kernel)

template <class C>
struct Gelu {
  bool tanh_form;
  __device__ C operator()(C x) const { return tanh_form ? math::gelu_tanh(x) : math::gelu(x); }
};

void gelu_kernel(const TensorIter& iter, bool tanh_form) {
  dispatch<dtypes::Floating>("gelu", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T>("gelu", iter, Gelu<ComputeType<T>>{tanh_form});
  });
}
KERNEL_FOR(gelu, gelu_kernel)

template <class C>
struct GeluGradient {
  bool tanh_form;
  __device__ C operator()(C g, C x) const {
    return g * (tanh_form ? math::gelu_tanh_slope(x) : math::gelu_slope(x));
  }
};

void gelu_backward_kernel(const TensorIter& iter, bool tanh_form) {
  dispatch<dtypes::Floating>("gelu_backward", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T, T>("gelu_backward", iter, GeluGradient<ComputeType<T>>{tanh_form});
  });
}
KERNEL_FOR(gelu_backward, gelu_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
