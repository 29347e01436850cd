// Neighbours of half-precision numbers: a row computes in float, whose neighbours are others, so
// these are found among the bit patterns.
#pragma once

#include <cstdint>

#include "flambeau/tensor/half.h"

namespace flambeau::math {

// The next number from a towards b, both of 16 bits; infinity is the pattern of the format's.
FLAMBEAU_DEVICE inline uint16_t next_pattern(uint16_t a, uint16_t b, uint16_t infinity) {
  const int size_a = a & 0x7fff, size_b = b & 0x7fff;
  if (size_a > infinity) return a;  // NaN
  if (size_b > infinity) return b;
  const bool is_negative = (a & 0x8000) != 0;
  const int from = is_negative ? -size_a : size_a;
  const int to = (b & 0x8000) != 0 ? -size_b : size_b;
  if (from == to) return b;
  if (size_a == 0) return static_cast<uint16_t>((b & 0x8000) | 1);
  return static_cast<uint16_t>((from < to) == is_negative ? a - 1 : a + 1);
}

}  // namespace flambeau::math
