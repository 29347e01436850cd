// The slots of linear algebra. Matrices come in batches, column by column and without gaps:
// strides (..., rows * columns, 1, rows). Most slots work in place. `info`, int32 and one a matrix,
// is 0 where all went well and otherwise says what failed, as LAPACK does.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// What to do with a matrix before it is used.
enum class Transposed : char { no = 'N', yes = 'T', conjugated = 'C' };

enum class LeastSquares : uint8_t { gels, gelsy, gelsd, gelss };

namespace kernels {

// Rows are exchanged as `pivots` (int32, counted from 1) say; a becomes L and U in one matrix. On
// CUDA, undefined pivots: no rows are exchanged.
SLOT(lu_factor, void(const Tensor& a, const Tensor& pivots, const Tensor& info))
// Plays the exchanges through on the rows of `order` (int64).
SLOT(pivot_order, void(const Tensor& pivots, const Tensor& order))
SLOT(lu_solve, void(const Tensor& lu, const Tensor& pivots, const Tensor& b, Transposed how))
SLOT(determinant, void(const Tensor& lu, const Tensor& pivots, const Tensor& out))
SLOT(log_determinant,
     void(const Tensor& lu, const Tensor& pivots, const Tensor& sign, const Tensor& logabs))
SLOT(matrix_inverse, void(const Tensor& a, const Tensor& info))
// b becomes the solution of op(a) x = b (left) or x op(a) = b.
SLOT(triangular_solve, void(const Tensor& a, const Tensor& b, bool left, bool upper, Transposed how,
                            bool unit_diagonal))
// Reads and writes one triangle; the other is left as it is.
SLOT(cholesky, void(const Tensor& a, const Tensor& info, bool upper))
// A lower factor without zeros on its diagonal becomes the inverse of the whole matrix. CPU.
SLOT(cholesky_inverse, void(const Tensor& a))
SLOT(ldl_factor, void(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian))
SLOT(ldl_solve, void(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian))
// R above the diagonal of a, the Householder vectors below, their factors in tau.
SLOT(qr_factor, void(const Tensor& a, const Tensor& tau))
// The vectors become the first columns of the product of their reflections.
SLOT(householder_product, void(const Tensor& a, const Tensor& tau))
// c becomes Q c (left) or c Q; or with the adjoint of Q.
SLOT(householder_multiply,
     void(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool adjoint))
// Overwrites a. u and vh undefined: the values alone. Their sizes say how many vectors are wanted.
SLOT(svd,
     void(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info))
// a becomes the eigenvectors if they are wanted, else it is overwritten.
SLOT(eigh,
     void(const Tensor& a, const Tensor& values, const Tensor& info, bool upper, bool with_vectors))
// Overwrites a. Values and vectors are complex; vectors may be undefined.
SLOT(eig, void(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info))
// b, of max(rows, columns) rows, becomes the solution. rank (int64) and singular values where the
// method gives them.
SLOT(least_squares, void(const Tensor& a, const Tensor& b, LeastSquares method, double rcond,
                         const Tensor& rank, const Tensor& singular_values, const Tensor& info))

}  // namespace kernels
}  // namespace flambeau
