// The rows of binary.def for float16 and bfloat16.
#define ROW_GROUP Group::reduced
#include "flambeau/cuda/elementwise/binary.cuh"
#include "flambeau/kernels/neighbour.h"

namespace flambeau::cuda {
namespace {

struct NextPattern {
  uint16_t infinity;
  __device__ uint16_t operator()(uint16_t a, uint16_t b) const {
    return math::next_pattern(a, b, infinity);
  }
};

void nextafter_kernel(const TensorIter& iter, const Scalar*) {
  const uint16_t infinity = iter.dtypes[1] == DType::float16 ? 0x7c00 : 0x7f80;
  elementwise<uint16_t, uint16_t, uint16_t>("nextafter", iter, NextPattern{infinity});
}

// After the rows, so that it stays in the slot.
const bool nextafter_by_pattern =
    enter_row<nextafter_formula>(kernels::nextafter, ROW_GROUP, nextafter_kernel);

}  // namespace
}  // namespace flambeau::cuda
