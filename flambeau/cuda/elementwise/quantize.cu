// Quantization on the device.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/quantize.h"

namespace flambeau::cuda {
namespace {

void quantize_kernel(const TensorIter& iter, bool unknown_is_last) {
  dispatch<kernels::quantized_dtypes>("quantize", iter.dtypes[0], [&](auto tag) {
    using Int = typename decltype(tag)::type;
    using Limits = std::numeric_limits<Int>;
    const auto unknown = static_cast<float>(unknown_is_last ? Limits::max() : Limits::min());
    elementwise<Int, float, float, float>("quantize", iter, Quantize<Int>{unknown});
  });
}
KERNEL_FOR(quantize, quantize_kernel)

void dequantize_kernel(const TensorIter& iter, const int64_t* zero_point) {
  if (zero_point && iter.dtypes[1] == DType::int32) {
    return elementwise<float, int32_t, float, float>(
        "dequantize", iter, Dequantize<int32_t, true>{static_cast<double>(*zero_point)});
  }
  dispatch<kernels::quantized_dtypes>("dequantize", iter.dtypes[1], [&](auto tag) {
    using Int = typename decltype(tag)::type;
    elementwise<float, Int, float, float>("dequantize", iter, Dequantize<Int, false>());
  });
}
KERNEL_FOR(dequantize, dequantize_kernel)

}  // namespace
}  // namespace flambeau::cuda
