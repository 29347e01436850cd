// Products of float32 matrices on tensor cores, which multiply TF32 numbers of 11 bits. A number of
// 24 bits is the sum of two such but for its last bit; three of the four products of those parts
// are as near as float32 is, one alone is TF32. Needs compute capability 8.0.
#pragma once

#include <cstdint>

namespace flambeau::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "flambeau/cuda/nn/tensor_cores.cuh needs GPUs of compute capability 8.0 or later"
#endif

// An operand's numbers in one thread, in two parts. `low` is not used where `high` is enough.
template <int Count>
struct Parts {
  uint32_t high[Count], low[Count];
};

template <bool Exact>
__device__ __forceinline__ void take_apart(float x, uint32_t& high, uint32_t& low) {
  if constexpr (Exact) {
    // Rounded to the nearest. The instruction that does so is four, which look for infinities and
    // NaN; here those end in the low part.
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    // What rounding leaves has at most 12 bits; the hardware leaves out the last.
    low = __float_as_uint(x - __uint_as_float(high));
  } else {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
  }
}

// c += a b for one tile of 16 x 8 and a depth of 8, spread over the threads of a warp: with
// `group` = lane / 4 and `place` = lane % 4 a thread holds
//   a: (group, place), (group + 8, place), (group, place + 4), (group + 8, place + 4)
//   b: (place, group), (place + 4, group)
//   c: (group, 2 place), (group, 2 place + 1), (group + 8, 2 place), (group + 8, 2 place + 1)
__device__ __forceinline__ void multiply_tile(float (&c)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Copies up to Bytes from global to shared memory without waiting; the rest of Bytes is zeros.
template <int Bytes>
__device__ __forceinline__ void copy_async(float* to, const float* from, int bytes) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(bytes)
                 : "memory");
  }
}
// Ends a group of copies; waits until all groups but the latest `Left` have arrived.
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Left>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

}  // namespace flambeau::cuda
