// From the words of the CPU generator to uniform numbers, as PyTorch makes them.
#pragma once

#include <bit>
#include <cstdint>

#include "flambeau/tensor/generator.h"

namespace flambeau::cpu {

// `count` elements, `stride` elements apart.
template <class T>
struct Run {
  T* data;
  int64_t stride;
  int64_t count;
};

inline float unit_float(uint32_t word) { return static_cast<float>(word & 0xffffffu) * 0x1p-24f; }
// The low 53 bits of `word` over 2^53. The halves become doubles by way of their bit patterns,
// since AVX2 has no conversion of 64-bit integers; every step is exact.
inline double unit_double(uint64_t word) {
  double low = std::bit_cast<double>(uint64_t{0x4330000000000000} | (word & 0xffffffffu));
  double high = std::bit_cast<double>(uint64_t{0x4530000000000000} | (word >> 32 & 0x1fffffu));
  return (high - (0x1p84 + 0x1p52) + low) * 0x1p-53;
}
inline double next_unit_double(CpuGenerator& generator) {
  return unit_double(generator.next_uint64());
}

}  // namespace flambeau::cpu
