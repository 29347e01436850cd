// Elements and their indices packed into integers, and how those are sorted.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Unsigned integers that are ordered as the values are. NaN is the largest; both zeros are equal.
template <class T>
std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t> order_key(T value) {
  if constexpr (is_reduced_type<T>) {
    return order_key(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    // Without branches, which could not be foreseen.
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr U sign = U(1) << (sizeof(T) * 8 - 1);
    const U stored = std::bit_cast<U>(value), bits = stored == sign ? 0 : stored;
    const U key = bits ^ (sign | (U(0) - (bits >> (sizeof(T) * 8 - 1))));
    constexpr U infinity = std::bit_cast<U>(std::numeric_limits<T>::infinity());
    return (bits & ~sign) > infinity ? static_cast<U>(~U(0)) : key;
  } else if constexpr (sizeof(T) <= 4) {
    return static_cast<uint32_t>(static_cast<int64_t>(value) -
                                 static_cast<int64_t>(std::numeric_limits<T>::min()));
  } else {
    constexpr uint64_t sign = std::is_signed_v<T> ? uint64_t(1) << 63 : 0;
    return static_cast<uint64_t>(value) ^ sign;
  }
}

// Key above, index below. Indices of 32-bit keys have 32 bits.
template <class Key>
using Packed = std::conditional_t<sizeof(Key) == 4, uint64_t, unsigned __int128>;
template <class Key>
constexpr int key_shift = sizeof(Key) * 8;

template <class Key>
int64_t index_of(Packed<Key> packed) {
  return static_cast<int64_t>(static_cast<Key>(packed));
}
template <class Key>
Key key_of(Packed<Key> packed) {
  return static_cast<Key>(packed >> key_shift<Key>);
}

// Of n elements, `stride` bytes apart.
template <class Key>
using Pack = void (*)(const char* x, int64_t stride, int64_t n, bool descending, Packed<Key>* out);
template <class Key, class T>
void pack(const char* x, int64_t stride, int64_t n, bool descending, Packed<Key>* out) {
  const Key flip = descending ? ~Key(0) : Key(0);
  const auto loop = [=](int64_t step) __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) {
      const auto narrow = order_key(*reinterpret_cast<const T*>(x + i * step));
      Key key = static_cast<Key>(narrow);
      // A narrow key stands in both halves of a wide one, so that NaN keeps all its bits set.
      if constexpr (sizeof narrow < sizeof(Key)) key |= key << 32;
      key ^= flip;
      out[i] = static_cast<Packed<Key>>(key) << key_shift<Key> | static_cast<Packed<Key>>(i);
    }
  };
  // Elements side by side make vector code, and so do the low halves of integers that are small.
  constexpr auto item = static_cast<int64_t>(sizeof(T));
  if (stride == item) return loop(item);
  if (std::is_same_v<T, int32_t> && stride == 2 * item) return loop(2 * item);
  loop(stride);
}

template <class Key>
Pack<Key> pack_for(DType dtype) {
  Pack<Key> found = nullptr;
  dispatch<dtypes::RealBool>("sort", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(order_key(T())) <= sizeof(Key)) found = pack<Key, T>;
  });
  return found;
}

// The place of each of a few different words is the number of smaller ones, which are counted for
// several words at once.
constexpr int64_t few_words = 64, word_lanes = register_bytes / sizeof(uint64_t);
typedef uint64_t WordLanes __attribute__((vector_size(register_bytes)));
inline void sort_few(uint64_t* data, int64_t n) {
  constexpr int64_t together = 4;  // registers
  alignas(64) uint64_t words[few_words], positions[few_words];
  std::copy_n(data, n, words);
  std::fill_n(words + n, -n & (together * word_lanes - 1), ~uint64_t{0});
  for (int64_t j = 0; j < n; j += together * word_lanes) {
    WordLanes mine[together], smaller[together] = {};
    std::memcpy(mine, words + j, sizeof mine);
    for (int64_t i = 0; i < n; ++i) {
      const WordLanes other = WordLanes{} + words[i];
#pragma GCC unroll 4
      for (int64_t k = 0; k < together; ++k) {
        smaller[k] -= std::bit_cast<WordLanes>(other < mine[k]);
      }
    }
    std::memcpy(positions + j, smaller, sizeof smaller);
  }
  for (int64_t i = 0; i < n; ++i) data[positions[i]] = words[i];
}

