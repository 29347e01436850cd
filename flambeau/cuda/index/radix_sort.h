// Sorting of unsigned keys that carry a value each, by CCCL's radix sort: stable, and the same from
// run to run.
#pragma once

#include <cstdint>

namespace flambeau::cuda {

// Sorts `slices` slices of `size` pairs each by the lowest `bits` bits of their keys. The device
// must be current.
template <class Key>
void sort_pairs(const char* op, int device, const Key* keys, Key* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t slices, int64_t size,
                int bits);

extern template void sort_pairs(const char*, int, const uint32_t*, uint32_t*, const uint32_t*,
                                uint32_t*, int64_t, int64_t, int);
extern template void sort_pairs(const char*, int, const uint64_t*, uint64_t*, const uint32_t*,
                                uint32_t*, int64_t, int64_t, int);

}  // namespace flambeau::cuda
