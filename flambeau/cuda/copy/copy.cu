// Copies within a device: between layouts, and between dtypes. A kernel is made per source dtype
// and picks the target's dtype while it runs, the same for all threads; only the conversions
// between floating types, which mixed precision is full of, have kernels of their own.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/elementwise.h"

namespace flambeau::cuda {
namespace {

template <class To, class From>
__device__ To convert_real(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // What is out of range wraps through int64, as on the CPU.
    return static_cast<To>(static_cast<int64_t>(value));
  } else if constexpr (is_reduced_type<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
__device__ To convert(From value) {
  if constexpr (is_complex_type<To> && is_complex_type<From>) {
    using R = typename To::value_type;
    return To(static_cast<R>(value.real()), static_cast<R>(value.imag()));
  } else if constexpr (is_complex_type<To>) {
    using R = typename To::value_type;
    return To(static_cast<R>(value), R(0));
  } else if constexpr (is_complex_type<From>) {
    return convert_real<To>(value.real());
  } else {
    return convert_real<To>(value);
  }
}

template <class To, class C>
struct Convert {
  __device__ To operator()(C x) const { return convert<To>(x); }
};
template <class T>
struct Same {
  __device__ T operator()(T x) const { return x; }
};

// Stores the value as an element of the dtype.
template <class From>
__device__ void store_as(DType to, char* at, ComputeType<From> value) {
#define ROW(name, type, legacy)                                            \
  if constexpr (!is_stored(DType::name)) {                                 \
    if (to == DType::name) {                                               \
      *reinterpret_cast<Stored<type>*>(at) = convert<Stored<type>>(value); \
      return;                                                              \
    }                                                                      \
  }
  FLAMBEAU_DTYPES(ROW)
#undef ROW
}

template <class From>
__global__ void __launch_bounds__(block_size)
    convert_kernel(const __grid_constant__ Strided<2> s, DType to) {
  const uint32_t base = blockIdx.x * (block_size * strided_unroll) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < strided_unroll; ++u) {
    const uint32_t i = base + u * block_size;
    if (i < s.numel) {
      char* at[2];
      s.place(i, at);
      store_as<From>(to, at[0], load<From>(at[1]));
    }
  }
}

// The conversions with kernels of their own.
template <class From, class To>
bool convert_between(const TensorIter& iter) {
  if (iter.dtypes[1] != dtype_of<From> || iter.dtypes[0] != dtype_of<To>) return false;
  elementwise<To, From>("copy_", iter, Convert<To, ComputeType<From>>{});
  return true;
}

template <class From>
void convert_from(const TensorIter& iter) {
  for_each_chunk(iter, [to = iter.dtypes[0]](const TensorIter& chunk) {
    launch("copy_", convert_kernel<From>, blocks_for(chunk.numel, block_size * strided_unroll),
           block_size, Strided<2>(chunk), to);
  });
}

void copy_kernel(const TensorIter& iter) {
  if (iter.dtypes[0] == iter.dtypes[1]) {
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      using T = Stored<typename decltype(tag)::type>;
      elementwise<T, T>("copy_", iter, Same<T>{});
    });
  }
  if (convert_between<float, Half>(iter) || convert_between<float, BFloat16>(iter) ||
      convert_between<Half, float>(iter) || convert_between<BFloat16, float>(iter)) {
    return;
  }
  if (iter.numel == 0) return;
  const DeviceGuard guard(iter.device.index);
  dispatch<dtypes::All>("copy_", iter.dtypes[1], [&](auto tag) {
    convert_from<Stored<typename decltype(tag)::type>>(iter);
  });
}
KERNEL_FOR(copy, copy_kernel)

// Note [Stored dtypes]. The formats of float8 differ in numbers only.
struct Encode {
  Float8Format format;
  __device__ uint8_t operator()(float x) const { return float8::encode(format, x); }
};
struct Decode {
  Float8Format format;
  __device__ float operator()(uint8_t code) const { return float8::decode(format, code); }
};
using Complex = DeviceComplex<float>;
struct Halve {
  __device__ ComplexHalf operator()(Complex x) const { return ComplexHalf(x); }
};
struct Widen {
  __device__ Complex operator()(ComplexHalf x) const { return x.to<Complex>(); }
};

Float8Format format_of(DType dtype) {
  Float8Format format{};
  dispatch<dtypes::Float8>("copy_", dtype, [&](auto tag) { format = decltype(tag)::type::kind; });
  return format;
}

void convert_stored_kernel(const TensorIter& iter) {
  const bool encodes = is_stored(iter.dtypes[0]);
  const DType stored = iter.dtypes[encodes ? 0 : 1], other = iter.dtypes[encodes ? 1 : 0];
  if (stored == DType::complex32) {
    return encodes ? elementwise<ComplexHalf, Complex>("copy_", iter, Halve{})
                   : elementwise<Complex, ComplexHalf>("copy_", iter, Widen{});
  }
  dispatch<dtypes::Reduced | DType::float32>("copy_", other, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (encodes) {
      elementwise<uint8_t, T>("copy_", iter, Encode{format_of(stored)});
    } else {
      elementwise<T, uint8_t>("copy_", iter, Decode{format_of(stored)});
    }
  });
}
KERNEL_FOR(convert_stored, convert_stored_kernel)

}  // namespace
}  // namespace flambeau::cuda
