// Batched tensors: what a function inside vmap sees of a batch.
//
// Note [Batched tensors]
// A batched tensor has the sizes, strides and dtype of one sample and no memory; the tensor behind
// it holds all samples, along its first dimension, and has the history. The mark Pending::batched
// sends every op to ops/layers/vmap.cpp, which computes with what is behind. Batches nest: the
// tensor behind may be batched by an outer vmap, of a lower level.
#pragma once

#include "flambeau/base/check.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Something wants the value or the memory of one sample. Raised where an op is computed with
// batched tensors inside: then it is called sample by sample.
struct SampleError : RuntimeError {
  using RuntimeError::RuntimeError;
};

// One sample, of a tensor whose first dimension counts samples. Levels begin at 1.
Tensor make_batched(const Tensor& behind, int level);
// After an op that changed sizes or strides of what is behind.
void refresh_batched(const Tensor& batched);

inline bool is_batched(const Tensor& tensor) { return tensor->pending & Pending::batched; }
inline bool is_batched_at(const Tensor& tensor, int level) {
  return is_batched(tensor) && tensor->level == level;
}
inline Tensor behind(const Tensor& batched) { return Tensor(batched->behind); }

}  // namespace flambeau
