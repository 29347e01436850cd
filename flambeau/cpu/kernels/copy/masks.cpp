// CPU kernels that look for what is true: the indices of nonzeros, and elements beside a mask.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/kernels/indexing.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int64_t block = 16384;  // elements that a thread counts, and later writes, at a time
constexpr int64_t longest = 256;  // of them the ones that go through a buffer at once
constexpr int64_t beyond = 16;    // what a register may write into a buffer more than it keeps

// Moves the elements of x whose byte in `flags` is not zero together, and gives their number. Each
// is written and kept where it counts, which costs less than a branch that cannot be foreseen.
template <class T>
int64_t pack(const T* x, const uint8_t* flags, int64_t n, T* out) {
  int64_t count = 0, i = 0;
#if FLAMBEAU_ISA_RANK >= 4
  if constexpr (sizeof(T) <= 8) {
    for (; i + 16 <= n; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(flags + i));
      const __mmask16 taken = _mm_test_epi8_mask(bytes, bytes);
      const T* from = x + i;
      T* to = out + count;
      if constexpr (sizeof(T) == 8) {
        const auto low = static_cast<__mmask8>(taken);
        const auto high = static_cast<__mmask8>(taken >> 8);
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(from)));
        _mm512_storeu_si512(to + __builtin_popcount(low),
                            _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(from + 8)));
      } else if constexpr (sizeof(T) == 4) {
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(taken, _mm512_loadu_si512(from)));
      } else if constexpr (sizeof(T) == 2) {
        const auto* halves = reinterpret_cast<const __m256i*>(from);
        const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(halves));
        const __m512i packed = _mm512_maskz_compress_epi32(taken, wide);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm512_maskz_cvtepi32_epi16(0xffff, packed));
      } else {
        const auto* small = reinterpret_cast<const __m128i*>(from);
        const __m512i wide = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(small));
        const __m512i packed = _mm512_maskz_compress_epi32(taken, wide);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm512_maskz_cvtepi32_epi8(0xffff, packed));
      }
      count += __builtin_popcount(taken);
    }
  }
#endif
  for (; i < n; ++i) {
    out[count] = x[i];
    count += flags[i] != 0;
  }
  return count;
}

// How many elements each block has that count, summed up: where each block's results begin.
template <class Count>
std::vector<int64_t> starts_of_blocks(int64_t numel, const Count& count) {
  const int64_t blocks = (numel + block - 1) / block;
  std::vector<int64_t> starts(blocks + 1, 0);
  parallel_for(0, blocks, 4, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      starts[b + 1] = count(b * block, std::min((b + 1) * block, numel));
    }
  });
  for (int64_t b = 0; b < blocks; ++b) starts[b + 1] += starts[b];
  return starts;
}
template <class T>
int64_t count_true(const T* values, int64_t begin, int64_t end) {
  int64_t count = 0, i = begin;
#if FLAMBEAU_ISA_RANK >= 4
  if constexpr (std::is_same_v<T, uint8_t>) {
    for (; i + 64 <= end; i += 64) {
      const __m512i bytes = _mm512_loadu_si512(values + i);
      count += __builtin_popcountll(_mm512_test_epi8_mask(bytes, bytes));
    }
  }
#endif
  for (; i < end; ++i) count += values[i] != T(0);
  return count;
}

// Writes where the nonzeros of values [begin, end) are, to columns [at, limit) of `indices`: flat,
// or a row of `indices` for each dimension. A chunk along the last dimension at a time, whose other
// coordinates are the same. There are as many as columns, unless somebody else is writing there.
template <class T>
void write_indices(const T* values, int64_t begin, int64_t end, IntSpan sizes, bool flat,
                   int64_t* indices, int64_t total, int64_t at, int64_t limit) {
  static constexpr auto numbers = [] {
    std::array<int32_t, longest> counting{};
    for (int32_t j = 0; j < longest; ++j) counting[j] = j;
    return counting;
  }();
  const int64_t rank = flat ? 1 : static_cast<int64_t>(sizes.size());
  const int64_t row = flat ? end : sizes[rank - 1];
  int32_t found[longest + beyond];
  uint8_t flags[longest];
  for (int64_t i = begin, n; i < end; i += n) {
    const int64_t first = i % row;
    n = std::min({longest, row - first, end - i});
    for (int64_t j = 0; j < n; ++j) flags[j] = values[i + j] != T(0);
    const int64_t count = std::min(pack(numbers.data(), flags, n, found), limit - at);
    if (count == 0) continue;
    int64_t* last = indices + (rank - 1) * total + at;
    for (int64_t k = 0; k < count; ++k) last[k] = first + found[k];
    int64_t rest = i / row;
    for (int64_t d = rank - 1; d-- > 0; rest /= sizes[d]) {
      std::fill_n(indices + d * total + at, count, rest % sizes[d]);
    }
    at += count;
  }
  for (int64_t d = 0; d < rank && at < limit; ++d)
    std::fill(indices + d * total + at, indices + d * total + limit, 0);
}

