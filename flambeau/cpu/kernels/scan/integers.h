// Running sums of integers of any size, in int64 (without a sign here, so that they wrap): they may
// be added in any order, so that a register of a row is summed up within itself first.
#pragma once

#include "flambeau/cpu/kernels/scan/rows.h"
#include "flambeau/cpu/kernels/scan/scan.h"
#include "flambeau/kernels/scan.h"

namespace flambeau::cpu::ISA_NAMESPACE {

typedef uint64_t ScanIntegers __attribute__((vector_size(register_bytes)));

constexpr int64_t integer_chunk = 512;
static_assert(integer_chunk >= column_block);

// Elements [at, at + n) of an array of some dtype; in `scratch`, unless they are wide already.
using WidenIntegers = const uint64_t* (*)(const void* x, int64_t at, int64_t n, uint64_t* scratch);
template <class T>
const uint64_t* widened_integers(const void* x, int64_t at, int64_t n, uint64_t* scratch) {
  const T* from = static_cast<const T*>(x) + at;
  if constexpr (std::is_same_v<T, int64_t>) {
    return reinterpret_cast<const uint64_t*>(from);
  } else {
    for (int64_t i = 0; i < n; ++i)
      scratch[i] = static_cast<uint64_t>(static_cast<int64_t>(from[i]));
    return scratch;
  }
}

inline uint64_t scan_integer_chunk(const uint64_t* x, uint64_t* y, int64_t n, uint64_t carried) {
  ScanIntegers carry = ScanIntegers{} + carried;
  int64_t i = 0;
  for (; i + double_lanes <= n; i += double_lanes) {
    ScanIntegers next;
    std::memcpy(&next, x + i, sizeof next);
    const ScanIntegers within = scan_lanes<RunningSum>(next);
    const ScanIntegers sums = carry + within;
    std::memcpy(y + i, &sums, sizeof sums);
    carry += last_lane(within);
  }
  carried = carry[0];
  for (; i < n; ++i) y[i] = carried += x[i];
  return carried;
}

// Asks for what stands `ahead`, which is added soon: no processor foresees rows that far apart.
inline void add_integers(const uint64_t* x, uint64_t* carried, uint64_t* y, int64_t n,
                         int64_t ahead) {
  int64_t j = 0;
  for (; j + double_lanes <= n; j += double_lanes) {
    ScanIntegers next, sums;
    ask_second_level(x + j + ahead);
    std::memcpy(&next, x + j, sizeof next);
    std::memcpy(&sums, carried + j, sizeof sums);
    sums += next;
    std::memcpy(carried + j, &sums, sizeof sums);
    std::memcpy(y + j, &sums, sizeof sums);
  }
  for (; j < n; ++j) y[j] = carried[j] += x[j];
}

class IntegerSums {
 public:
  IntegerSums(const Tensor& input, const Tensor& out, int64_t dim, WidenIntegers widen)
      : shape_(input, dim),
        x_(input.raw()),
        y_(static_cast<uint64_t*>(out.raw())),
        widen_(widen),
        beyond_cache_(x_ != y_ && out.numel() * int64_t{sizeof(int64_t)} >= cached_bytes) {}

  void run() const {
    for_each_slice(
        shape_, 2,
        [this](int64_t at, int64_t rows) {
          if (shape_.size < short_scan) {
            short_rows(at, rows);
          } else {
            for (; rows > 0; --rows, at += shape_.size) row(at);
          }
          if (beyond_cache_) _mm_sfence();
        },
        [this](int64_t at, int64_t n) {
          columns(at, n);
          if (beyond_cache_) _mm_sfence();
        });
  }

 private:
  uint64_t* target(int64_t at, uint64_t* scratch) const {
    return beyond_cache_ ? scratch : y_ + at;
  }
  void written(int64_t at, int64_t n, const uint64_t* scratch) const {
    if (beyond_cache_) move_non_temporal(scratch, y_ + at, n);
  }

  void row(int64_t at) const {
    alignas(64) uint64_t in[integer_chunk], results[integer_chunk];
    uint64_t carried = 0;
    for (int64_t left = shape_.size, n; left > 0; left -= n, at += n) {
      n = std::min(left, integer_chunk);
      carried = scan_integer_chunk(widen_(x_, at, n, in), target(at, results), n, carried);
      written(at, n, results);
    }
  }

  void short_rows(int64_t at, int64_t rows) const {
    alignas(64) uint64_t in[integer_chunk], results[integer_chunk];
    const int64_t some = integer_chunk / shape_.size;
    for (int64_t n; rows > 0; rows -= n, at += n * shape_.size) {
      n = std::min(rows, some);
      const int64_t count = n * shape_.size;
      scan_short_rows<uint64_t>(widen_(x_, at, count, in), target(at, results), n, shape_.size,
                                false, 0, [](uint64_t a, uint64_t b) { return a + b; });
      written(at, count, results);
    }
  }

  // As many rows at once as lie together in memory.
  void columns(int64_t at, int64_t n) const {
    alignas(64) uint64_t in[integer_chunk], results[integer_chunk], carried[column_block];
    std::fill_n(carried, n, 0);
    const int64_t most = n == shape_.inner ? integer_chunk / n : 1;
    for (int64_t i = 0, rows; i < shape_.size; i += rows, at += rows * shape_.inner) {
      rows = std::min(most, shape_.size - i);
      const uint64_t* from = widen_(x_, at, rows * n, in);
      uint64_t* to = target(at, results);
      const int64_t ahead = rows == 1 && from != in ? 2 * shape_.inner : 0;
      for (int64_t r = 0; r < rows; ++r, from += n, to += n) {
        add_integers(from, carried, to, n, ahead);
      }
      written(at, rows * n, results);
    }
  }

  SliceShape shape_;
  const void* x_;
  uint64_t* y_;
  WidenIntegers widen_;
  bool beyond_cache_;
};

// False for sums from the end on, and where the input has another dtype than these integers.
inline bool scan_integer_sums(const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  if (reverse || !kernels::summed_integers.has(input.dtype())) return false;
  dispatch<kernels::summed_integers>("cumsum_out_cpu", input.dtype(), [&](auto tag) {
    IntegerSums(input, out, dim, widened_integers<typename decltype(tag)::type>).run();
  });
  return true;
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
