// CPU kernels of gather and scatter, which look up an index at every element.
#include <bit>
#include <limits>

#include "flambeau/cpu/kernels/index/indexing.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/kernels/simd/lanes.h"

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

#if FLAMBEAU_ISA_RANK >= 4
constexpr int64_t max_copied = 4096;  // elements of two bytes, as many as stay in the first cache

// A row of elements side by side that is read at indices side by side, a register of results at a
// time: its indices are checked before they are used.
template <class T>
struct DenseGather {
  T* out;
  const T* in;
  const int64_t* index;
  int64_t n, size;
  bool past;
  bool at_once = gathers_fast() || past;  // fewer instructions, where memory is waited for
  static constexpr int64_t block = 64 / sizeof(T);

  // The next row will be wanted soon, in an order that the processor does not foresee; nor does it
  // foresee all of what comes from memory.
  [[gnu::always_inline]] void ask_for_next(int64_t i) const {
    if (i < size) prefetch(in + size + i);
    if (!past) return;
#pragma GCC unroll 4
    for (int64_t j = 0; j < block; j += 8) prefetch(index + n + i + j);
  }
  // Whether eight or sixteen indices are some.
  [[gnu::always_inline]] bool good(__m512i indices) const {
    return _mm512_cmpge_epu64_mask(indices, _mm512_set1_epi64(size)) == 0;
  }
  // Sixteen times four bytes from elements of `base` on, or false.
  [[gnu::always_inline]] bool read(const int64_t* at, const T* base, __m512i& result) const {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + 8);
    if (!good(_mm512_maskz_max_epu64(0xff, low, high))) [[unlikely]]
      return false;
    const __m512i indices = _mm512_maskz_permutex2var_epi32(0xffff, low, even, high);
    result = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, indices, base, sizeof(T));
    return true;
  }
  // A block one by one, or false.
  [[gnu::always_inline]] bool read_singly(const int64_t* at, __m512i& result) const {
    __m512i largest = _mm512_loadu_si512(at);
    for (int64_t j = 8; j < block; j += 8) {
      largest = _mm512_maskz_max_epu64(0xff, largest, _mm512_loadu_si512(at + j));
    }
    if (!good(largest)) [[unlikely]]
      return false;
    result = [&]<size_t... J>(std::index_sequence<J...>) {
      return std::bit_cast<__m512i>(typename LanesOf<T, block>::Register{in[at[J]]...});
    }
    (std::make_index_sequence<block>());
    return true;
  }
  [[gnu::always_inline]] bool read_block(const int64_t* at, const T* row, __m512i& result) const {
    if (!at_once) return read_singly(at, result);
    if constexpr (sizeof(T) == 8) {
      const __m512i indices = _mm512_loadu_si512(at);
      if (!good(indices)) [[unlikely]]
        return false;
      result = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), 0xff, indices, in, 8);
      return true;
    } else if constexpr (sizeof(T) == 4) {
      return read(at, row, result);
    } else {
      __m512i low, high;
      if (!read(at, row, low) || !read(at + 16, row, high)) [[unlikely]]
        return false;
      const __m256i first = _mm512_maskz_cvtepi32_epi16(0xffff, low);
      const __m256i second = _mm512_maskz_cvtepi32_epi16(0xffff, high);
      result = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
      return true;
    }
  }
  [[nodiscard]] bool read_singly(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      if (static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(size)) [[unlikely]]
        return false;
      out[i] = in[index[i]];
    }
    return true;
  }
  // False, and some results are missing, if an index is none.
  [[nodiscard]] bool run() const {
    // Elements of two bytes are read with the next one, which the last of a row does not have.
    alignas(64) T scratch[sizeof(T) == 2 ? max_copied + 1 : 1];
    const T* const row = sizeof(T) == 2 && at_once ? std::copy_n(in, size, scratch) - size : in;
    const int64_t begin =
        past ? std::min<int64_t>(n, -reinterpret_cast<uintptr_t>(out) % 64 / sizeof(T)) : 0;
    if (!read_singly(0, begin)) return false;
    int64_t i = begin;
    for (; i + block <= n; i += block) {
      __m512i result;
      ask_for_next(i);
      if (!read_block(index + i, row, result)) [[unlikely]]
        return false;
      if (past) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), result);
      } else {
        _mm512_storeu_si512(out + i, result);
      }
    }
    return read_singly(i, n);
  }
};
#endif

