// Elements as unsigned keys in the same order: NaN above everything, the two zeros equal.
#pragma once

#include <cuda/std/bit>

#include "flambeau/cuda/types.cuh"

namespace flambeau::cuda {

// 64 bits for the wide types, 32 for all others.
template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
constexpr int key_bits = std::is_same_v<T, bool> ? 1 : 8 * static_cast<int>(sizeof(T));
template <class T>
constexpr SortKey<T> key_mask = static_cast<SortKey<T>>(~uint64_t{0} >> (64 - key_bits<T>));

template <class T>
__device__ inline SortKey<T> ascending_key(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? 1u : 0u;
  } else if constexpr (is_floating_type<T>) {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t,
                                    std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    const auto number = static_cast<ComputeType<T>>(value);
    if (number != number) return key_mask<T>;
    Word word;
    memcpy(&word, &value, sizeof word);
    constexpr Word sign = Word(1) << (key_bits<T> - 1);
    if (number == 0) word = 0;
    return static_cast<Word>(word & sign ? ~word : word | sign);
  } else if constexpr (std::is_signed_v<T>) {
    using Word = std::make_unsigned_t<T>;
    return static_cast<Word>(static_cast<Word>(value) ^ (Word(1) << (key_bits<T> - 1)));
  } else {
    return value;
  }
}

// With `descending` the largest comes first; equal elements keep their order either way.
template <class T>
__device__ inline SortKey<T> sort_key(T value, bool descending) {
  const SortKey<T> key = ascending_key(value);
  return descending ? key ^ key_mask<T> : key;
}

}  // namespace flambeau::cuda
