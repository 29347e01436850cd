// The slots of attention. Tensors are (batch, heads, steps, width) with any strides but 1 for the
// last; queries of several heads may share the keys and values of one.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Where random numbers begin in the stream of a seed. In a captured graph `of_replay` points to
// seed and offset in the device's memory, which every replay writes; this offset is added.
struct RandomPlace {
  uint64_t seed = 0, offset = 0;
  const uint64_t* of_replay = nullptr;
};

struct Attention {
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  double scale;
  bool causal;           // query i looks at keys 0 .. i
  double dropout = 0;    // the part of the weights that is dropped
  RandomPlace random{};  // of the numbers that say which
};

namespace kernels {

// mask: undefined, bools that say where to look, or numbers of q's dtype to add to the scores;
// broadcast to (batch, heads, queries, keys) by its strides. lse: (batch, heads, queries) receives
// the logarithms of the sums of exponentials, float32 or, for double, float64.
SLOT(attention, void(const Attention& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& mask, const Tensor& out, const Tensor& lse))
// Whether the kernels of this device drop weights, forward and backward, for such a problem. Where
// the slot is empty, or the answer no, the problem has to have no dropout.
SLOT(attention_drops, void(const Attention& problem, const Tensor& q, const Tensor& k,
                           const Tensor& v, bool& answer))
// Takes the numbers of one problem, forward and backward, from a generator whose mutex is held.
SLOT(attention_draws, void(Generator& generator, RandomPlace& place))
// Fills grad_q, grad_k and grad_v, whose memory has no gaps.
SLOT(attention_backward,
     void(const Attention& problem, const Tensor& grad, const Tensor& q, const Tensor& k,
          const Tensor& v, const Tensor& mask, const Tensor& out, const Tensor& lse,
          const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v))

}  // namespace kernels
}  // namespace flambeau
