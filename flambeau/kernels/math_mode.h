// How exact and how repeatable kernels have to be: what torch.backends lets a program choose.
// Backends read it; the defaults are PyTorch's.
#pragma once

#include <atomic>

namespace flambeau {

struct MathMode {
  std::atomic<bool> matmul_tf32{false};     // single precision products in TF32
  std::atomic<bool> conv_tf32{true};        // the same for convolutions
  std::atomic<bool> rnn_tf32{true};         // and for recurrent layers
  std::atomic<bool> conv_benchmark{false};  // time several algorithms for a shape, keep the fastest
  std::atomic<bool> deterministic{false};   // only algorithms that give the same in every run
  std::atomic<bool> deterministic_warn_only{false};  // warn where there is no such algorithm
  std::atomic<bool> attention_formula{false};   // attention by its formula, without other kernels
  std::atomic<bool> fills_uninitialized{true};  // if deterministic, new memory has known contents
};

inline constinit MathMode math_mode;

}  // namespace flambeau
