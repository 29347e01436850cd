// Poisson samples on CUDA, by the device functions of cuRAND, whose numbers PyTorch's are. Every
// element has the stream of its own number.
#include <curand_kernel.h>

#include "flambeau/cuda/random/random.cuh"
#include "flambeau/kernels/random.h"

namespace flambeau::cuda {
namespace {

// A rate that is no number has no samples, and cuRAND would look for one for ever.
__device__ double next_poisson(curandStatePhilox4_32_10_t* state, double rate) {
  if (isnan(rate)) return rate;
  return rate > 0 ? curand_poisson(state, rate) : 0;
}

template <class T>
__global__ void __launch_bounds__(block_size)
    poisson_samples(const __grid_constant__ Strided<2> s, PhiloxState philox) {
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  char* at[2];
  s.place(i, at);
  curandStatePhilox4_32_10_t state;
  curand_init(seed_of(philox), i, start_of(philox), &state);
  const auto rate = static_cast<double>(static_cast<ComputeType<T>>(*reinterpret_cast<T*>(at[1])));
  *reinterpret_cast<T*>(at[0]) =
      static_cast<T>(static_cast<ComputeType<T>>(next_poisson(&state, rate)));
}

void poisson_kernel(const Tensor& out, const Tensor& rate, Generator& generator) {
  dispatch<dtypes::Floating>("poisson_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_pairs("poisson", out, rate, [&](const TensorIter& chunk) {
      launch("poisson", poisson_samples<T>, blocks_for(chunk.numel, block_size), block_size,
             Strided<2>(chunk), claim_words(generator, 20));
    });
  });
}
KERNEL_FOR(poisson, poisson_kernel)

}  // namespace
}  // namespace flambeau::cuda
