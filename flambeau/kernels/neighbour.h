// Neighbours of numbers, found among the bit patterns: of half precision, as a row computes in
// float, whose neighbours are others, and without the C library's branches.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "flambeau/tensor/half.h"

namespace flambeau::math {

// The next number from a towards b, both of 16 bits; infinity is the pattern of the format's.
FLAMBEAU_DEVICE inline uint16_t next_pattern(uint16_t a, uint16_t b, uint16_t infinity) {
  const int size_a = a & 0x7fff, size_b = b & 0x7fff;
  const bool is_negative = (a & 0x8000) != 0;
  const int from = is_negative ? -size_a : size_a;
  const int to = (b & 0x8000) != 0 ? -size_b : size_b;
  // Choices one after the other, which become vector code.
  const int moved = (from < to) == is_negative ? a - 1 : a + 1;
  const int next = size_a == 0 ? (b & 0x8000) | 1 : moved;
  const int ordered = from == to ? b : next;
  const int known = size_b > infinity ? b : ordered;  // NaN
  return static_cast<uint16_t>(size_a > infinity ? a : known);
}

// The next number from a towards b, by choices that become vector code.
template <class Bits, class T>
inline T next_of_bits(T a, T b) {
  const T zero_or_first = std::bit_cast<T>(Bits{1});  // the least size there is
  const Bits bits = std::bit_cast<Bits>(a);
  using Words = std::make_unsigned_t<Bits>;                          // which may wrap
  const Words step = (a < b) == (bits >= 0) ? Words{1} : ~Words{0};  // away from zero or to it
  const T moved = std::bit_cast<T>(static_cast<Words>(static_cast<Words>(bits) + step));
  const T from_zero = b > T(0) ? zero_or_first : -zero_or_first;
  const T next = a == T(0) ? from_zero : moved;
  const T ordered = a == b ? b : next;
  const T first = a != a ? a : ordered;
  return b != b ? b : first;
}

}  // namespace flambeau::math
