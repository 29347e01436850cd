// Memory for kernels, from where tensors have theirs: it is kept when it is given back, where the
// system would take its pages and clear new ones at the next call.
#pragma once

#include <cstdint>
#include <memory>

#include "flambeau/tensor/storage.h"

namespace flambeau::cpu {

struct ToAllocator {
  size_t bytes = 0;
  void operator()(void* data) const { allocator(DeviceType::cpu).free(data, bytes, Device{}); }
};
template <class T>
using Memory = std::unique_ptr<T[], ToAllocator>;

// For n elements, which hold anything. More than can be counted in bytes are refused as others are.
template <class T>
Memory<T> memory_for(int64_t n) {
  const bool countable = n <= INT64_MAX / static_cast<int64_t>(sizeof(T));
  const size_t bytes = countable ? static_cast<size_t>(n) * sizeof(T) : SIZE_MAX;
  void* data = allocator(DeviceType::cpu).allocate(bytes, Device{});
  return Memory<T>(static_cast<T*>(data), ToAllocator{bytes});
}

}  // namespace flambeau::cpu
