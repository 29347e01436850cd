// CUDA kernels that read and write elements that index tensors name. An index outside its
// dimension is reported (see fault.h) and its element is left alone. Writes that combine are
// atomic, and the order of several to one place is not defined; where the same result is demanded
// of every run, they are sorted by their targets first.
#include "flambeau/kernels/indexing.h"

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/index/radix_sort.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cuda {
namespace {

// The byte offset of a checked index, or -1.
struct CheckedIndex {
  IndexedDim at;
  FaultPlace fault;
  __device__ int64_t operator()(const char* index_at) const {
    const int64_t given = *reinterpret_cast<const int64_t*>(index_at);
    const int64_t index = at.from_end && given < 0 ? given + at.size : given;
    if (index >= 0 && index < at.size) return index * at.stride;
    report(fault, FaultKind::index, given, at.dim, at.size);
    return -1;
  }
};
// One that was made by index_offsets.
struct ReadyOffset {
  __device__ int64_t operator()(const char* at) const {
    return *reinterpret_cast<const int64_t*>(at);
  }
};

template <int N, class Body>
__device__ void for_elements(const Strided<N>& s, const Body& body) {
  const uint32_t base = blockIdx.x * (block_size * strided_unroll) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < strided_unroll; ++u) {
    const uint32_t i = base + u * block_size;
    if (i < s.numel) {
      char* at[N];
      s.place(i, at);
      body(at);
    }
  }
}

template <int N, class... Params, class... Args>
void launch_chunks(const char* op, const TensorIter& iter, void (*kernel)(Strided<N>, Params...),
                   const Args&... args) {
  if (iter.numel == 0) return;
  const DeviceGuard guard(iter.device.index);
  for_each_chunk(iter, [&](const TensorIter& chunk) {
    launch(op, kernel, blocks_for(chunk.numel, block_size * strided_unroll), block_size,
           Strided<N>(chunk), args...);
  });
}

CheckedIndex checked(const TensorIter& iter, const IndexedDim& at) {
  return {at, fault_of(iter.device.index)};
}

__global__ void __launch_bounds__(block_size)
    offsets_kernel(const __grid_constant__ Strided<2> s, CheckedIndex index, bool add) {
  for_elements(s, [&](char** at) {
    const int64_t offset = max(index(at[1]), int64_t{0});
    int64_t& out = *reinterpret_cast<int64_t*>(at[0]);
    out = add ? out + offset : offset;
  });
}

void index_offsets_kernel(const TensorIter& iter, const IndexedDim& at, bool add) {
  launch_chunks<2>("index", iter, offsets_kernel, checked(iter, at), add);
}
KERNEL_FOR(index_offsets, index_offsets_kernel)

// --- Reading -------------------------------------------------------------------------------------

template <class T, class Place>
__global__ void __launch_bounds__(block_size)
    read_kernel(const __grid_constant__ Strided<3> s, Place place) {
  for_elements(s, [&](char** at) {
    const int64_t offset = place(at[2]);
    *reinterpret_cast<T*>(at[0]) = offset < 0 ? T() : *reinterpret_cast<const T*>(at[1] + offset);
  });
}

template <class Place>
void read_at(const char* op, const TensorIter& iter, const Place& place) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    launch_chunks<3>(op, iter, read_kernel<Stored<typename decltype(tag)::type>, Place>, place);
  });
}
KERNEL_FOR(index_read, [](const TensorIter& iter) { read_at("index", iter, ReadyOffset()); })
KERNEL_FOR(gather, [](const TensorIter& iter, const IndexedDim& at) {
  read_at("gather", iter, checked(iter, at));
})

// --- Writing -------------------------------------------------------------------------------------

template <class T, class Place>
__global__ void __launch_bounds__(block_size)
    assign_kernel(const __grid_constant__ Strided<3> s, Place place) {
  for_elements(s, [&](char** at) {
    const int64_t offset = place(at[2]);
    if (offset >= 0) *reinterpret_cast<T*>(at[0] + offset) = *reinterpret_cast<const T*>(at[1]);
  });
}

