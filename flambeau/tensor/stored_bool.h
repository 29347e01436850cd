// An element of a bool tensor.
//
// Note [Stored bool]
// To the compiler, a bool in memory is 0 or 1 and nothing else. The bytes of a bool tensor may be
// anything: NumPy, a buffer, a file, or a tensor of another dtype over the same memory wrote them,
// perhaps after the bool tensor was made. So no code of ours reads memory as bool. Elements are
// bytes, true where they are not zero, and become bool as they are loaded, as half precision
// becomes float (ComputeType); what is stored is 0 or 1. Copies take bytes as they are.
#pragma once

#include <cstdint>

namespace flambeau {

#if defined(__CUDACC__)
using StoredBool = bool;  // which the device's compiler reads as a byte that it compares with zero
#else
struct StoredBool {
  uint8_t byte = 0;

  StoredBool() = default;
  StoredBool(bool value) : byte(value) {}      // NOLINT(google-explicit-constructor)
  operator bool() const { return byte != 0; }  // NOLINT(google-explicit-constructor)
};
#endif

}  // namespace flambeau
