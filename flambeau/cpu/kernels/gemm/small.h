// The loops of small matrix products, for kernels that multiply blocks in a cache many times over:
// nothing is checked, copied or shared among threads.
#pragma once

#include <complex>
#include <cstdint>

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/matmul.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// One product, or a part of its rows and columns: out = alpha * a @ b + beta * addend.
template <class T>
struct Part {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* out;
  int64_t out_row, out_col;
  const T* addend;  // null: none
  int64_t addend_row, addend_col;
  ComputeType<T> alpha, beta;
};

// For float and double, any strides; without copies where rows of b and out are contiguous, or
// there are fewer than `few_rows` and rows of a and columns of b are.
constexpr int64_t few_rows = 8;
template <class T>
void block_product(const Part<T>& p);

// The same for complex numbers of either; b is copied, so that it should be small.
template <class R>
void complex_product(const Part<std::complex<R>>& p);

// The same for int32 and int64.
template <class T>
void integer_product(const Part<T>& p);

// Batches of matrices of 2 x 2 or 4 x 4 elements; false, and nothing done, for any others.
bool tiny_batch(const Gemm& p);

// Rows of `from` as columns of `to`, for float and double. Both are contiguous along their rows.
template <class T>
void transpose(const T* from, int64_t rows, int64_t cols, int64_t step, T* to, int64_t to_step);

}  // namespace flambeau::cpu::ISA_NAMESPACE