template <class T>
__device__ T combined(WriteMode mode, T there, T value) {
  using C = ComputeType<T>;
  const C a = static_cast<C>(there), b = static_cast<C>(value);
  if (mode == WriteMode::add) return static_cast<T>(math::plus(a, b));
  if (mode == WriteMode::multiply) return static_cast<T>(math::times(a, b));
  if constexpr (!is_complex_type<T>) {
    // NaN wins, as in maximum().
    return static_cast<T>(mode == WriteMode::maximum ? math::maximum(a, b) : math::minimum(a, b));
  }
  return there;
}

// Compares and swaps words until nobody came between. Bytes are changed within their word.
template <class T>
__device__ void combine(WriteMode mode, T* at, T value) {
  if constexpr (sizeof(T) == 1) {
    const auto address = reinterpret_cast<uintptr_t>(at);
    auto* word = reinterpret_cast<unsigned*>(address & ~uintptr_t{3});
    const int shift = static_cast<int>(address & 3) * 8;
    unsigned seen = *word;
    for (;;) {
      const auto there = std::bit_cast<T>(static_cast<uint8_t>(seen >> shift));
      const unsigned fresh = std::bit_cast<uint8_t>(combined(mode, there, value));
      const unsigned before = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | fresh << shift);
      if (before == seen) return;
      seen = before;
    }
  } else {
    using Word =
        std::conditional_t<sizeof(T) == 2, unsigned short,
                           std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>>;
    auto* word = reinterpret_cast<Word*>(at);
    Word seen = *word;
    for (;;) {
      T there;
      memcpy(&there, &seen, sizeof there);
      const T result = combined(mode, there, value);
      Word fresh;
      memcpy(&fresh, &result, sizeof fresh);
      const Word before = atomicCAS(word, seen, fresh);
      if (before == seen) return;
      seen = before;
    }
  }
}

template <class T>
__device__ void write_combined(WriteMode mode, T* at, T value) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (mode == WriteMode::add) {
      atomicAdd(at, value);
      return;
    }
  }
  if constexpr (is_complex_type<T> && sizeof(T) == 16) {  // only adds come here
    auto* parts = reinterpret_cast<typename T::value_type*>(at);
    atomicAdd(parts, value.real());
    atomicAdd(parts + 1, value.imag());
  } else {
    combine(mode, at, value);
  }
}

template <class T, class Place>
__global__ void __launch_bounds__(block_size)
    combine_kernel(const __grid_constant__ Strided<3> s, Place place, WriteMode mode) {
  for_elements(s, [&](char** at) {
    const int64_t offset = place(at[2]);
    if (offset >= 0) {
      write_combined(mode, reinterpret_cast<T*>(at[0] + offset),
                     *reinterpret_cast<const T*>(at[1]));
    }
  });
}

// --- Writing in a fixed order --------------------------------------------------------------------

// Addresses have fewer bits than this; the largest key stands for an index that is out of range.
constexpr int address_bits = 57;
constexpr uint64_t nowhere = (uint64_t{1} << address_bits) - 1;

template <class Place>
__global__ void __launch_bounds__(block_size)
    list_targets(const __grid_constant__ Strided<3> s, Place place, uint64_t* targets,
                 uint32_t* elements) {
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  char* at[3];
  s.place(i, at);
  const int64_t offset = place(at[2]);
  targets[i] = offset < 0 ? nowhere : reinterpret_cast<uint64_t>(at[0] + offset);
  elements[i] = i;
}

// The first of the elements that go to one place combines them all, in their order.
template <class T>
__global__ void __launch_bounds__(block_size)
    combine_sorted(const __grid_constant__ Strided<3> s, const uint64_t* targets,
                   const uint32_t* elements, WriteMode mode) {
  using C = ComputeType<T>;
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  const uint64_t place = targets[i];
  if (place == nowhere || (i > 0 && targets[i - 1] == place)) return;
  T* to = reinterpret_cast<T*>(place);
  C result = static_cast<C>(*to);
  for (uint32_t j = i; j < s.numel && targets[j] == place; ++j) {
    char* at[3];
    s.place(elements[j], at);
    const C value = static_cast<C>(*reinterpret_cast<const T*>(at[1]));
    result = mode == WriteMode::add ? math::plus(result, value) : math::times(result, value);
  }
  *to = static_cast<T>(result);
}

