// Strides counted in other units.
#pragma once

#include <cstdint>

namespace flambeau {

// A stride `by` times as long. Along a single place, and in a tensor without elements, a stride may
// be any number and leads nowhere: what is too long there becomes the longest.
inline int64_t scaled_stride(int64_t stride, size_t by) {
  return __builtin_mul_overflow(stride, static_cast<int64_t>(by), &stride) ? INT64_MAX : stride;
}

}  // namespace flambeau
