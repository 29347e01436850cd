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
#elif defined(__clang__) && !defined(__FLT16_MAX__)  // clang 14 has no _Float16 on x86
  Half(float value) : bits(rounded(std::bit_cast<uint32_t>(value))) {}  // NOLINT
  operator float() const {                                              // NOLINT
    const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude < 0x400u) {  // subnormal: a multiple of 2^-24
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return sign ? -value : value;
    }
    const uint32_t exponent = magnitude < 0x7c00u ? 0x38000000u : 0x70000000u;
    return std::bit_cast<float>(sign | ((magnitude << 13) + exponent));
  }

 private:
  static uint16_t rounded(uint32_t word) {  // to nearest even, as the hardware does
    const uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
    uint32_t half = 0;
    if (magnitude > 0x7f800000u)
      half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    else if (magnitude >= 0x477ff000u)
      half = 0x7c00u;
    else if (magnitude < 0x38800000u)  // the last bit of .5 + x is 2^-24
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + .5f) - 0x3f000000u;
    else
      half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    return static_cast<uint16_t>(sign | half);
  }
#else
  Half(float value)  // NOLINT(google-explicit-constructor)
      : bits(std::bit_cast<uint16_t>(static_cast<_Float16>(value))) {}
  operator float() const {  // NOLINT(google-explicit-constructor)
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
#endif
};

}  // namespace flambeau
