// CPU kernels of gather and scatter, which look up an index at every element.
#include "flambeau/cpu/kernels/blocks.h"
#include "flambeau/cpu/kernels/indexing.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// The byte offset of a checked index.
inline int64_t offset_of(const char* index_at, const IndexedDim& at) {
  int64_t index = *reinterpret_cast<const int64_t*>(index_at);
  if (at.from_end && index < 0) index += at.size;
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(at.size)) [[unlikely]] {
    fail_index(*reinterpret_cast<const int64_t*>(index_at), at);
  }
  return index * at.stride;
}

// Whether every index of a row is one: the largest, counted from the smallest allowed one, is found
// without a branch.
bool all_in_range(const char* indices, int64_t step, int64_t n, const IndexedDim& at) {
  const uint64_t size = static_cast<uint64_t>(at.size), below = at.from_end ? size : 0;
  uint64_t most = 0;
  const auto check = [&](auto known_step) {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t index = *reinterpret_cast<const uint64_t*>(indices + i * known_step) + below;
      most = index > most ? index : most;
    }
  };
  step == sizeof(int64_t) ? check(std::integral_constant<int64_t, sizeof(int64_t)>()) : check(step);
  return most < size + below;
}

// Keeps a loop from becoming one over gather instructions, which are slower than single loads.
inline int64_t alone(int64_t index) {
  asm("" : "+r"(index));
  return index;
}

template <class T>
void gather_row(char** data, const int64_t* strides, int64_t n, const IndexedDim& at) {
  const auto place = [&at](int64_t index) { return index < 0 ? index + at.size : index; };
  const bool dense = strides[0] == sizeof(T) && strides[2] == sizeof(int64_t);
  if (dense && !at.from_end && at.stride == sizeof(T) && strides[1] == 0) {
    T* out = reinterpret_cast<T*>(data[0]);
    const T* in = reinterpret_cast<const T*>(data[1]);
    const int64_t* index = reinterpret_cast<const int64_t*>(data[2]);
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; ++i) out[i] = in[alone(index[i])];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = *reinterpret_cast<const int64_t*>(data[2] + i * strides[2]);
    *reinterpret_cast<T*>(data[0] + i * strides[0]) =
        *reinterpret_cast<const T*>(data[1] + i * strides[1] + place(index) * at.stride);
  }
}

void gather_kernel(const TensorIter& iter, const IndexedDim& at) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(
        iter,
        [&at](char** data, const int64_t* strides, int64_t n) {
          if (!all_in_range(data[2], strides[2], n, at)) [[unlikely]] {
            for (int64_t i = 0; i < n; ++i) offset_of(data[2] + i * strides[2], at);  // raises
          }
          gather_row<T>(data, strides, n, at);
        },
        2);
  });
}
KERNEL_FOR(gather, gather_kernel)

// Adds to a row of half precision in float, and rounds once.
constexpr int64_t most_in_float = 4096;
template <class T>
void add_in_float(T* out, const T* in, const int64_t* index, int64_t n, int64_t size) {
  constexpr int64_t together = 512;
  float room[most_in_float], wide[together];
  load_row(out, room, size);
  for (int64_t begin = 0; begin < n; begin += together) {
    const int64_t count = std::min(together, n - begin);
    load_row(in + begin, wide, count);
    for (int64_t i = 0; i < count; ++i) room[index[begin + i]] += wide[i];
  }
  store_row(room, out, size);
}

template <WriteMode mode, class T>
void scatter_rows(const TensorIter& iter, const IndexedDim& at) {
  for_each_row_by_lane(iter, [&at](char** data, const int64_t* strides, int64_t n) {
    if constexpr (mode == WriteMode::add) {
      const bool dense = strides[1] == sizeof(T) && strides[2] == sizeof(int64_t);
      if (dense && strides[0] == 0 && at.stride == sizeof(T) && !at.from_end &&
          all_in_range(data[2], strides[2], n, at)) {
        T* out = reinterpret_cast<T*>(data[0]);
        const T* in = reinterpret_cast<const T*>(data[1]);
        const int64_t* index = reinterpret_cast<const int64_t*>(data[2]);
        if constexpr (is_reduced_type<T>) {
          if (at.size <= most_in_float) return add_in_float(out, in, index, n, at.size);
        }
        for (int64_t i = 0; i < n; ++i) {
          write_to<mode>(reinterpret_cast<char*>(out + index[i]), in[i]);
        }
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t offset = offset_of(data[2] + i * strides[2], at);
      write_to<mode>(data[0] + i * strides[0] + offset,
                     *reinterpret_cast<const T*>(data[1] + i * strides[1]));
    }
  });
}

void scatter_kernel(const TensorIter& iter, const IndexedDim& at, WriteMode mode) {
  if (mode == WriteMode::assign) {
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      scatter_rows<WriteMode::assign, typename decltype(tag)::type>(iter, at);
    });
  }
  dispatch_write("scatter", mode, iter.dtypes[0], [&](auto constant, auto tag) {
    scatter_rows<decltype(constant)::value, typename decltype(tag)::type>(iter, at);
  });
}
KERNEL_FOR(scatter, scatter_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
