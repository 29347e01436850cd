// The 16-bit floating types. They are storage: arithmetic happens in float (see ComputeType).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#define FLAMBEAU_DEVICE __host__ __device__
#else
#define FLAMBEAU_DEVICE
#endif

namespace flambeau {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  FLAMBEAU_DEVICE BFloat16(float value) {  // NOLINT(google-explicit-constructor)
    const uint32_t word = std::bit_cast<uint32_t>(value);
    // Round to nearest even; a NaN keeps its top bits and stays quiet.
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
  FLAMBEAU_DEVICE operator float() const {  // NOLINT(google-explicit-constructor)
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct Half {
  uint16_t bits = 0;

  Half() = default;
#if defined(__CUDACC__)
  FLAMBEAU_DEVICE Half(float value) : bits(__half_as_ushort(__float2half_rn(value))) {}
  FLAMBEAU_DEVICE operator float() const { return __half2float(__ushort_as_half(bits)); }
#else
  Half(float value)  // NOLINT(google-explicit-constructor)
      : bits(std::bit_cast<uint16_t>(static_cast<_Float16>(value))) {}
  operator float() const {  // NOLINT(google-explicit-constructor)
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
#endif
};

}  // namespace flambeau