// Two sorted runs as one, without a branch on which comes first.
inline void merge_runs(const uint64_t* a, int64_t a_count, const uint64_t* b, int64_t b_count,
                       uint64_t* to) {
  const uint64_t *const a_end = a + a_count, *const b_end = b + b_count;
  while (a < a_end && b < b_end) {
    const uint64_t first = *a, second = *b;
    const bool takes_second = second < first;
    *to++ = takes_second ? second : first;
    b += takes_second;
    a += !takes_second;
  }
  to = std::copy(a, a_end, to);
  std::copy(b, b_end, to);
}

constexpr int64_t long_run = 512;
inline void sort_short(uint64_t* data, int64_t n) {
  for (int64_t i = 0; i < n; i += few_words) sort_few(data + i, std::min(few_words, n - i));
  uint64_t other[long_run];
  uint64_t *from = data, *to = other;
  for (int64_t run = few_words; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      const int64_t first = std::min(run, n - i), second = std::min(run, n - i - first);
      merge_runs(from + i, first, from + i + first, second, to + i);
    }
    std::swap(from, to);
  }
  if (from != data) std::copy_n(from, n, data);
}
inline void sort_short(unsigned __int128* data, int64_t n) { std::sort(data, data + n); }

// Keys that lie close together, as those of bytes and bool do, are put in their positions at once;
// false if they do not.
template <class Key>
bool sort_by_count(Packed<Key>* data, int64_t n, Memory<Packed<Key>>& scratch) {
  using P = Packed<Key>;
  constexpr Key most = 256;
  Key least = key_of<Key>(data[0]), greatest = least;
  constexpr int64_t together = 64;
  for (int64_t begin = 0; begin < n; begin += together) {
    const int64_t end = std::min(begin + together, n);
    for (int64_t i = begin; i < end; ++i) {
      const Key key = key_of<Key>(data[i]);
      least = std::min(least, key);
      greatest = std::max(greatest, key);
    }
    if (greatest - least >= most) return false;
  }
  if (least == greatest) return true;
  std::array<int64_t, most> positions;
  std::fill_n(positions.begin(), greatest - least + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++positions[key_of<Key>(data[i]) - least];
  int64_t start = 0;
  for (Key k = 0; k <= greatest - least; ++k) start += std::exchange(positions[k], start);
  if (!scratch) scratch = memory_for<P>(n);
  for (int64_t i = 0; i < n; ++i) scratch[positions[key_of<Key>(data[i]) - least]++] = data[i];
  std::copy_n(scratch.get(), n, data);
  return true;
}

// Long runs are sorted by the digits of the key, from the lowest; the order of indices, in which
// elements start, survives every pass. Digits that all share are passed over, and none has bits
// above the highest that differs: integers below 100,000 have two digits.
template <class Key>
void sort_packed(Packed<Key>* data, int64_t n, Memory<Packed<Key>>& scratch) {
  using P = Packed<Key>;
  if (n < long_run) return sort_short(data, n);
  if (!scratch) scratch = memory_for<P>(n);
  const Key first = key_of<Key>(data[0]);
  Key differing = 0;
  for (int64_t i = 0; i < n; ++i) differing |= key_of<Key>(data[i]) ^ first;
  constexpr int most = 9;  // bits of a digit; more make too many positions that are written in turn
  const int width = std::bit_width(differing);
  const int passes = (width + most - 1) / most, bits = passes ? (width + passes - 1) / passes : 0;
  const int64_t size = int64_t{1} << bits;
  const Key mask = static_cast<Key>(size - 1);
  std::vector<int64_t> counts(passes * size);
  for (int64_t i = 0; i < n; ++i) {
    Key key = key_of<Key>(data[i]);
    for (int64_t* count = counts.data(); count < counts.data() + passes * size; count += size) {
      ++count[key & mask];
      key >>= bits;
    }
  }
  P *from = data, *to = scratch.get();
  for (int pass = 0; pass < passes; ++pass) {
    int64_t *const count = counts.data() + pass * size, start = 0;
    const int shift = pass * bits;
    if (count[first >> shift & mask] == n) continue;
    for (int64_t digit = 0; digit < size; ++digit) start += std::exchange(count[digit], start);
    for (int64_t i = 0; i < n; ++i) to[count[key_of<Key>(from[i]) >> shift & mask]++] = from[i];
    std::swap(from, to);
  }
  if (from != data) std::copy_n(from, n, data);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
