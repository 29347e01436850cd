// The checks of random draws, in PyTorch's words, and the calls of the kernels.
#include <bit>
#include <cmath>
#include <limits>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {

std::string_view cpp_name(DType dtype) {
  switch (dtype) {
    case DType::bool_: return "bool";
    case DType::uint8: return "unsigned char";
    case DType::int8: return "signed char";
    case DType::int16: return "short int";
    case DType::int32: return "int";
    case DType::int64: return "long int";
    case DType::uint16: return "short unsigned int";
    case DType::uint32: return "unsigned int";
    case DType::uint64: return "long unsigned int";
    case DType::float16: return "c10::Half";
    case DType::bfloat16: return "c10::BFloat16";
    case DType::float32: return "float";
    case DType::float64: return "double";
    case DType::complex64: return "c10::complex<float>";
    case DType::complex128: return "c10::complex<double>";
    default: return dtype_legacy_name(dtype);
  }
}

namespace {

// The least and the greatest number of a dtype, and for a floating one its bits of precision: all
// integers up to 2^digits are exact in it.
struct Limits {
  double low, high;
  int digits;
};

Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::float16: return {-65504.0, 65504.0, 11};
    case DType::bfloat16: return {-0x1.fep127, 0x1.fep127, 8};
    case DType::float32: return {-0x1.fffffep127, 0x1.fffffep127, 24};
    case DType::float64:
      return {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max(), 53};
    case DType::bool_: return {0, 1, 0};
    case DType::uint8: return {0, 255, 0};
    case DType::int8: return {-128, 127, 0};
    case DType::int16: return {-32768, 32767, 0};
    case DType::int32: return {-0x1p31, 0x1p31 - 1, 0};
    case DType::uint16: return {0, 65535, 0};
    case DType::uint32: return {0, 0x1p32 - 1, 0};
    case DType::uint64: return {0, 0x1p63, 0};
    default: return {-0x1p63, 0x1p63, 0};
  }
}

// The parts of a complex tensor as one more dimension.
Tensor real_parts(const Tensor& tensor) {
  Dims sizes = tensor->sizes, strides = tensor->strides;
  for (int64_t& stride : strides) stride = scaled_stride(stride, 2);
  sizes.push_back(2);
  strides.push_back(1);
  return make_over(tensor.storage(), sizes, strides, scaled_stride(tensor.offset(), 2),
                   to_real(tensor.dtype()));
}

void require(DTypeSet dtypes, const char* kernel, DType dtype) {
  CHECK(dtypes.has(dtype), NotImplementedError, "\"{}\" not implemented for '{}'", kernel,
        dtype_legacy_name(dtype));
}

}  // namespace

Generator& generator_for(Device device, Generator* given) {
  if (!given) return *default_generator(device);
  CHECK(given->device().type == device.type, RuntimeError,
        "Expected a '{}' device type for generator but found '{}'", device.type,
        given->device().type);
  return *given;
}