// The last of the elements that go to one place is written.
template <class T>
__global__ void __launch_bounds__(block_size)
    assign_sorted(const __grid_constant__ Strided<3> s, const uint64_t* targets,
                  const uint32_t* elements) {
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  const uint64_t place = targets[i];
  if (place == nowhere || (i + 1 < s.numel && targets[i + 1] == place)) return;
  char* at[3];
  s.place(elements[i], at);
  *reinterpret_cast<T*>(place) = *reinterpret_cast<const T*>(at[1]);
}

template <class Place>
void write_sorted(const char* op, const TensorIter& iter, const Place& place, WriteMode mode) {
  if (iter.numel == 0) return;
  const int device = iter.device.index;
  const DeviceGuard guard(device);
  for_each_chunk(iter, [&](const TensorIter& chunk) {
    const Strided<3> s(chunk);
    const unsigned blocks = blocks_for(chunk.numel, block_size);
    const Workspace keys(2 * chunk.numel * sizeof(uint64_t), device);
    const Workspace values(2 * chunk.numel * sizeof(uint32_t), device);
    auto* targets = keys.get<uint64_t>();
    auto* elements = values.get<uint32_t>();
    launch(op, list_targets<Place>, blocks, block_size, s, place, targets, elements);
    sort_pairs(op, device, static_cast<const uint64_t*>(targets), targets + chunk.numel,
               static_cast<const uint32_t*>(elements), elements + chunk.numel, 1, chunk.numel,
               address_bits);
    const uint64_t* sorted = targets + chunk.numel;
    const uint32_t* from = elements + chunk.numel;
    if (mode == WriteMode::assign) {
      return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
        launch(op, assign_sorted<Stored<typename decltype(tag)::type>>, blocks, block_size, s,
               sorted, from);
      });
    }
    dispatch<dtypes::Floating | dtypes::Complex>(op, iter.dtypes[0], [&](auto tag) {
      launch(op, combine_sorted<Stored<typename decltype(tag)::type>>, blocks, block_size, s,
             sorted, from, mode);
    });
  });
}

template <class Place>
void write_at(const char* op, const TensorIter& iter, const Place& place, WriteMode mode) {
  const bool deterministic = math_mode.deterministic.load(std::memory_order_relaxed);
  if (mode == WriteMode::assign) {
    if (deterministic) return write_sorted(op, iter, place, mode);
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      launch_chunks<3>(op, iter, assign_kernel<Stored<typename decltype(tag)::type>, Place>, place);
    });
  }
  // Integers, and the smallest or largest of numbers, are the same in any order.
  const bool ordered = mode == WriteMode::add || mode == WriteMode::multiply;
  if (deterministic && ordered && (dtypes::Floating | dtypes::Complex).has(iter.dtypes[0])) {
    return write_sorted(op, iter, place, mode);
  }
  CHECK(iter.dtypes[0] != DType::complex128 || mode == WriteMode::add, NotImplementedError,
        "\"{}\" with this reduction is not implemented for '{}' on CUDA", op,
        dtype_legacy_name(iter.dtypes[0]));
  dispatch<dtypes::All>(op, iter.dtypes[0], [&](auto tag) {
    launch_chunks<3>(op, iter, combine_kernel<Stored<typename decltype(tag)::type>, Place>, place,
                     mode);
  });
}
KERNEL_FOR(index_write, [](const TensorIter& iter, WriteMode mode) {
  write_at("index_put", iter, ReadyOffset(), mode);
})
KERNEL_FOR(scatter, [](const TensorIter& iter, const IndexedDim& at, WriteMode mode) {
  write_at("scatter", iter, checked(iter, at), mode);
})

}  // namespace
}  // namespace flambeau::cuda
