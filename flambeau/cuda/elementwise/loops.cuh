// Elementwise loops on the device. Operands that lie densely in one dimension are read 16 bytes at
// a time; everything else goes through a loop that finds each element by 32-bit division, and
// iterations too large for that are cut on the host. Numbers travel inside the kernel's arguments.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "flambeau/cuda/runtime/launch.cuh"
#include "flambeau/cuda/types.cuh"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau::cuda {

// Division of 31-bit numbers by a divisor known on the host: a multiplication and a shift.
struct Divider {
  uint32_t divisor = 1, factor = 1, shift = 0;

  Divider() = default;
  explicit Divider(uint32_t by) : divisor(by) {
    while (shift < 32 && (uint64_t{1} << shift) < by) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - by)) / by + 1);
  }
  __device__ uint32_t divide(uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// What the strided loop needs of a TensorIter, by value.
template <int N>
struct Strided {
  static constexpr int max_dims = 16;
  int ndim;
  uint32_t numel;
  Divider sizes[max_dims];
  int32_t strides[max_dims][N];  // negative where an operand is read backwards
  char* data[N];
  bool is_number[N];
  alignas(16) char numbers[N][16];

  explicit Strided(const TensorIter& iter)
      : ndim(iter.ndim), numel(static_cast<uint32_t>(iter.numel)) {
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = Divider(static_cast<uint32_t>(iter.shape[d]));
      for (int k = 0; k < N; ++k) strides[d][k] = static_cast<int32_t>(iter.strides[k][d]);
    }
    for (int k = 0; k < N; ++k) {
      data[k] = iter.data[k];
      is_number[k] = iter.is_number[k];
      if (is_number[k]) std::memcpy(numbers[k], iter.numbers[k], 16);
    }
  }

  // Where the operands' element i lies.
  __device__ void place(uint32_t i, char** at) const {
    int32_t offsets[N] = {};
    for (int d = 0; d < ndim - 1; ++d) {
      const uint32_t rest = sizes[d].divide(i);
      const auto index = static_cast<int32_t>(i - rest * sizes[d].divisor);
#pragma unroll
      for (int k = 0; k < N; ++k) offsets[k] += index * strides[d][k];
      i = rest;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      offsets[k] += static_cast<int32_t>(i) * strides[ndim - 1][k];
      at[k] = (is_number[k] ? const_cast<char*>(numbers[k]) : data[k]) + offsets[k];
    }
  }
};

// Whether all offsets, in either direction, fit 32 bits.
inline bool fits_32bit(const TensorIter& iter) {
  for (int k = 0; k < iter.count; ++k) {
    int64_t reach = 1;
    for (int d = 0; d < iter.ndim; ++d) reach += (iter.shape[d] - 1) * std::abs(iter.strides[k][d]);
    if (reach > INT32_MAX) return false;
  }
  return iter.numel <= INT32_MAX;
}

// Calls body(chunk) for chunks of the iteration whose offsets fit 32 bits and which have few enough
// dimensions; nearly always one.
template <class Body>
void for_each_chunk(const TensorIter& iter, const Body& body) {
  const int last = iter.ndim - 1;
  TensorIter chunk = iter;
  const auto advance = [&](int dim, int64_t steps) {
    for (int k = 0; k < iter.count; ++k) {
      if (!iter.is_number[k]) chunk.data[k] = iter.data[k] + steps * iter.strides[k][dim];
    }
  };
  if (iter.ndim > Strided<1>::max_dims) {
    --chunk.ndim;
    chunk.numel = iter.numel / iter.shape[last];
    for (int64_t i = 0; i < iter.shape[last]; ++i) {
      advance(last, i);
      for_each_chunk(chunk, body);
    }
  } else if (fits_32bit(iter)) {
    body(iter);
  } else {  // halve the dimension that reaches furthest
    int widest = 0;
    int64_t reach = -1;
    for (int d = 0; d < iter.ndim; ++d) {
      int64_t here = iter.shape[d];
      for (int k = 0; k < iter.count; ++k)
        here = std::max(here, iter.shape[d] * std::abs(iter.strides[k][d]));
      if (iter.shape[d] > 1 && here > reach) reach = here, widest = d;
    }
    const int64_t half = iter.shape[widest] / 2;
    chunk.shape[widest] = half;
    chunk.numel = iter.numel / iter.shape[widest] * half;
    for_each_chunk(chunk, body);
    chunk.shape[widest] = iter.shape[widest] - half;
    chunk.numel = iter.numel - chunk.numel;
    advance(widest, half);
    for_each_chunk(chunk, body);
  }
}

template <class T>
__device__ inline ComputeType<T> load(const char* at) {
  return static_cast<ComputeType<T>>(*reinterpret_cast<const T*>(at));
}

template <class Out, class F, class... In, size_t... I>
__device__ inline void apply_at(const F& f, char** at, std::index_sequence<I...>) {
  *reinterpret_cast<Out*>(at[0]) = static_cast<Out>(f(load<In>(at[1 + I])...));
}

constexpr int strided_unroll = 4;

template <class Out, class F, class... In>
__global__ void __launch_bounds__(block_size)
    strided_kernel(const __grid_constant__ Strided<1 + sizeof...(In)> s, F f) {
  const uint32_t base = blockIdx.x * (block_size * strided_unroll) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < strided_unroll; ++u) {
    const uint32_t i = base + u * block_size;
    if (i < s.numel) {
      char* at[1 + sizeof...(In)];
      s.place(i, at);
      apply_at<Out, F, In...>(f, at, std::index_sequence_for<In...>());
    }
  }
}

