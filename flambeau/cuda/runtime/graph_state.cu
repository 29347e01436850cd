// The kernel before a graph's replay: where in its stream a random generator stands.
#include "flambeau/cuda/runtime/graph.h"
#include "flambeau/cuda/runtime/launch.cuh"

namespace flambeau::cuda {
namespace {

__global__ void state_kernel(uint64_t* state, uint64_t seed, uint64_t offset) {
  state[0] = seed;
  state[1] = offset;
}

}  // namespace

void write_philox_state(uint64_t* state, uint64_t seed, uint64_t offset) {
  launch("CUDAGraph.replay", state_kernel, 1, 1, state, seed, offset);
}

}  // namespace flambeau::cuda
