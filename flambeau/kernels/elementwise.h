// The slots of all elementwise rows. `params` are the row's extra numbers, null if it has none.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

using ElementwiseSlot = Slot<void(const TensorIter& iter, const Scalar* params)>;

namespace kernels {
#define ROW_SLOT(name) inline constinit ElementwiseSlot name{#name};
#define UNARY(name, dtypes, value, keeps, gradient, doc, ...) ROW_SLOT(name)
#define PREDICATE(name, dtypes, value, doc, ...) ROW_SLOT(name)
#define UNARY1(name, p, p_default, dtypes, value, keeps, gradient, doc, ...) ROW_SLOT(name)
#define UNARY2(name, p, p_default, q, q_default, dtypes, value, keeps, gradient, doc, ...) \
  ROW_SLOT(name)
#define KERNEL2(name, dtypes, value) ROW_SLOT(name)
#include "flambeau/kernels/unary.def"
#define BINARY(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) ROW_SLOT(name)
#define KERNEL(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc) ROW_SLOT(name)
#define COMPARE(name, dtypes, value, doc, ...) ROW_SLOT(name)
#define INTEGERS(name, dtypes, value, doc) ROW_SLOT(name)
#include "flambeau/kernels/binary.def"
#include "flambeau/kernels/no_rows.h"

// Elementwise kernels that are no rows because their operands differ in dtype or count.
SLOT(copy, void(const TensorIter& iter))            // out, in: any two dtypes
SLOT(convert_stored, void(const TensorIter& iter))  // see Note [Stored dtypes]
SLOT(where, void(const TensorIter& iter))           // out, condition (bool), a, b
SLOT(clamp, void(const TensorIter& iter))           // out, x, low, high
SLOT(abs, void(const TensorIter& iter))             // complex in, real out
SLOT(bitwise_not, void(const TensorIter& iter))
SLOT(add_scaled, void(const TensorIter& iter, const Scalar& alpha))  // a + alpha * b
SLOT(pow, void(const TensorIter& iter))                              // a ** b
SLOT(addcmul, void(const TensorIter& iter, const Scalar& value))     // x + value * a * b
SLOT(addcdiv, void(const TensorIter& iter, const Scalar& value))     // x + value * a / b
// a + w * (b - a): w is a third operand, or a number that is not rounded to the dtype of a and b
SLOT(lerp, void(const TensorIter& iter, const Scalar* number))
SLOT(round, void(const TensorIter& iter, int64_t decimals))
SLOT(nan_to_num, void(const TensorIter& iter, double nan, double posinf, double neginf))
SLOT(gelu, void(const TensorIter& iter, bool tanh_form))
}  // namespace kernels

}  // namespace flambeau
