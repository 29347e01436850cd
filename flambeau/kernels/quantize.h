// The slots of quantization, and its formulas: in single precision, rounded where PyTorch rounds.
// Integers are int8, uint8 or int32; scales and zero points are numbers, or vary along one
// dimension.
#pragma once

#include "flambeau/kernels/math.h"
#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// What lies beyond the integers becomes the nearest one; what is no number becomes `unknown`.
template <class Int>
struct Quantize {
  float unknown;

  FLAMBEAU_DEVICE Int operator()(float x, float inverse, float zero) const {
    using Limits = std::numeric_limits<Int>;
    const float place = math::rint(x * inverse) + zero;
    if constexpr (sizeof(Int) == 4) {  // whose last number is none of float's
      constexpr float end = 2147483648.0f;
      return place >= end ? Limits::max() : place >= -end ? static_cast<Int>(place) : Limits::min();
    } else {
      constexpr float lowest = Limits::min(), highest = Limits::max();
      const float above = place < lowest ? lowest : place;
      const float within = above > highest ? highest : above;
      return static_cast<Int>(static_cast<int32_t>(place == place ? within : unknown));
    }
  }
};

// `Exact` tells apart what one float each for an integer and its zero point would not.
template <class Int, bool Exact>
struct Dequantize {
  FLAMBEAU_DEVICE float operator()(Int place, float scale, float zero) const {
    return (static_cast<float>(place) - zero) * scale;
  }
};
template <class Int>
struct Dequantize<Int, true> {
  double zero;
  FLAMBEAU_DEVICE float operator()(Int place, float scale, float) const {
    return static_cast<float>(static_cast<double>(place) - zero) * scale;
  }
};

namespace kernels {
constexpr DTypeSet quantized_dtypes = DTypeSet(DType::int8) | DType::uint8 | DType::int32;
// Integers of float32, reciprocals of scales and zero points, which are float32 too. What is no
// number becomes the last integer, or the first one.
SLOT(quantize, void(const TensorIter& iter, bool unknown_is_last))
// Floats of integers, scales and zero points; where all have one zero point that is a whole number,
// it is given again.
SLOT(dequantize, void(const TensorIter& iter, const int64_t* zero_point))
}  // namespace kernels

}  // namespace flambeau
