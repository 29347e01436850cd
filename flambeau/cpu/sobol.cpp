// The CPU kernel of Sobol sequences in the order of Antonov and Saleev: each point differs from the
// one before by a single direction, that of the lowest bit which is zero in the number of the step.
#include <bit>
#include <cstdint>

#include "flambeau/kernels/random.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

void sobol_draw_kernel(const Tensor& out, const Tensor& quasi, const Tensor& directions,
                       int64_t done) {
  const int64_t points = out.size(0), dimensions = out.size(1), bits = directions.size(1);
  int64_t* state = quasi.data<int64_t>();
  const int64_t* table = directions.data<int64_t>();
  dispatch<dtypes::Floating>("_sobol_engine_draw", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Real = ComputeType<T>;
    T* row = out.data<T>();
    for (int64_t i = 0; i < points; ++i, row += dimensions) {
      const int64_t bit = std::countr_one(static_cast<uint64_t>(done + i));
      for (int64_t d = 0; d < dimensions; ++d) {
        state[d] ^= table[d * bits + bit];
        row[d] = static_cast<T>(static_cast<Real>(state[d]) * Real(0x1p-30));
      }
    }
  });
}

const bool filled = [] {
  kernels::sobol_draw.fill(DeviceType::cpu, sobol_draw_kernel);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