// --- Dense operands ----------------------------------------------------------------------------

template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T values[N];
};

// The inputs of the dense loop: arrays, or one value for all elements.
template <int N>
struct DenseInputs {
  const char* data[N];  // null if the value is a number
  bool uniform[N];
  alignas(16) char numbers[N][16];

  explicit DenseInputs(const TensorIter& iter) {
    for (int k = 0; k < N; ++k) {
      data[k] = iter.is_number[k + 1] ? nullptr : iter.data[k + 1];
      uniform[k] = iter.strides[k + 1][0] == 0;
      if (!data[k]) std::memcpy(numbers[k], iter.numbers[k + 1], 16);
    }
  }

  template <class T, int Width>
  __device__ Vector<T, Width> read(int k, int64_t at, int64_t end) const {
    Vector<T, Width> v;
    const T* array = reinterpret_cast<const T*>(data[k]);
    if (uniform[k]) {
      const T value = array ? *array : *reinterpret_cast<const T*>(numbers[k]);
#pragma unroll
      for (int j = 0; j < Width; ++j) v.values[j] = value;
    } else if (at + Width <= end) {
      v = *reinterpret_cast<const Vector<T, Width>*>(array + at);
    } else {
#pragma unroll
      for (int j = 0; j < Width; ++j) v.values[j] = at + j < end ? array[at + j] : T();
    }
    return v;
  }
};

template <class Out, int Width, class F, class... In>
__device__ inline Vector<Out, Width> apply_vectors(const F& f, const Vector<In, Width>&... x) {
  Vector<Out, Width> result;
#pragma unroll
  for (int j = 0; j < Width; ++j) {
    result.values[j] = static_cast<Out>(f(static_cast<ComputeType<In>>(x.values[j])...));
  }
  return result;
}

template <class Out, int Width, class... In, class F, size_t... I>
__device__ inline Vector<Out, Width> apply_dense(const F& f, const DenseInputs<sizeof...(In)>& in,
                                                 int64_t at, int64_t end,
                                                 std::index_sequence<I...>) {
  return apply_vectors<Out, Width>(f, in.template read<In, Width>(I, at, end)...);
}

template <class Out, int Width, class F, class... In>
__global__ void __launch_bounds__(block_size)
    dense_kernel(int64_t numel, Out* out, F f,
                 const __grid_constant__ DenseInputs<sizeof...(In)> in) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x) * Width;
  if (at >= numel) return;
  const auto result =
      apply_dense<Out, Width, In...>(f, in, at, numel, std::index_sequence_for<In...>());
  if (at + Width <= numel) {
    *reinterpret_cast<Vector<Out, Width>*>(out + at) = result;
  } else {
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      if (at + j < numel) out[at + j] = result.values[j];
    }
  }
}

// Elements a thread of the dense loop takes: 16 bytes of the widest type, at most 8.
template <class... T>
constexpr int dense_width = std::min<int>(8, 16 / static_cast<int>(std::max({sizeof(T)...})));

// Whether all operands are dense or one value, and start where vectors may.
template <class Out, class... In>
bool is_dense(const TensorIter& iter) {
  constexpr int width = dense_width<Out, In...>;
  constexpr int64_t sizes[] = {sizeof(Out), sizeof(In)...};
  if (iter.ndim != 1 || iter.strides[0][0] != sizes[0]) return false;
  for (int k = 0; k < iter.count; ++k) {
    if (iter.strides[k][0] == 0 && k > 0) continue;
    if (iter.strides[k][0] != sizes[k]) return false;
    if (reinterpret_cast<uintptr_t>(iter.data[k]) % (sizes[k] * width) != 0) return false;
  }
  return true;
}

// out[i] = f(in[i]...): one output, the types given, f over their compute types.
template <class Out, class... In, class F>
void elementwise(const char* op, const TensorIter& iter, const F& f) {
  if (iter.numel == 0) return;
  const DeviceGuard guard(iter.device.index);
  if (is_dense<Out, In...>(iter)) {
    constexpr int width = dense_width<Out, In...>;
    launch(op, dense_kernel<Out, width, F, In...>, blocks_for(iter.numel, block_size * width),
           block_size, iter.numel, reinterpret_cast<Out*>(iter.data[0]), f,
           DenseInputs<sizeof...(In)>(iter));
    return;
  }
  for_each_chunk(iter, [&](const TensorIter& chunk) {
    launch(op, strided_kernel<Out, F, In...>, blocks_for(chunk.numel, block_size * strided_unroll),
           block_size, Strided<1 + sizeof...(In)>(chunk), f);
  });
}

// KERNEL_FOR(softmax, softmax_kernel) at namespace scope.
#define FLAMBEAU_JOIN_(a, b) a##b
#define FLAMBEAU_JOIN(a, b) FLAMBEAU_JOIN_(a, b)
#define KERNEL_FOR(slot, ...)                           \
  static const bool FLAMBEAU_JOIN(fill_, __COUNTER__) = \
      (::flambeau::kernels::slot.fill(DeviceType::cuda, __VA_ARGS__), true);

}  // namespace flambeau::cuda
