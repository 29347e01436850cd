"""Linear algebra beyond samples: factors that are known up to a sign or a phase, derivatives along
symmetric matrices, error sentences, named results and the old names."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

L: Any = torch.linalg
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def random(*shape: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.randn(*shape, dtype=dtype)


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-4)


def hermitian(x: Any) -> Any:
    return x + x.mH


def positive(x: Any) -> Any:
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


# The larger ones go to LAPACK whatever they are for, the smaller ones partly to loops of ours.
SHAPES = [(3, 3), (5, 3), (3, 5), (2, 4, 3), (0, 3), (3, 0), (2, 0, 0), (1, 1), (20, 20), (13, 30)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    u, s, vh = L.svd(a, full_matrices=False)
    close((u * s.unsqueeze(-2)) @ vh, a)
    full = L.svd(a)
    assert full.U.shape == (*shape[:-1], shape[-2])
    assert full.Vh.shape == (*shape[:-2], shape[-1], shape[-1])
    close(full.U.mH @ full.U, torch.eye(shape[-2], dtype=dtype).expand(full.U.shape))
    close(L.svdvals(a), s)
    for mode in ("reduced", "complete"):
        q, r = L.qr(a, mode)
        close(q @ r, a)
        close(q.mH @ q, torch.eye(q.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1))
    close(L.qr(a, "r").R, L.qr(a).R)
    p, low, up = L.lu(a)
    close(p @ low @ up, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (3, 2, 2), (0, 0), (1, 1), (15, 15)])
def test_eigenvectors_are_scaled_by_their_values(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    values, vectors = L.eig(a)
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    close(L.eigvals(a).abs().sort(-1).values, values.abs().sort(-1).values)
    h = hermitian(a)
    for uplo in "LU":
        values, vectors = L.eigh(h, uplo)
        close(h @ vectors, vectors * values.unsqueeze(-2))
        close(L.eigvalsh(h, uplo), values)
    factor = L.cholesky(positive(a))
    close(factor @ factor.mH, positive(a))
    upper = L.cholesky(positive(a), upper=True)
    close(upper, factor.mH)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 30])
def test_systems_of_every_size_are_solved(n: int, dtype: Any) -> None:
    a, b = random(2, n, n, dtype=dtype), random(2, n, 3, dtype=dtype, seed=1)
    a = a / n + torch.eye(n, dtype=dtype)  # far from singular, its determinant within range
    one = torch.eye(n, dtype=dtype).expand(2, n, n)
    close(a @ L.inv(a), one)
    close(a @ L.solve(a, b), b)
    factors = L.lu_factor(a)
    close(a @ L.lu_solve(*factors, b), b)
    close(a.mH @ L.lu_solve(*factors, b, adjoint=True), b)
    close(L.lu_solve(*factors, b.mT, left=False) @ a, b.mT)
    close(L.det(a).abs().log(), L.slogdet(a).logabsdet)


@pytest.mark.parametrize("hermitian_form", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_ldl_factors_solve_symmetric_systems(dtype: Any, hermitian_form: bool) -> None:
    a = random(2, 4, 4, dtype=dtype)
    a = a + (a.mH if hermitian_form else a.mT)
    b = random(2, 4, 3, dtype=dtype, seed=1)
    factors = L.ldl_factor(a, hermitian=hermitian_form)
    close(a @ L.ldl_solve(*factors, b, hermitian=hermitian_form), b)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_leave_a_residual_orthogonal_to_the_columns(dtype: Any, driver: str) -> None:
    for shape in ((5, 3), (3, 5), (2, 4, 4)):
        a = random(*shape, dtype=dtype)
        b = random(*shape[:-1], 2, dtype=dtype, seed=1)
        result = L.lstsq(a, b, driver=driver)
        left = a @ result.solution - b
        close(a.mH @ left, torch.zeros(*shape[:-2], shape[-1], 2, dtype=dtype))
        assert result.rank.numel() == (0 if driver == "gels" else left[..., 0, 0].numel())
    assert L.lstsq(random(5, 3), random(5)).solution.shape == (3,)


COMPLEX = [torch.float64, torch.complex128]


def check(function: Any, *inputs: Any, second: bool = True) -> None:
    leaves = [x.detach().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(function, leaves)
    if second:
        assert torch.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_derivatives_along_hermitian_matrices(dtype: Any) -> None:
    a = random(3, 3, dtype=dtype)
    check(lambda x: L.cholesky(positive(x)), a)
    check(lambda x: L.cholesky(positive(x), upper=True), a)
    check(lambda x: L.eigvalsh(hermitian(x)), a)
    check(lambda x: L.eigh(hermitian(x)).eigenvectors.abs(), a)
    check(lambda x: L.pinv(hermitian(x), hermitian=True), a)
    check(lambda x: torch.logdet(positive(x)), a)
    check(
        lambda x, b: torch.cholesky_solve(b, L.cholesky(positive(x))), a, random(3, 2, dtype=dtype)
    )


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_derivatives_of_singular_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    check(lambda x: L.svd(x, full_matrices=False).U.abs(), a)
    check(lambda x: L.svd(x, full_matrices=False).Vh.abs(), a)

    def projected(x: Any) -> Any:
        u, s, vh = L.svd(x, full_matrices=False)
        return (u * s.exp()) @ vh

    check(projected, a)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_derivatives_of_eigenvectors(dtype: Any) -> None:
    a = random(3, 3, dtype=dtype, seed=3)
    check(lambda x: L.eig(x).eigenvectors.abs(), a)
    check(lambda x: L.eigvals(x).abs(), a)


def test_determinant_of_a_singular_matrix_has_a_derivative() -> None:
    a = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.float64)
    a[2] = a[0] * 2
    check(L.det, a, second=False)


def test_a_loss_that_depends_on_a_phase_has_no_gradient() -> None:
    a = random(3, 3, dtype=torch.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="svd_backward: The singular vectors in the complex"):
        L.svd(a).U.sum().abs().backward()
    with pytest.raises(RuntimeError, match="linalg_eigh_backward: The eigenvectors"):
        L.eigh(hermitian(a)).eigenvectors.sum().abs().backward()
    with pytest.raises(RuntimeError, match="linalg_eig_backward: The eigenvectors"):
        L.eig(a).eigenvectors.sum().abs().backward()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        L.qr(random(4, 2).requires_grad_(), "complete").Q.sum().backward()


SINGULAR = torch.stack([torch.eye(3), torch.zeros(3, 3)])
FAILURES: list[tuple[Any, type[Exception], str]] = [
    (lambda: L.inv(SINGULAR[1]), L.LinAlgError, r"linalg.inv: The diagonal element 1 is zero"),
    (lambda: L.inv(SINGULAR), L.LinAlgError, r"linalg.inv: \(Batch element 1\): The diagonal"),
    (lambda: L.solve(SINGULAR, torch.eye(3)), L.LinAlgError, "solver failed because the input"),
    (lambda: L.cholesky(-torch.eye(3)), L.LinAlgError, "leading minor of order 1 is not positive"),
    (lambda: L.inv_ex(SINGULAR, check_errors=True), L.LinAlgError, "linalg.inv_ex: "),
    (lambda: L.lu_factor(SINGULAR), RuntimeError, r"U\[1,1\] is zero and using it on lu_solve"),
    (
        lambda: L.lu_solve(torch.eye(3), torch.tensor([1, 9, 3]).int(), torch.eye(3)),
        RuntimeError,
        "must all be smaller or equal to LU.size",
    ),
    (lambda: L.svd(torch.full((2, 2), float("nan"))), L.LinAlgError, "non-finite values"),
    (lambda: L.eig(torch.full((2, 2), float("inf"))), RuntimeError, "should not contain infs"),
    (lambda: L.inv(torch.ones(3)), RuntimeError, "must have at least 2 dimensions"),
    (
        lambda: L.inv(torch.ones(2, 3)),
        RuntimeError,
        "batches of square matrices, but they are 2 by",
    ),
    (lambda: L.inv(torch.ones(3, 3).long()), NotImplementedError, "Expected a floating point"),
    (lambda: L.solve(torch.eye(3), torch.ones(2, 3)), RuntimeError, r"AX = B \(3x3 and 2x3\)"),
    (lambda: L.qr(torch.eye(2), "x"), RuntimeError, "qr received unrecognized mode 'x'"),
    (lambda: L.eigh(torch.eye(2), "X"), RuntimeError, "Expected UPLO argument to be 'L' or 'U'"),
    (lambda: L.cond(torch.eye(2), "x"), ValueError, "linalg.cond got an invalid norm type: x"),
    (
        lambda: torch.qr(torch.eye(2)),
        RuntimeError,
        "deprecated since version 1.9 and is now removed",
    ),
]


@pytest.mark.parametrize("case", range(len(FAILURES)))
def test_failures_have_pytorchs_type_and_words(case: int) -> None:
    run, error, words = FAILURES[case]
    with pytest.raises(error, match=words):
        run()
    assert issubclass(L.LinAlgError, RuntimeError)


def test_ex_forms_say_which_matrix_failed() -> None:
    assert L.inv_ex(SINGULAR).info.tolist() == [0, 1]
    assert L.cholesky_ex(torch.stack([torch.eye(2), -torch.eye(2)])).info.tolist() == [0, 1]
    assert L.lu_factor_ex(SINGULAR).info.tolist() == [0, 1]
    assert repr(type(L.svd(torch.eye(2)))) == "<class 'torch.return_types.linalg_svd'>"


def test_old_names() -> None:
    a = random(3, 3)
    with pytest.warns(UserWarning, match="torch.lu is deprecated in favor of torch.linalg.lu_fac"):
        lu, pivots = a.lu()
        assert len(torch.lu(a, get_infos=True)) == 3
        assert torch.lu(SINGULAR)[0].shape == SINGULAR.shape
        out = torch.lu(a, out=(a.new_empty(0), pivots.new_empty(0)))
    assert out[0].equal(lu) and out[1].equal(pivots)
    close(torch.lu_solve(a, lu, pivots), torch.eye(3, dtype=a.dtype))
    assert L.vander(torch.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    u, s, v = torch.svd(a)
    close(u @ torch.diag(s) @ v.mH, a)


def test_low_rank_approximations_find_a_low_rank_matrix() -> None:
    for shape in ((20, 10), (10, 20), (2, 12, 9)):
        a = random(*shape[:-1], 3) @ random(*shape[:-2], 3, shape[-1], seed=1)
        u, s, v = torch.svd_lowrank(a, q=4)
        close((u * s.unsqueeze(-2)) @ v.mH, a)
        u, s, v = torch.pca_lowrank(a, q=4)
        close((u * s.unsqueeze(-2)) @ v.mH, a - a.mean(-2, keepdim=True))
    with pytest.raises(ValueError, match="must be non-negative integer and not greater"):
        torch.pca_lowrank(random(3, 3), q=4)


def test_lobpcg_finds_extreme_eigenpairs() -> None:
    for dtype in (torch.float32, torch.float64):
        a = hermitian(random(30, 30, dtype=dtype))
        want = L.eigvalsh(a)
        values, vectors = torch.lobpcg(a, k=3, tol=1e-6)
        close(values, want.flip(0)[:3])
        close(a @ vectors, vectors * values)
        values, _ = torch.lobpcg(a, k=2, largest=False)
        close(values, want[:2])
    b = positive(random(30, 30, seed=1))
    values, vectors = torch.lobpcg(a, k=2, B=b)
    close(a @ vectors, b @ vectors * values)
    batch = torch.stack([a, a * 2])
    close(torch.lobpcg(batch, k=2)[0][1], 2 * torch.lobpcg(a, k=2)[0])
    close(torch.lobpcg(a.to_sparse(), k=2)[0], want.flip(0)[:2])
    leaf = a.clone().requires_grad_()
    torch.lobpcg(leaf, k=2)[0].sum().backward()
    other = a.clone().requires_grad_()
    L.eigvalsh(other)[-2:].sum().backward()
    close(leaf.grad, other.grad)
    with pytest.raises(ValueError, match="LPBPCG algorithm is not applicable when the number"):
        torch.lobpcg(random(5, 5), k=2)


def test_pivots_of_anybody_are_checked_before_they_are_followed() -> None:
    for pivots in ([7, 1], [0, 1], [1, -1], [-1, 2], [-1, -9]):
        with pytest.raises(RuntimeError, match="pivots of a matrix of 2 rows"):
            torch.linalg.ldl_solve(
                torch.eye(2), torch.tensor(pivots, dtype=torch.int32), torch.ones(2, 1)
            )
    factors = torch.linalg.ldl_factor(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))  # a block of two
    assert torch.linalg.ldl_solve(*factors, torch.tensor([[1.0], [2.0]])).tolist() == [[2], [1]]
    matrices, few = torch.eye(2).repeat(3, 1, 1), torch.ones(1, 2)
    with pytest.raises(RuntimeError, match="pivots with shape"):
        torch.linalg.lu_solve(matrices, few.int(), torch.ones(3, 2, 1))
    with pytest.raises(RuntimeError, match="batch dimensions of tau"):
        torch.ormqr(matrices, few, matrices)


def test_low_rank_factors_of_sparse_matrices() -> None:
    dense = torch.zeros(8, 5, dtype=torch.float64)
    dense[[0, 2, 3, 7, 7], [1, 4, 0, 2, 1]] = torch.tensor([1, 2, 3, 4, 5], dtype=torch.float64)
    for function in (torch.svd_lowrank, torch.pca_lowrank):
        for matrix in (dense, dense.t()):
            torch.manual_seed(3)
            wanted = function(matrix, q=4)[1]
            torch.manual_seed(3)
            torch.testing.assert_close(function(matrix.to_sparse(), q=4)[1], wanted)


def test_orders_of_matrix_norms_are_real() -> None:
    with pytest.raises(RuntimeError, match="Expected a non-complex scalar"):
        torch.linalg.matrix_norm(torch.eye(2), ord=1 + 2j)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12])
def test_batches_of_small_matrices_equal_single_ones(n: int, dtype: Any) -> None:
    """Batches go several matrices at a time, with the same pivots; one of them is singular."""
    a = random(11, n, n, dtype=dtype)
    factors, pivots = L.lu_factor(a)
    for one, lu, exchanged in zip(a, factors, pivots, strict=True):
        alone = L.lu_factor(one)
        close(lu, alone.LU)
        assert exchanged.tolist() == alone.pivots.tolist()
    close(L.inv(a), torch.stack([L.inv(one) for one in a]))
    close(L.det(a), torch.stack([L.det(one) for one in a]))
    a[2] = 0
    inverses, info = L.inv_ex(a)
    assert info.tolist() == [0, 0, 1] + [0] * 8
    close(inverses[3], L.inv(a[3]))
    assert L.det(a)[2] == 0
    with pytest.raises(RuntimeError, match="singular"):
        L.inv(a)


@pytest.mark.parametrize("shape", [(192, 192), (257, 200), (200, 450), (3, 250, 250)])
@pytest.mark.parametrize("threads", [1, 3])
def test_large_lu_factors(shape: tuple[int, ...], threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a = random(*shape)
        p, lower, upper = L.lu(a)
        close(p @ lower @ upper, a)
        assert lower.abs().max() <= 1
        a[..., 100] = 0
        assert L.lu_factor_ex(a).info.unique().tolist() == [101]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 13])
def test_small_systems_in_batches(n: int) -> None:
    a = random(11, n, n) + 2 * torch.eye(n, dtype=torch.float64)
    symmetric = a + a.mT
    zero_diagonal = symmetric - torch.diag_embed(symmetric.diagonal(dim1=-2, dim2=-1))
    for columns in (1, 3, 12, 13):
        b = random(11, n, columns)
        close(a @ L.solve(a, b), b)
        for matrix in (symmetric, zero_diagonal) if n > 1 else (symmetric,):
            factors, pivots = L.ldl_factor(matrix)
            close(matrix @ L.ldl_solve(factors, pivots, b), b)
    if n > 1:
        assert bool((L.ldl_factor(zero_diagonal).pivots < 0).any())  # blocks of two
    symmetric[4] = 0
    assert L.ldl_factor_ex(symmetric).info.tolist() == [0] * 4 + [1] + [0] * 6
    pivots = L.ldl_factor_ex(symmetric).pivots
    assert pivots[4].tolist() == list(range(1, n + 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 5), (8, 3), (8, 8), (9, 8)])
def test_singular_values_of_small_matrices(shape: tuple[int, int], dtype: Any) -> None:
    """Columns are rotated in batches; other algorithms give the same values."""
    a = random(13, *shape)
    a[1] = 0
    a[2] = torch.ones(shape, dtype=a.dtype)
    a[3] *= 1e30  # whose squares overflow in single precision
    a[4] *= 1e-30
    a[5] = a[5].clone() * torch.logspace(0, -20, shape[1], dtype=a.dtype)
    a[6] = torch.eye(*shape, dtype=a.dtype)
    a = a.to(dtype)
    exact = torch.linalg.svd(a.to(torch.float64), full_matrices=False).S
    largest = exact.amax(-1, keepdim=True).clamp_min(1e-300)
    found = L.svdvals(a).to(torch.float64)
    assert ((found - exact).abs() / largest).max() < 30 * torch.finfo(dtype).eps
    assert bool((found.diff(dim=-1) <= 0).all())
    assert found[1].eq(0).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (12, 12), (12, 7)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_batches_of_small_qr_equal_single_ones(shape: tuple[int, int], mode: str) -> None:
    a = random(7, *shape)
    a[1] = 0
    a[2] *= 1e200  # whose squares overflow
    a[3] *= 1e-200
    a[4] = torch.ones(shape, dtype=a.dtype).triu()  # nothing to reflect
    q, r = L.qr(a, mode=mode)
    singles = [L.qr(one, mode=mode) for one in a]
    for i, single in enumerate(singles):
        torch.testing.assert_close(r[i], single.R, rtol=1e-12, atol=float(a[i].abs().max()) * 1e-12)
        if mode != "r":
            torch.testing.assert_close(q[i], single.Q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
def test_pivots_of_another_shape_than_the_factors_are_refused(shape: tuple[int, ...]) -> None:
    pivots = torch.ones(shape, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"LU_pivots to have shape \[3\]"):
        torch.lu_unpack(torch.eye(3), pivots)


def test_factors_without_exchanges_have_shapes_on_meta() -> None:
    a = torch.empty(2, 3, 4, device="meta")
    p, lower, upper = torch.linalg.lu(a, pivot=False)
    assert (p.shape, lower.shape, upper.shape) == ((0,), (2, 3, 3), (2, 3, 4))
    lu, pivots = torch.linalg.lu_factor(a, pivot=False)
    assert lu.shape == (2, 3, 4) and pivots.shape == (2, 3) and pivots.dtype == torch.int32
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented on the CPU"):
        torch.linalg.lu(torch.eye(3), pivot=False)


def test_inner_products_of_vectors_refuse_bools_as_dot_does():
    for size in (0, 3):
        with pytest.raises(NotImplementedError, match="Bool"):
            torch.inner(torch.ones(size, dtype=torch.bool), torch.ones(size, dtype=torch.bool))
    assert torch.inner(torch.tensor([1, 2]), torch.tensor([3, 4])).item() == 11
