// What the ops of linear algebra share: checks in PyTorch's words, matrices in the order that
// LAPACK wants, and the ops that several families call.
#pragma once

#include "flambeau/kernels/linalg.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

// --- Checks ---------------------------------------------------------------------------------
void check_matrix(std::string_view op, const Tensor& a, std::string_view name = "A");
void check_square(std::string_view op, const Tensor& a, std::string_view name = "A");
// Floating or complex; `low_precision` says whether half and bfloat16 may pass.
void check_float(std::string_view op, const Tensor& a, bool low_precision = true);
// Single or double precision, for ops that ask LAPACK even where there is nothing to compute.
void check_lapack(const Tensor& x);
void check_alike(std::string_view op, const Tensor& a, const Tensor& b, std::string_view name_a,
                 std::string_view name_b);
// For a x = b (left) or x a = b: raises unless the shapes of the matrices fit.
void check_system(std::string_view op, const Tensor& a, const Tensor& b, bool left);
// Raises LinAlgError (or, as PyTorch for LU, RuntimeError) with sentence(code) for the first matrix
// whose info is not 0.
void check_info(std::string_view op, const Tensor& info, std::string (*sentence)(int code),
                bool as_runtime_error = false);

// --- Matrices for LAPACK --------------------------------------------------------------------
// An uninitialised batch of matrices, column by column.
Tensor make_columns(IntSpan sizes, DType dtype, Device device);
// A copy of x, without history, column by column, its batch broadcast to `batch` where given.
Tensor copy_columns(const Tensor& x, std::optional<IntSpan> batch = {});
// The same, or x itself (without history) if it is already laid out like that.
Tensor as_columns(const Tensor& x, std::optional<IntSpan> batch = {});
inline IntSpan batch_of(const Tensor& x) { return x.sizes().first(x.dim() - 2); }
Tensor make_info(IntSpan batch, Device device);  // int32 zeros
Dims with_matrix(IntSpan batch, int64_t rows, int64_t columns);
// x with its batch broadcast, as a view with history.
Tensor expand_batch(const Tensor& x, IntSpan batch);

// --- Small compositions, differentiable -------------------------------------------------------
Tensor identity_like(const Tensor& x, int64_t n);         // n x n, of its dtype and device
Tensor scale_columns(const Tensor& x, const Tensor& by);  // x diag(by)
Tensor scale_rows(const Tensor& x, const Tensor& by);     // diag(by) x
Tensor add_to_diagonal(const Tensor& x, const Tensor& d);
Tensor diagonal_of(const Tensor& x);
Tensor zero_diagonal(const Tensor& x);
// The same elements laid out column by column, differentiable.
Tensor in_columns(const Tensor& x);
// Makes `out`, which does not depend on the inputs, part of the graph with a derivative of zero.
void record_constant(const char* op, const Tensor& out, const Tensor& a, const Tensor& b = {});
// Where the diagonal of x is imaginary beyond rounding, the loss depends on a phase.
bool has_phase(const Tensor& diagonal);

// --- Ops that others call ---------------------------------------------------------------------
Tensor linalg_inv(const Tensor& a);
Pair linalg_inv_ex(const Tensor& a, bool check_errors);
Tensor linalg_solve(const Tensor& a, const Tensor& b, bool left);
Tensor linalg_solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left,
                               bool unitriangular);
// op(a) x = b with a triangular a: like linalg_solve_triangular with a transposed first.
Tensor solve_adjoint_triangular(const Tensor& a, const Tensor& b, bool upper, bool left,
                                bool unitriangular);
Triple linalg_svd(const Tensor& a, bool full_matrices, std::optional<std::string_view> driver);
Tensor linalg_svdvals(const Tensor& a, std::optional<std::string_view> driver);
Pair linalg_eigh(const Tensor& a, std::string_view uplo);
Tensor linalg_eigvalsh(const Tensor& a, std::string_view uplo);
Tensor linalg_pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian);
Tensor linalg_matrix_norm(const Tensor& a, const Scalar& ord, IntSpan dim, bool keepdim,
                          std::optional<DType> dtype);
Tensor linalg_matrix_norm(const Tensor& a, std::string_view ord, IntSpan dim, bool keepdim,
                          std::optional<DType> dtype);

}  // namespace flambeau