void draw_uniform(const Tensor& out, double from, double to, Generator* generator) {
  if (out.device().is_meta()) return;
  if (out.is_complex()) return draw_uniform(real_parts(out), from, to, generator);
  require(dtypes::Floating, "check_uniform_bounds", out.dtype());
  const Limits limits = limits_of(out.dtype());
  const std::string_view name = cpp_name(out.dtype());
  CHECK(from >= limits.low && from <= limits.high, RuntimeError,
        "uniform_: from is out of bounds for {}, it is {}", name, from);
  CHECK(to >= limits.low && to <= limits.high, RuntimeError,
        "uniform_: to is out of bounds for {}, it is {}", name, to);
  CHECK(from <= to, RuntimeError,
        "uniform_ expects to return a [from, to) range, but found from={} > to={}", from, to);
  CHECK(to - from <= limits.high, RuntimeError,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={} and from={} "
        "which result in to-from to exceed the limit",
        dtype_legacy_name(out.dtype()), to, from);
  check_no_internal_overlap("uniform_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::uniform(out.device_type(), out, from, to, g); });
}

void draw_normal(const Tensor& out, double mean, double std, Generator* generator) {
  if (out.device().is_meta()) return;
  CHECK(std >= 0, RuntimeError, "normal expects std >= 0.0, but found std {}", std);
  // The variance of a complex sample is shared by its parts.
  if (out.is_complex()) {
    return draw_normal(real_parts(out), mean, std / std::sqrt(2.0), generator);
  }
  if (nothing_to_draw(out)) return;
  require(dtypes::Floating, "normal_kernel_cpu", out.dtype());
  check_no_internal_overlap("normal_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::normal(out.device_type(), out, mean, std, g); });
}

void draw_exponential(const Tensor& out, double rate, Generator* generator) {
  if (nothing_to_draw(out)) return;
  CHECK(out.is_floating(), RuntimeError,
        "Exponential distribution is a continuous probability distribution. dtype must be a "
        "floating point but you specified {}",
        dtype_legacy_name(out.dtype()));
  CHECK(rate > 0, RuntimeError, "exponential_ expects lambda > 0.0, but found lambda={}", rate);
  check_no_internal_overlap("exponential_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::exponential(out.device_type(), out, rate, g); });
}

void draw_bernoulli(const Tensor& out, double p, Generator* generator, double hit) {
  if (out.device().is_meta()) return;
  CHECK(p >= 0 && p <= 1, RuntimeError, "bernoulli_ expects p to be in [0, 1], but got p={}", p);
  check_no_internal_overlap("bernoulli_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::bernoulli(out.device_type(), out, p, hit, g); });
}

void draw_bernoulli(const Tensor& out, const Tensor& p, Generator* generator) {
  if (out.device().is_meta()) return;
  // A number on the CPU goes along with any device.
  const Tensor chances = p.device() == out.device() ? p : to(p, out.device());
  check_no_internal_overlap("bernoulli_", out);
  const NoGrad off;
  const Tensor each = expand(chances, out.sizes());
  with_generator(out, generator,
                 [&](Generator& g) { kernels::bernoulli_each(out.device_type(), out, each, g); });
}

// --- Integers ------------------------------------------------------------------------------------

namespace {

// Ranges from here on are drawn with 64 bits, which keeps the remainder nearly unbiased.
constexpr uint64_t wide_range = uint64_t{1} << 28;

// The value that dtype makes of an integer; what no int64 holds becomes the least one.
int64_t rounded(DType dtype, int64_t value) {
  double result = static_cast<double>(value);
  if (dtype == DType::float32) result = static_cast<float>(value);
  if (dtype == DType::float16) result = static_cast<float>(Half(static_cast<float>(value)));
  if (dtype == DType::bfloat16) result = static_cast<float>(BFloat16(static_cast<float>(value)));
  return result < 0x1p63 ? static_cast<int64_t>(result) : std::numeric_limits<int64_t>::min();
}

// The distance of neighbours in a floating dtype at the size of `value`.
int64_t spacing(int digits, int64_t value) {
  const uint64_t size = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return int64_t{1} << std::max(static_cast<int>(std::bit_width(size)) - digits, 0);
}

// A bound that dtype cannot hold moves inwards to the next number that it can.
int64_t rounded_from(DType dtype, int digits, int64_t from) {
  if (from == std::numeric_limits<int64_t>::max()) return from;
  const int64_t next = rounded(dtype, from + 1);
  return next < from ? next + spacing(digits, from + 1) : from;
}
int64_t rounded_to(DType dtype, int digits, int64_t to) {
  const int64_t before = rounded(dtype, to - 1);
  return before >= to ? before - spacing(digits, to - 1) : to;
}

// A floating dtype that has not all integers of a range draws some of them more often than others.
void warn_of_coarse_numbers(DType dtype, const char* name, int64_t value) {
  const int digits = limits_of(dtype).digits;
  const int64_t last = int64_t{1} << digits;
  if (value >= -last && value <= last) return;
  warn(format(
      "{} is out of bounds [-(2^{}), 2^{}]. Due to precision limitations {} can support discrete "
      "uniform distribution only within this range.",
      name, digits, digits, cpp_name(dtype)));
}

void check_integer_bounds(DType dtype, int64_t from, int64_t last) {
  CHECK(!is_complex(dtype), RuntimeError,
        "check_random_bounds handles only integral, floating-point and boolean types");
  const Limits limits = limits_of(dtype);
  const auto inside = [&](int64_t value) {
    return static_cast<double>(value) >= limits.low && static_cast<double>(value) <= limits.high;
  };
  CHECK(inside(from), RuntimeError, "random_: from is out of bounds for {}, it is {}",
        cpp_name(dtype), from);
  CHECK(inside(last), RuntimeError, "random_: to - 1 is out of bounds for {}, it is {}",
        cpp_name(dtype), last);
  if (!is_floating(dtype)) return;
  warn_of_coarse_numbers(dtype, "from", from);
  warn_of_coarse_numbers(dtype, "to - 1", last);
}

// [from, to) as the kernel wants it.
IntegerRange bounded_range(DType dtype, int64_t from, int64_t to) {
  CHECK(from < to, RuntimeError,
        "random_ expects 'from' to be less than 'to', but got from={} >= to={}", from, to);
  if (is_floating(dtype)) {
    const int digits = limits_of(dtype).digits;
    from = rounded_from(dtype, digits, from);
    to = rounded_to(dtype, digits, to);
    CHECK(from < to, RuntimeError,
          "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
          "from={} >= to={}",
          from, to);
  }
  check_integer_bounds(dtype, from, to - 1);
  const uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  return {from, range, range >= wide_range};
}

// From `from` to the largest integer of the dtype.
IntegerRange open_range(DType dtype, int64_t from) {
  CHECK(!is_complex(dtype), RuntimeError,
        "random_from_to_impl handles only integral, floating-point and boolean types");
  int64_t last = 0;
  if (is_floating(dtype)) {
    const int digits = limits_of(dtype).digits;
    last = int64_t{1} << digits;
    from = rounded_from(dtype, digits, from);
    CHECK(from <= last, RuntimeError,
          "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to "
          "dtype, but got from={} > to_inc={}",
          from, last);
  } else if (dtype == DType::int64) {
    last = std::numeric_limits<int64_t>::max();
  } else if (dtype == DType::uint64) {
    last = -1;  // as PyTorch: its largest number is no int64
  } else {
    last = static_cast<int64_t>(limits_of(dtype).high);
  }
  check_integer_bounds(dtype, from, last);
  const uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  return {from, range, range >= wide_range};
}

// All 2^64 integers, for the dtypes that come near to holding them.
IntegerRange whole_range(DType dtype, bool empty) {
  if (empty) return {};
  constexpr const char* kernel = "random_full_64_bits_range_kernel_cpu";
  require((dtypes::Signed | dtypes::Floating | DType::uint8) - DType::float16, kernel, dtype);
  CHECK(dtype == DType::int64 || is_floating(dtype), RuntimeError,
        "{} handles only int64, double, float and bfloat16", kernel);
  return {0, 0, true};
}

}  // namespace

void draw_integers(const Tensor& out, int64_t from, std::optional<int64_t> to,
                   Generator* generator) {
  if (out.device().is_meta()) return;
  const DType dtype = out.dtype();
  const IntegerRange range = to ? bounded_range(dtype, from, *to)
                             : from == std::numeric_limits<int64_t>::min()
                                 ? whole_range(dtype, out.numel() == 0)
                                 : open_range(dtype, from);
  check_no_internal_overlap("random_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::random_integers(out.device_type(), out, range, g); });
}

void draw_integers(const Tensor& out, Generator* generator) {
  if (nothing_to_draw(out)) return;
  const DType dtype = out.dtype();
  require(dtypes::RealBool - dtypes::Unsigned, "random_kernel_cpu", dtype);
  IntegerRange range = open_range(dtype, 0);
  range.wide = item_size(dtype) == 8;
  check_no_internal_overlap("random_", out);
  with_generator(out, generator,
                 [&](Generator& g) { kernels::random_integers(out.device_type(), out, range, g); });
}

}  // namespace flambeau
