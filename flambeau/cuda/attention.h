// Attention in one fused kernel, where a library brings one. Each returns false, having done
// nothing, for a problem that it has no kernel for.
#pragma once

#include "flambeau/kernels/attention.h"

namespace flambeau::cuda {

struct FusedAttention {
  bool (*forward)(const Attention& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& out, const Tensor& lse) = nullptr;
  // Fills grad_q, grad_k and grad_v.
  bool (*backward)(const Attention& problem, const Tensor& grad, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                   const Tensor& grad_k, const Tensor& grad_v) = nullptr;
};

inline constinit FusedAttention fused_attention;

// Writes both numbers to device memory, 16 bytes apart, in the order of the stream.
void write_seed(int64_t* to, uint64_t seed, uint64_t offset);

}  // namespace flambeau::cuda
