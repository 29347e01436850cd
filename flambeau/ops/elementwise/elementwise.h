// The machinery behind rows: one function for unary and one for binary ops, driven by a row's
// description; functional, out= and in-place forms are the same code.
#pragma once

#include "flambeau/kernels/elementwise.h"
#include "flambeau/ops/op.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// What a gradient keeps, as letters. The names are those that rows use.
struct Keep {
  static constexpr uint8_t nothing = 0, x = 1, a = 1, b = 2, y = 4, ab = 3, ay = 5, by = 6, aby = 7;
};

enum class OutDType : uint8_t { same, boolean };

struct UnaryRow {
  const char* name;
  DTypeSet dtypes;
  OutDType out;
  const ElementwiseSlot* slot;
  uint8_t keeps;
  // Null where there is no derivative.
  Tensor (*gradient)(const Tensor& g, const Tensor& kept, const Scalar* params);
  uint64_t flags;  // those of OpDef that the row asks for
};

struct BinaryRow {
  const char* name;
  DTypeSet dtypes;
  OutDType out;
  const ElementwiseSlot* slot;
  uint8_t keeps_a, keeps_b;
  using Gradient = Tensor (*)(const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& y);
  Gradient gradient_a, gradient_b;
};

// With `out` undefined, a new tensor. If `out` is the input itself, in place.
Tensor unary_op(const UnaryRow& row, const Tensor& input, const Scalar* params, int n_params,
                const Tensor& out = {});
Tensor binary_op(const BinaryRow& row, const Operand& a, const Operand& b, const Tensor& out = {});

// For ops that are no rows: the device that tensors share, and a check that they do.
Device common_device(const char* op, std::initializer_list<Operand> operands);
// The operand cast to dtype, keeping history; a number wraps where it does not fit.
Tensor cast_operand(const Operand& operand, DType dtype, Device device);
// The tensor itself, every element set to the number; it wraps where it does not fit.
Tensor filled(Tensor tensor, const Scalar& value);
// Raises PyTorch's sentence unless a result of dtype `from` may be written into `to`.
void check_result_cast(const char* op, DType from, DType to);
// Raises if a or b is bool: what subtraction refuses, whatever the other operand is.
void check_no_bool_operand(const Operand& a, const Operand& b);
// The dtype that must be able to hold a number beside tensors of `dtype`: as PyTorch's kernels,
// those of other devices than the CPU combine half precision with numbers in single precision.
DType dtype_for_numbers(DType dtype, Device device);
// Raises unless the number can be stored in dtype.
void check_number_fits(const char* op, const Scalar& value, DType dtype);
// The number as a lower or upper bound of dtype: one beyond the range on the far side is its end;
// on the near side it is an error.
Scalar clamp_bound(const Scalar& value, DType dtype, bool low, Device device);
// The set's dtype that an input of this dtype is computed in; integers become the default float.
DType compute_dtype(const char* op, DTypeSet dtypes, DType dtype);

// Helpers of gradients.
Tensor mul_conj(const Tensor& g, const Tensor& x);  // g * conj(x)
Tensor div_conj(const Tensor& g, const Tensor& x);  // g / conj(x)
// The mask in the order of memory of `first` or, where that is expanded, `second`: what is chosen
// by a mask lies as the mask does.
Tensor lying_as(const Tensor& first, const Tensor& second, const Tensor& mask);
// 1 / (a^2 + b^2), and zero at the origin, where the angle of (a, b) has no derivative.
Tensor inverse_square_sum(const Tensor& a, const Tensor& b);

}  // namespace flambeau
