// Attention that never holds all scores: in half precision where a library brings a fused kernel,
// in single precision by our own.
#pragma once

#include "flambeau/kernels/attention.h"

namespace flambeau::cuda {

// Each returns false, having done nothing, for a problem that the library has no kernel for.
struct FusedAttention {
  bool (*forward)(const Attention& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& out, const Tensor& lse) = nullptr;
  // Fills grad_q, grad_k and grad_v.
  bool (*backward)(const Attention& problem, const Tensor& grad, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                   const Tensor& grad_k, const Tensor& grad_v) = nullptr;
};

inline constinit FusedAttention fused_attention;

// Single precision without dropout, for heads of width 128 or less (attention_tiles.cu).
bool fits_tiles(const Attention& problem, DType dtype);
void attend_in_tiles(const Attention& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& mask, const Tensor& out, const Tensor& lse);
void attend_in_tiles_backward(const Attention& problem, const Tensor& grad, const Tensor& q,
                              const Tensor& k, const Tensor& v, const Tensor& mask,
                              const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                              const Tensor& grad_k, const Tensor& grad_v);

// Writes seed and offset to device memory, 16 bytes apart, in the order of the stream.
void write_seed(int64_t* to, const RandomPlace& place);

}  // namespace flambeau::cuda
