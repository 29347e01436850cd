// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), for host and
// device: the four words of one block of a thread's stream, in ten rounds.
#pragma once

#include <cstdint>

#include "flambeau/tensor/half.h"

namespace flambeau::cuda {

struct PhiloxWords {
  uint32_t x, y, z, w;
};

FLAMBEAU_DEVICE inline PhiloxWords philox_block(uint64_t seed, uint64_t position, uint64_t thread) {
  PhiloxWords c{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                static_cast<uint32_t>(thread), static_cast<uint32_t>(thread >> 32)};
  auto key_x = static_cast<uint32_t>(seed), key_y = static_cast<uint32_t>(seed >> 32);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c.x, b = uint64_t{0xCD9E8D57} * c.z;
    c = {static_cast<uint32_t>(b >> 32) ^ c.y ^ key_x, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c.w ^ key_y, static_cast<uint32_t>(a)};
    key_x += 0x9E3779B9;
    key_y += 0xBB67AE85;
  }
  return c;
}

}  // namespace flambeau::cuda
