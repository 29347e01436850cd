// What kernels of random draws share: words of the generator, and iterations over samples beside
// their parameters.
#pragma once

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/random/philox.cuh"
#include "flambeau/cuda/runtime/generator.h"

namespace flambeau::cuda {

// The next `words` words of every thread's stream.
inline PhiloxState claim_words(Generator& generator, uint64_t words) {
  return static_cast<PhiloxGenerator&>(generator).claim(words);
}

// Calls launch_chunk(chunk) for an iteration over out and an input, in the order of memory of out.
template <class Launch>
void for_pairs(const char* op, const Tensor& out, const Tensor& input, const Launch& launch_chunk) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  Tensor target = out;
  const DType dtype = out.dtype();
  const Operand inputs[] = {input};
  TensorIter iter;
  iter.build({op}, &target, &dtype, 1, inputs, 1, dtype);
  for_each_chunk(iter, launch_chunk);
}

}  // namespace flambeau::cuda
