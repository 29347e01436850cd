#include "flambeau/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace flambeau {
namespace {

struct Facts {
  std::string_view name;
  std::string_view legacy;
  size_t size;
};

constexpr std::array<Facts, dtype_count> facts = {{
#define ROW(name, type, legacy) {#name, legacy, sizeof(type)},
    FLAMBEAU_DTYPES(ROW)
#undef ROW
}};

std::atomic<DType> the_default{DType::float32};

// 0 bool, 1 integral, 2 floating, 3 complex
int category(DType dtype) {
  if (is_complex(dtype)) return 3;
  if (is_floating(dtype)) return 2;
  return dtype == DType::bool_ ? 0 : 1;
}

DType promote_integers(DType a, DType b) {
  if (a == DType::uint8) return b == DType::int8 ? DType::int16 : b;
  if (b == DType::uint8) return a == DType::int8 ? DType::int16 : a;
  return item_size(a) > item_size(b) ? a : b;
}

}  // namespace

size_t item_size(DType dtype) { return facts[static_cast<int>(dtype)].size; }

std::string_view dtype_name(DType dtype) {
  return dtype == DType::bool_ ? "bool" : facts[static_cast<int>(dtype)].name;
}

std::string to_text(DType dtype) { return "torch." + std::string(dtype_name(dtype)); }

std::string_view dtype_legacy_name(DType dtype) { return facts[static_cast<int>(dtype)].legacy; }

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const int rank_a = category(a), rank_b = category(b);
  CHECK(!dtypes::Float8.has(a) && !dtypes::Float8.has(b), RuntimeError,
        "Promotion for Float8 Types is not supported, attempted to promote {} and {}",
        dtype_legacy_name(a), dtype_legacy_name(b));
  const bool wide_unsigned = dtypes::Unsigned.has(a) || dtypes::Unsigned.has(b);
  CHECK(!wide_unsigned || std::max(rank_a, rank_b) == 2, RuntimeError,
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {} and "
        "{}",
        dtype_legacy_name(a), dtype_legacy_name(b));
  if (rank_a == 3 || rank_b == 3) {
    // As wide as the real types of both ask for; integers ask for nothing.
    const DType real_a = rank_a < 2 ? to_real(b) : to_real(a);
    const DType real_b = rank_b < 2 ? to_real(a) : to_real(b);
    return to_complex(promote_types(real_a, real_b));
  }
  if (rank_a != rank_b) return rank_a > rank_b ? a : b;
  if (rank_a == 1) return promote_integers(a, b);
  // Two different floating types: float16 with bfloat16 needs float32, else the wider.
  if (item_size(a) == item_size(b)) return DType::float32;
  return item_size(a) > item_size(b) ? a : b;
}

bool can_cast(DType from, DType to) {
  const int rank_from = category(from), rank_to = category(to);
  return rank_from <= rank_to;
}

DType to_real(DType dtype) {
  if (dtype == DType::complex32) return DType::float16;
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

DType to_complex(DType dtype) {
  if (is_complex(dtype)) return dtype;
  CHECK(!dtypes::Float8.has(dtype), RuntimeError, "Unknown Complex ScalarType for {}",
        dtype_legacy_name(dtype));
  if (dtype == DType::float16) return DType::complex32;
  return dtype == DType::float64 ? DType::complex128 : DType::complex64;
}

DType widened(DType dtype) {
  if (!is_stored(dtype)) return dtype;
  return dtype == DType::complex32 ? DType::complex64 : DType::float32;
}

DType default_dtype() { return the_default.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  CHECK(dtypes::Floating.has(dtype), TypeError,
        "only floating-point types are supported as the default type");
  the_default.store(dtype);
}

}  // namespace flambeau
