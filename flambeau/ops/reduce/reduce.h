// What all reductions share: which dimensions they take, the shape they leave, the geometry that
// kernels get, and the way back from a reduced gradient to the shape of the input.
#pragma once

#include "flambeau/kernels/reduce.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A set of dimensions, one bit each.
class DimSet {
 public:
  DimSet() = default;
  static DimSet all(int64_t rank) { return DimSet(rank >= 64 ? ~0ull : (1ull << rank) - 1); }
  // The dimensions named; none, or an empty list, means all. A zero-dim tensor has dimension 0.
  static DimSet of(std::optional<IntSpan> dims, int64_t rank);
  static DimSet of(int64_t dim, int64_t rank) {
    return rank == 0 ? (wrap_dim(dim, 0), DimSet()) : DimSet(1ull << wrap_dim(dim, rank));
  }

  [[nodiscard]] bool has(int64_t dim) const { return bits_ >> dim & 1; }
  [[nodiscard]] bool is_all(int64_t rank) const { return bits_ == all(rank).bits_; }

 private:
  explicit DimSet(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

// The shape that is left when `dims` are reduced.
Dims reduced_shape(IntSpan sizes, DimSet dims, bool keepdim);
// The number of elements that make one result.
int64_t reduced_count(IntSpan sizes, DimSet dims);

// Fills a Reduction of `input` over `dims`. Results are contiguous tensors of the reduced shape;
// `out` and `second` may be undefined.
void describe_reduction(Reduction& r, const Tensor& input, DimSet dims, const Tensor& out,
                        const Tensor& second = {});

// Allocates the result, runs the slot and returns.
Tensor reduce_with(const ReduceSlot& slot, const Tensor& input, DimSet dims, bool keepdim,
                   DType out_dtype);

// For out= forms: puts `result` into `out`, resized if need be.
Tensor write_result(const Tensor& out, const Tensor& result);

// A reduced tensor with its reduced dimensions back, of size one.
Tensor with_reduced_dims(const Tensor& reduced, IntSpan sizes, DimSet dims, bool keepdim);
// The same, expanded to the shape of the input.
Tensor spread_back(const Tensor& reduced, IntSpan sizes, DimSet dims, bool keepdim);

// Records `values` as the elements of `input` at `indices` along dim (max, sort, topk, ...).
void record_selection(const char* op, const Tensor& input, int64_t dim, bool keepdim,
                      const Tensor& values, const Tensor& indices);

// Raises IndexError unless the reduced dimensions of an op without neutral element hold something.
void check_not_empty(const char* op, const Tensor& input, std::optional<IntSpan> dims);

}  // namespace flambeau
