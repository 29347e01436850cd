// Conversions of the dtypes that are only stored: Note [Stored dtypes].
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/elementwise.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

const Float8Format& format_of(DType dtype) {
  const Float8Format* format = nullptr;
  dispatch<dtypes::Float8>("copy_", dtype, [&](auto tag) { format = &decltype(tag)::type::kind; });
  return *format;
}

// Encodes rows of T. Which kind of format it is stands outside the loop, which is vector code then.
template <class T>
void encode_rows(const TensorIter& iter, const Float8Format& format) {
  const auto as = [&](auto has_sign) {
    const auto formula = [format](float x) {
      Float8Format known = format;
      known.has_sign = decltype(has_sign)::value;
      return float8::encode(known, x);
    };
    elementwise_loop<uint8_t, T>(iter, formula, 4);
  };
  format.has_sign ? as(std::true_type()) : as(std::false_type());
}

// The formats differ in numbers only, so that one loop serves those of a kind.
void convert_float8(const TensorIter& iter, const Float8Format& format, bool encodes) {
  constexpr DTypeSet floats = dtypes::Reduced | DType::float32;
  if (encodes) {
    dispatch<floats>("copy_", iter.dtypes[1],
                     [&](auto tag) { encode_rows<typename decltype(tag)::type>(iter, format); });
    return;
  }
  float values[256];
  for (int code = 0; code < 256; ++code) {
    values[code] = float8::decode(format, static_cast<uint8_t>(code));
  }
  dispatch<floats>("copy_", iter.dtypes[0], [&](auto tag) {
    elementwise_loop<typename decltype(tag)::type, uint8_t>(
        iter, [&values](uint8_t code) { return values[code]; }, 1);
  });
}

void convert_stored_kernel(const TensorIter& iter) {
  const bool encodes = is_stored(iter.dtypes[0]);
  const DType stored = iter.dtypes[encodes ? 0 : 1];
  if (stored != DType::complex32) return convert_float8(iter, format_of(stored), encodes);
  using Wide = std::complex<float>;
  if (encodes) {
    elementwise_loop<ComplexHalf, Wide>(
        iter, [](Wide x) { return ComplexHalf(x); }, 2);
  } else {
    elementwise_loop<Wide, ComplexHalf>(
        iter, [](ComplexHalf x) { return x.to<Wide>(); }, 2);
  }
}
KERNEL_FOR(convert_stored, convert_stored_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
