// CPU kernels of quantization. The formulas are loops that the compiler turns into vector code; one
// scale for all elements is a parameter of the formula, so that only these are read.
#include "flambeau/kernels/quantize.h"

#include "flambeau/cpu/kernels/elementwise/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class Out, class In, class F>
void scaled_loop(const TensorIter& iter, const F& formula) {
  if (!iter.is_number[2] || !iter.is_number[3]) {
    return elementwise_loop<Out, In, float, float>(iter, formula, 2);
  }
  TensorIter alone = iter;
  alone.count = 2;
  const float scale = load<float>(iter.data[2]), zero = load<float>(iter.data[3]);
  elementwise_loop<Out, In>(
      alone, [=](In x) { return formula(x, scale, zero); }, 2);
}

void quantize_kernel(const TensorIter& iter, bool unknown_is_last) {
  dispatch<kernels::quantized_dtypes>("quantize", iter.dtypes[0], [&](auto tag) {
    using Int = typename decltype(tag)::type;
    using Limits = std::numeric_limits<Int>;
    const auto unknown = static_cast<float>(unknown_is_last ? Limits::max() : Limits::min());
    scaled_loop<Int, float>(iter, Quantize<Int>{unknown});
  });
}
KERNEL_FOR(quantize, quantize_kernel)

void dequantize_kernel(const TensorIter& iter, const int64_t* zero_point) {
  if (zero_point && iter.dtypes[1] == DType::int32) {
    return scaled_loop<float, int32_t>(iter,
                                       Dequantize<int32_t, true>{static_cast<double>(*zero_point)});
  }
  dispatch<kernels::quantized_dtypes>("dequantize", iter.dtypes[1], [&](auto tag) {
    using Int = typename decltype(tag)::type;
    scaled_loop<float, Int>(iter, Dequantize<Int, false>());
  });
}
KERNEL_FOR(dequantize, dequantize_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
