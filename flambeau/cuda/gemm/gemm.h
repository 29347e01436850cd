// One matrix product as cuBLASLt takes it, row-major, and the call that runs it.
#pragma once

#include <cstdint>

#include "flambeau/tensor/scalar.h"

namespace flambeau::cuda {

// Unit stride along one dimension, `ld` elements along the other, `batch` from matrix to matrix.
struct LtMatrix {
  void* data = nullptr;
  bool transposed = false;  // unit stride along the rows' dimension
  int64_t ld = 0, batch = 0;
};

enum class Activation : uint8_t { none, relu, gelu };

// out[m, n] = alpha * a @ b + beta * c, or + bias (n) for every row, and the activation of that.
struct LtProduct {
  const char* op;
  DType dtype;
  int64_t m, n, k, count;
  LtMatrix a, b, c, out;  // c is read only where beta is not zero; c and out are not transposed
  const void* bias = nullptr;
  Scalar alpha, beta;
  bool wide_out = false;  // c and out in the type that half precision is added up in
  Activation activation = Activation::none;
};

// False if cuBLASLt has no algorithm for it (a bias that it cannot add).
bool run_lt(const LtProduct& product, int device);

}  // namespace flambeau::cuda