template <class T>
void find_nonzero(const Tensor& input, bool flat, Tensor& out) {
  const T* values = input.data<T>();
  const int64_t numel = input.numel(), rank = input.dim();
  const std::vector<int64_t> starts = starts_of_blocks(
      numel, [&](int64_t begin, int64_t end) { return count_true(values, begin, end); });
  const int64_t total = starts.back();
  out = flat ? make_tensor(total, DType::int64, input.device())
             : make_tensor({rank, total}, DType::int64, input.device());
  if (total == 0 || (rank == 0 && !flat)) return;
  int64_t* indices = out.data<int64_t>();
  parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 4, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t end = std::min((b + 1) * block, numel);
      write_indices(values, b * block, end, input.sizes(), flat, indices, total, starts[b],
                    starts[b + 1]);
    }
  });
}

void nonzero_kernel(const Tensor& input, bool flat, Tensor& out) {
  dispatch<dtypes::All>("nonzero", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    find_nonzero<std::conditional_t<std::is_same_v<T, StoredBool>, uint8_t, T>>(input, flat, out);
  });
}
KERNEL_FOR(nonzero, nonzero_kernel)

void masked_select_kernel(const Tensor& input, const Tensor& mask, Tensor& out) {
  const uint8_t* flags = mask.data<uint8_t>();
  const int64_t numel = input.numel();
  const std::vector<int64_t> starts = starts_of_blocks(
      numel, [&](int64_t begin, int64_t end) { return count_true(flags, begin, end); });
  out = make_tensor(starts.back(), input.dtype(), input.device());
  if (starts.back() == 0) return;
  dispatch_size(item_size(input.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(input.raw());
    T* y = static_cast<T*>(out.raw());
    parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 4, [&](int64_t first, int64_t last) {
      T scratch[longest + beyond];
      T *to = y + starts[first], *const behind = y + starts[last];
      const int64_t end = std::min(last * block, numel);
      for (int64_t i = first * block; i < end; i += longest) {
        const int64_t n = std::min(longest, end - i);
        if (behind - to >= n + beyond) {  // also what is not kept is written
          to += pack(x + i, flags + i, n, to);
          continue;
        }
        const int64_t count = pack(x + i, flags + i, n, scratch);
        to = std::copy_n(scratch, std::min(count, behind - to), to);  // the mask may have changed
      }
      std::fill(to, behind, T());
    });
  });
}
KERNEL_FOR(masked_select, masked_select_kernel)

// A running sum of bytes, each of them 0 or 1: of eight at once by a multiplication.
void number_runs_kernel(const Tensor& starts, const Tensor& numbers) {
  constexpr int64_t some = 8;
  const uint8_t* flags = starts.data<uint8_t>();
  int64_t* number = numbers.data<int64_t>();
  const int64_t numel = starts.numel();
  const std::vector<int64_t> before = starts_of_blocks(
      numel, [&](int64_t begin, int64_t end) { return count_true(flags, begin, end); });
  parallel_for(0, static_cast<int64_t>(before.size()) - 1, 4, [&](int64_t first, int64_t last) {
    int64_t runs = before[first] - 1, i = first * block;
    const int64_t end = std::min(last * block, numel);
    for (; i + some <= end; i += some) {
      uint64_t bytes = 0;
      std::memcpy(&bytes, flags + i, sizeof bytes);
      bytes *= 0x0101010101010101;
      for (int64_t j = 0; j < some; ++j) {
        number[i + j] = runs + static_cast<int64_t>(bytes >> (8 * j) & 0xff);
      }
      runs += static_cast<int64_t>(bytes >> 56);
    }
    for (; i < end; ++i) number[i] = runs += flags[i];
  });
}
KERNEL_FOR(number_runs, number_runs_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