// Whether a row was read in SIMD registers.
template <class T>
bool gather_by_registers([[maybe_unused]] char** data, [[maybe_unused]] const int64_t* strides,
                         [[maybe_unused]] int64_t n, [[maybe_unused]] const IndexedDim& at,
                         [[maybe_unused]] bool past) {
#if FLAMBEAU_ISA_RANK >= 4
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8) {
    const bool dense = strides[0] == sizeof(T) && strides[1] == 0 && strides[2] == sizeof(int64_t);
    const bool fits = sizeof(T) == 2 ? at.size <= std::min(max_copied, 4 * n)
                                     : at.size <= std::numeric_limits<int32_t>::max();
    if (!dense || !fits || at.from_end || at.stride != sizeof(T)) return false;
    const DenseGather<T> gather{reinterpret_cast<T*>(data[0]),
                                reinterpret_cast<const T*>(data[1]),
                                reinterpret_cast<const int64_t*>(data[2]),
                                n,
                                at.size,
                                past};
    return gather.run();
  }
#endif
  return false;
}

template <class T>
void gather_checked_row(char** data, const int64_t* strides, int64_t n, const IndexedDim& at,
                        bool past) {
  if (gather_by_registers<T>(data, strides, n, at, past)) return;
  if (!all_in_range(data[2], strides[2], n, at)) [[unlikely]] {
    for (int64_t i = 0; i < n; ++i) offset_of(data[2] + i * strides[2], at);  // raises
  }
  gather_row<T>(data, strides, n, at);
}

void gather_kernel(const TensorIter& iter, const IndexedDim& at) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool past = iter.numel * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
    for_each_block(
        iter,
        [&at, past](char** data, const Block& block) {
          for (int64_t row = 0; row < block.m; ++row) {
            char* rows[3];
            for (int k = 0; k < 3; ++k) rows[k] = data[k] + row * block.row_steps[k];
            gather_checked_row<T>(rows, block.steps, block.n, at, past);
          }
          if (past) _mm_sfence();
        },
        2);
  });
}
KERNEL_FOR(gather, gather_kernel)

// Adds to a row of half precision in float, and rounds once.
constexpr int64_t max_in_float = 4096;
template <class T>
void add_in_float(T* out, const T* in, const int64_t* index, int64_t n, int64_t size) {
  constexpr int64_t together = 512;
  float scratch[max_in_float], wide[together];
  load_row(out, scratch, size);
  for (int64_t begin = 0; begin < n; begin += together) {
    const int64_t count = std::min(together, n - begin);
    load_row(in + begin, wide, count);
    const int64_t* at = index + begin;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      prefetch(at + n + i);  // the next row, which is much for the processor to foresee
#pragma GCC unroll 8
      for (int64_t j = i; j < i + 8; ++j) scratch[at[j]] += wide[j];
    }
    for (; i < count; ++i) scratch[at[i]] += wide[i];
  }
  store_row(scratch, out, size);
}

// A row of elements side by side that goes to elements side by side, whose indices are known to be
// some.
template <WriteMode mode, class T>
void scatter_dense_row(T* out, const T* in, const int64_t* index, int64_t n, int64_t size) {
  if constexpr (mode == WriteMode::add && is_reduced_type<T>) {
    if (size <= max_in_float) return add_in_float(out, in, index, n, size);
  }
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    prefetch(index + n + i);
#pragma GCC unroll 8
    for (int64_t j = i; j < i + 8; ++j) {
      write_to<mode>(reinterpret_cast<char*>(out + index[j]), in[j]);
    }
  }
  for (; i < n; ++i) write_to<mode>(reinterpret_cast<char*>(out + index[i]), in[i]);
}

template <WriteMode mode, class T>
void scatter_rows(const TensorIter& iter, const IndexedDim& at) {
  for_each_row_by_lane(iter, [&at](char** data, const int64_t* strides, int64_t n) {
    const bool dense = strides[1] == sizeof(T) && strides[2] == sizeof(int64_t);
    if (dense && strides[0] == 0 && at.stride == sizeof(T) && !at.from_end &&
        all_in_range(data[2], strides[2], n, at)) {
      return scatter_dense_row<mode>(reinterpret_cast<T*>(data[0]),
                                     reinterpret_cast<const T*>(data[1]),
                                     reinterpret_cast<const int64_t*>(data[2]), n, at.size);
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
