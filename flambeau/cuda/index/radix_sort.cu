// Whole slices go to the sort of the device one by one where they are long or few; many shorter
// ones go to the segmented sort, a block each.
#include "flambeau/cuda/index/radix_sort.h"

#include <algorithm>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cuda/std/iterator>

#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"

namespace flambeau::cuda {
namespace {

struct StartOf {
  int64_t size;
  __host__ __device__ int64_t operator()(int64_t slice) const { return slice * size; }
};

// CCCL's way: a first call says how much memory the second one needs.
template <class Call>
void with_memory(const char* op, int device, const Call& call) {
  size_t bytes = 0;
  check(call(nullptr, bytes), op);
  const Workspace memory(std::max<size_t>(bytes, 1), device);
  check(call(memory.get(), bytes), op);
}

}  // namespace

template <class Key>
void sort_pairs(const char* op, int device, const Key* keys, Key* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t slices, int64_t size,
                int bits) {
  const cudaStream_t stream = current_handle(device);
  if (slices <= 8 || size >= 1 << 16) {
    for (int64_t s = 0; s < slices; ++s) {
      const int64_t at = s * size;
      with_memory(op, device, [&](void* memory, size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(memory, bytes, keys + at, sorted_keys + at,
                                               values + at, sorted_values + at, size, 0, bits,
                                               stream);
      });
    }
    return;
  }
  const int64_t most = std::max<int64_t>(INT32_MAX / size, 1);
  for (int64_t first = 0; first < slices; first += most) {
    const int64_t count = std::min(most, slices - first), at = first * size;
    const auto begins =
        thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), StartOf{size});
    with_memory(op, device, [&](void* memory, size_t& bytes) {
      return cub::DeviceSegmentedRadixSort::SortPairs(
          memory, bytes, keys + at, sorted_keys + at, values + at, sorted_values + at,
          static_cast<int>(count * size), static_cast<int>(count), begins, begins + 1, 0, bits,
          stream);
    });
  }
}

template void sort_pairs(const char*, int, const uint32_t*, uint32_t*, const uint32_t*, uint32_t*,
                         int64_t, int64_t, int);
template void sort_pairs(const char*, int, const uint64_t*, uint64_t*, const uint32_t*, uint32_t*,
                         int64_t, int64_t, int);

}  // namespace flambeau::cuda
