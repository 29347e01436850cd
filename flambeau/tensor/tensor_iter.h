// TensorIter answers for every elementwise op: broadcast, promote, allocate, order and merge
// dimensions. Kernels then see data pointers and byte strides of a few merged dimensions, innermost
// first; most often one dimension, contiguous.
#pragma once

#include <optional>

#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A tensor or a number, as binary ops take it. Borrows the tensor.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  requires std::is_constructible_v<Scalar, T> Operand(const T& number)
      : scalar_(number) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_tensor() const { return tensor_ != nullptr; }
  [[nodiscard]] const Tensor& tensor() const { return *tensor_; }
  [[nodiscard]] const Scalar& scalar() const { return scalar_; }
  [[nodiscard]] bool requires_grad() const { return tensor_ && tensor_->requires_grad(); }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_;
};

// Type promotion over operands: tensors with dimensions count before zero-dim tensors, and those
// before numbers; a lower class only changes the category (bool, int, float, complex).
class ResultType {
 public:
  void add(const Tensor& tensor);
  void add(const Scalar& scalar);
  void add(const Operand& operand);
  [[nodiscard]] DType get() const;

 private:
  std::optional<DType> dimensioned_, zero_dim_, number_;
};
DType result_type(const Operand& a, const Operand& b);

class TensorIter {
 public:
  static constexpr int max_operands = 5;

  // Outputs come first. An undefined output is allocated; a defined one is resized to the common
  // shape if it may be (out=), or must have that shape (in-place).
  struct Config {
    std::string_view op;
    bool resize_outputs = false;  // out= semantics
    bool check_overlap = true;    // an output must not overlap itself or partly an input
  };

  int count = 0;    // operands
  int outputs = 0;  // of them, the first ones
  int ndim = 0;     // merged dimensions, innermost first
  int64_t numel = 0;
  int64_t part_of = 0;  // elements of the op of which these are a part, if they are one
  // What all inputs but numbers are stored in where `dtypes` says what they are computed in, as
  // elementwise kernels take them on the CPU.
  std::optional<DType> stored_dtype;
  Device device;
  int64_t shape[max_dims];
  int64_t strides[max_operands][max_dims];  // in bytes
  char* data[max_operands];
  DType dtypes[max_operands];
  bool is_number[max_operands];  // data points into numbers_, a host value with stride 0
  alignas(16) char numbers[max_operands][16];

  // Fills everything. `inputs` have been cast to the dtypes that the kernel wants; numbers take
  // dtype `number_dtype`. New outputs have `out_dtypes`.
  void build(const Config& config, Tensor* outs, const DType* out_dtypes, int n_outs,
             const Operand* inputs, int n_inputs, DType number_dtype);

  // One dimension, all operands contiguous, all of the same size: what most calls are.
  [[nodiscard]] bool is_contiguous() const;
  // All byte offsets fit 32 bits (what device code prefers to index with).
  [[nodiscard]] bool can_use_32bit() const;

 private:
  void set_dims(const Config& config, Tensor* outs, const DType* out_dtypes, const Operand* inputs,
                int n_inputs, IntSpan common);
  void set_strides(IntSpan common, const Tensor* outs, const Operand* inputs);
  void merge_dims();
};

// Runs loop over the whole iteration space on the CPU, in parallel above the grain. `cost` says how
// many plain adds an element is worth. A block is m rows of n elements: data[k] is where operand k
// begins, steps[k] its byte stride within a row, row_steps[k] from row to row. Where operands lie
// in memory in different orders, blocks are tiles that fit the cache.
struct Block {
  int64_t n, m;
  const int64_t *steps, *row_steps;
};
using BlockLoop = void (*)(void* context, char** data, const Block& block);
void for_each_block(const TensorIter& iter, void* context, BlockLoop loop, int cost);

template <class Body>
void for_each_block(const TensorIter& iter, const Body& body, int cost = 1) {
  for_each_block(
      iter, const_cast<void*>(static_cast<const void*>(&body)),
      [](void* context, char** data, const Block& block) {
        (*static_cast<const Body*>(context))(data, block);
      },
      cost);
}

// The same, row by row: body(data, steps, n).
template <class Body>
void for_each_row(const TensorIter& iter, const Body& body, int cost = 1) {
  for_each_block(
      iter,
      [&body, count = iter.count](char** data, const Block& block) {
        for (int64_t row = 0; row < block.m; ++row) {
          char* at[TensorIter::max_operands] = {};
          for (int k = 0; k < count; ++k) at[k] = data[k] + row * block.row_steps[k];
          body(at, block.steps, block.n);
        }
      },
      cost);
}

// Raises if one element of `tensor` lies in memory twice (an expanded tensor as an output).
void check_no_internal_overlap(std::string_view op, const Tensor& tensor);
// Raises if `out` overlaps `input` without being the same window.
void check_no_partial_overlap(std::string_view op, const Tensor& out, const Tensor& input);
// Dense strides for a new output in the dimension order that the operands agree on.
Dims common_strides(IntSpan shape, const Tensor* const* operands, int count);

}  // namespace flambeau
