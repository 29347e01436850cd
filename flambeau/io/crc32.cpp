// The checksum of zip files, by eight tables of a byte each, or sixteen bytes at a time where the
// processor multiplies polynomials.
#include <immintrin.h>

#include <array>
#include <cstring>

#include "flambeau/io/stream.h"

namespace flambeau::io {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables tables = [] {
  Tables result{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xEDB88320u : 0);
    result[0][byte] = value;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (int k = 1; k < 8; ++k) {
      const uint32_t before = result[k - 1][byte];
      result[k][byte] = (before >> 8) ^ result[0][before & 255];
    }
  }
  return result;
}();

uint32_t by_tables(const uint8_t* data, size_t bytes, uint32_t crc) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= tables[7 - k][word >> (8 * k) & 255];
  }
  for (; bytes; --bytes, ++data) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 255];
  return crc;
}

#define FLAMBEAU_FOLDS __attribute__((target("pclmul,sse4.1")))

// x^n mod P for the polynomial P of the checksum, bits reflected, shifted by one: what a product of
// reflected polynomials wants.
constexpr uint64_t power(int n) {
  uint32_t value = 0x80000000u;  // 1
  for (int k = 0; k < n; ++k) value = (value >> 1) ^ (value & 1 ? 0xEDB88320u : 0);
  return static_cast<uint64_t>(value) << 1;
}

FLAMBEAU_FOLDS inline __m128i fold(__m128i value, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Of at least 64 bytes: four registers at a time, then one, whose bytes have the checksum of all.
FLAMBEAU_FOLDS uint32_t by_products(const uint8_t* data, size_t bytes, uint32_t crc) {
  const auto load = [](const uint8_t* from) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const __m128i by_64 =
      _mm_set_epi64x(static_cast<int64_t>(power(512 - 32)), static_cast<int64_t>(power(512 + 32)));
  const __m128i by_16 =
      _mm_set_epi64x(static_cast<int64_t>(power(128 - 32)), static_cast<int64_t>(power(128 + 32)));
  __m128i sums[4];
  for (int k = 0; k < 4; ++k) sums[k] = load(data + 16 * k);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (data += 64, bytes -= 64; bytes >= 64; data += 64, bytes -= 64) {
    for (int k = 0; k < 4; ++k) sums[k] = fold(sums[k], by_64, load(data + 16 * k));
  }
  for (int k = 1; k < 4; ++k) sums[0] = fold(sums[0], by_16, sums[k]);
  alignas(16) uint8_t last[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(last), sums[0]);
  return by_tables(data, bytes, by_tables(last, 16, 0));
}

}  // namespace

uint32_t crc32(const void* data, size_t bytes, uint32_t before) {
  static const bool multiplies =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  const auto* begin = static_cast<const uint8_t*>(data);
  return ~(multiplies && bytes >= 64 ? by_products(begin, bytes, ~before)
                                     : by_tables(begin, bytes, ~before));
}

}  // namespace flambeau::io
