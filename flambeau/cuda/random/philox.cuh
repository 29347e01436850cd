// The words of a generator's stream (philox_block.h) at any position of any thread; and the uniform
// and normal numbers that CUDA's own generators make of such words.
#pragma once

#include <cstdint>

#include "flambeau/cuda/random/philox_block.h"
#include "flambeau/cuda/runtime/generator.h"

namespace flambeau::cuda {

__device__ inline uint64_t seed_of(const PhiloxState& state) {
  return state.of_replay ? __ldg(state.of_replay) : state.seed;
}
// In words of every thread's stream.
__device__ inline uint64_t start_of(const PhiloxState& state) {
  return state.offset + (state.of_replay ? __ldg(state.of_replay + 1) : 0);
}

// Four words of the stream of `thread`, `block` blocks after the state's position.
__device__ inline uint4 philox(const PhiloxState& state, uint64_t thread, uint64_t block) {
  const PhiloxWords words = philox_block(seed_of(state), start_of(state) / 4 + block, thread);
  return {words.x, words.y, words.z, words.w};
}

// In (0, 1].
__device__ inline float uniform_float(uint32_t word) {
  constexpr float unit = 2.3283064e-10f;  // 2^-32
  return static_cast<float>(word) * unit + unit / 2;
}
__device__ inline double uniform_double(uint32_t low, uint32_t high) {
  constexpr double unit = 1.1102230246251565e-16;  // 2^-53
  const uint64_t bits = static_cast<uint64_t>(low) ^ (static_cast<uint64_t>(high) << 21);
  return static_cast<double>(bits) * unit + unit / 2;
}

// PyTorch's kernels make samples in single precision with the fast functions of the hardware; so do
// these, and the numbers are the same.
__device__ inline float sample_log(float x) { return __logf(x); }
__device__ inline double sample_log(double x) { return log(x); }
__device__ inline float sample_exp(float x) { return __expf(x); }
__device__ inline double sample_exp(double x) { return exp(x); }
__device__ inline float sample_tan(float x) { return __tanf(x); }
__device__ inline double sample_tan(double x) { return tan(x); }

// Two normal samples by Box and Muller's method.
__device__ inline float2 normal_pair(uint32_t x, uint32_t y) {
  constexpr float turn = 2.3283064e-10f * 6.2831855f;  // 2^-32 * 2 pi
  const float radius = sqrtf(-2.0f * logf(uniform_float(x)));
  float2 pair;
  __sincosf(static_cast<float>(y) * turn + turn / 2, &pair.x, &pair.y);
  return {pair.x * radius, pair.y * radius};
}
__device__ inline double2 normal_pair(uint4 words) {
  const double radius = sqrt(-2.0 * log(uniform_double(words.x, words.y)));
  double2 pair;
  sincospi(uniform_double(words.z, words.w) * 2.0, &pair.x, &pair.y);
  return {pair.x * radius, pair.y * radius};
}

__device__ inline uint32_t word_of(const uint4& words, uint64_t j) {
  return j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w;
}

// The stream of one thread, word after word.
struct WordStream {
  PhiloxState state;
  uint64_t thread, taken = 0;
  uint4 words{};
  __device__ uint32_t operator()() {
    if (taken % 4 == 0) words = philox(state, thread, taken / 4);
    return word_of(words, taken++ % 4);
  }
};

}  // namespace flambeau::cuda
