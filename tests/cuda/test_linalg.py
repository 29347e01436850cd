"""Factorisations, solutions and Fourier transforms on CUDA, for many small matrices and for large
ones; the questions of tests/ops are asked on the device as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_kernels import shapes

import flambeau as torch

DTYPES = [torch.float64, torch.complex128, torch.float32]
LARGE = pytest.param(300, marks=pytest.mark.large)
SHAPES = [(300, 300), (1, 5, 5), (7, 16, 16), (2, 3, 40, 40), (2, 270, 270)]


def tolerance(dtype: torch.dtype) -> float:
    return 2e-3 if dtype in (torch.float32, torch.complex64) else 1e-8


def well_conditioned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    n = shape[-1]
    return torch.randn(shape, dtype=dtype) + 2 * n**0.5 * torch.eye(n, dtype=dtype)


def assert_same(function: Callable[..., object], *tensors: torch.Tensor) -> None:
    ours = function(*(x.cuda() for x in tensors))
    expected = function(*tensors)
    ours, expected = (x if isinstance(x, tuple) else (x,) for x in (ours, expected))
    for a, b in zip(ours, expected, strict=True):
        limit = tolerance(tensors[0].dtype)
        torch.testing.assert_close(a.cpu(), b, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", shapes(*SHAPES))
def test_systems_are_solved_as_on_the_cpu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = well_conditioned(shape, dtype), torch.randn((*shape[:-1], 3), dtype=dtype)
    assert_same(torch.linalg.solve, a, b)
    assert_same(torch.linalg.inv, a)
    assert_same(lambda a: tuple(torch.linalg.slogdet(a)), a)
    assert_same(lambda a: torch.linalg.det(a / shape[-1] ** 0.5 / 2), a)
    assert_same(lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True), a, b)
    assert_same(
        lambda a, b: torch.linalg.solve_triangular(a.tril(), b.mT, upper=False, left=False), a, b
    )
    spd = a @ a.mH
    assert_same(torch.linalg.cholesky, spd)
    assert_same(lambda s, b: torch.cholesky_solve(b, torch.linalg.cholesky(s)), spd, b)
    assert_same(lambda a: torch.linalg.lu_factor(a)[0], a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(40, 20), (20, 40), (3, 9, 9), (2, 5, 8), (2, 8, 5)], ids=str)
def test_factors_give_the_matrix_back(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = torch.randn(shape, dtype=dtype).cuda()
    limit = tolerance(dtype)
    q, r = torch.linalg.qr(a)
    torch.testing.assert_close(q @ r, a, rtol=limit, atol=limit)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        back = u[..., :, :k] @ (s.to(dtype).unsqueeze(-1) * vh[..., :k, :])
        torch.testing.assert_close(back, a, rtol=limit, atol=limit)
        eye = torch.eye(u.shape[-1], dtype=dtype, device="cuda")
        torch.testing.assert_close(u.mH @ u, eye.expand_as(u.mH @ u), rtol=limit, atol=limit)
    assert_same(torch.linalg.svdvals, a.cpu())
    b = torch.randn((*shape[:-1], 2), dtype=dtype)
    if shape[-2] != shape[-1]:
        x = torch.linalg.lstsq(a, b.cuda()).solution
        expected = torch.linalg.lstsq(a.cpu(), b).solution
        torch.testing.assert_close(x.cpu(), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(30, 30), (6, 5, 5), (2, 40, 40)], ids=str)
def test_eigenvectors_are_such(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, limit = torch.randn(shape, dtype=dtype), 10 * tolerance(dtype)
    h = a + a.mH
    assert_same(torch.linalg.eigvalsh, h)
    values, vectors = torch.linalg.eigh(h.cuda())
    scaled = vectors * values.to(dtype).unsqueeze(-2)
    torch.testing.assert_close(h.cuda() @ vectors, scaled, rtol=limit, atol=limit)
    values, vectors = torch.linalg.eig(a.cuda())
    product = a.cuda().to(values.dtype) @ vectors
    torch.testing.assert_close(product, vectors * values.unsqueeze(-2), rtol=limit, atol=limit)
    torch.testing.assert_close(vectors.norm(dim=-2).cpu(), torch.ones(shape[:-1]).to(a.real.dtype))


def test_singular_matrices_are_named() -> None:
    for a in (torch.zeros(3, 3), torch.zeros(2, 3, 3), torch.zeros(300, 300)):
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            torch.linalg.inv(a.cuda())
        with pytest.raises(torch.linalg.LinAlgError, match="positive-definite"):
            torch.linalg.cholesky(a.cuda() - 1)


def test_gradients_are_those_of_the_cpu() -> None:
    def step(a: torch.Tensor) -> torch.Tensor:
        a = a.detach().requires_grad_()
        s = a @ a.mT + torch.eye(6, dtype=a.dtype, device=a.device)
        loss = torch.linalg.cholesky(s).sum() + torch.logdet(s).sum()
        loss = loss + torch.linalg.eigvalsh(s).square().sum() + torch.linalg.svdvals(a).sum()
        (loss + torch.linalg.qr(a)[1].abs().sum()).backward()
        return a.grad

    assert_same(step, torch.randn(4, 6, 6, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 8, 15, 97, 1000])
def test_transforms_are_those_of_the_cpu(n: int, dtype: torch.dtype) -> None:
    x = torch.randn(3, n, 5, dtype=dtype)
    z = torch.complex(x, torch.randn(3, n, 5, dtype=dtype))
    for dim in (0, 1, 2):
        assert_same(lambda z, dim=dim: torch.fft.fft(z, dim=dim), z)
        assert_same(lambda z, dim=dim: torch.fft.ifft(z, dim=dim, norm="ortho"), z)
        assert_same(lambda x, dim=dim: torch.fft.rfft(x, dim=dim), x)
        assert_same(lambda z, dim=dim: torch.fft.irfft(z, n=z.shape[dim] + 3, dim=dim), z)
        assert_same(lambda z, dim=dim: torch.fft.hfft(z, n=6, dim=dim), z)
    assert_same(lambda z: torch.fft.fftn(z), z)
    assert_same(lambda z: torch.fft.ifft2(z.transpose(0, 1)), z)
    assert_same(lambda x: torch.fft.rfftn(x), x)
    assert_same(lambda z: torch.fft.irfftn(z, s=(3, n, 6)), z)


def test_transforms_read_from_any_place() -> None:
    x = torch.randn(12, dtype=torch.float64)
    assert torch.allclose(torch.fft.rfft(x.cuda()[1:]).cpu(), torch.fft.rfft(x[1:]))


def test_transforms_have_gradients() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = torch.fft.irfft(torch.fft.rfft(x, dim=0) ** 2, n=7, dim=0)
        (y**2).sum().backward()
        return x.grad

    assert_same(step, torch.randn(9, 4, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32], ids=str)
@pytest.mark.parametrize("n", [1, 7, LARGE])
def test_ldl_factors_solve_indefinite_systems(n: int, dtype: torch.dtype) -> None:
    a = torch.randn(3, n, n, dtype=dtype)
    a = a + a.mT
    a.diagonal(dim1=-2, dim2=-1).mul_(0.1)  # so that blocks of two rows are chosen as pivots
    b = torch.randn(3, n, 2, dtype=dtype)
    factors, pivots = torch.linalg.ldl_factor(a.cuda())
    assert n < 7 or (pivots < 0).any()
    x = torch.linalg.ldl_solve(factors, pivots, b.cuda())
    tolerance = 1e-2 if dtype == torch.float32 else 1e-8
    assert (a.cuda() @ x - b.cuda()).norm() / b.norm() < tolerance
    # The CPU's factors, solved on the device, and pivots that no factorisation gave.
    on_cpu = torch.linalg.ldl_factor(a)
    again = torch.linalg.ldl_solve(on_cpu.LD.cuda(), on_cpu.pivots.cuda(), b.cuda()).cpu()
    assert (a @ again - b).norm() / b.norm() < tolerance
    torch.linalg.ldl_solve(factors, torch.full_like(pivots, -10_000), b.cuda())


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 9, 70, LARGE])
def test_hermitian_ldl_factors_are_those_of_the_cpu(n: int, dtype: torch.dtype) -> None:
    a = torch.randn(3, n, n, dtype=dtype)
    a = a + a.mH
    a.diagonal(dim1=-2, dim2=-1).mul_(0.1)
    b = torch.randn(3, n, 2, dtype=dtype)
    wanted, wanted_pivots = torch.linalg.ldl_factor(a, hermitian=True)
    factors, pivots, info = torch.linalg.ldl_factor_ex(a.cuda(), hermitian=True)
    assert not info.any() and (n < 9 or (pivots < 0).any())
    tolerance = 2e-2 if dtype == torch.complex64 else 1e-8
    if dtype == torch.complex128:  # rounding chooses other pivots in single precision
        assert torch.equal(pivots.cpu(), wanted_pivots)
        assert (factors.cpu().tril() - wanted.tril()).norm() / wanted.tril().norm() < tolerance
    for ld, rows in ((factors, pivots), (wanted.cuda(), wanted_pivots.cuda())):
        x = torch.linalg.ldl_solve(ld, rows, b.cuda(), hermitian=True).cpu()
        assert (a @ x - b).norm() / b.norm() < tolerance


def test_a_hermitian_matrix_without_pivots_is_told_of() -> None:
    a = torch.eye(5, dtype=torch.complex64)
    a[3, 3] = 0
    info = torch.linalg.ldl_factor_ex(a.cuda(), hermitian=True).info
    assert info.item() == torch.linalg.ldl_factor_ex(a, hermitian=True).info.item() == 4


def test_transforms_of_half_precision_are_of_half_precision() -> None:
    x = torch.randn(4, 16)
    half = x.cuda().half()
    for name in ("fft", "ifft", "rfft", "ihfft", "fft2", "rfft2", "fftn"):
        exact, rounded = getattr(torch.fft, name)(x), getattr(torch.fft, name)(half)
        assert rounded.dtype == torch.complex32
        torch.testing.assert_close(rounded.cpu().to(torch.complex64), exact, rtol=1e-2, atol=1e-2)
    spectrum = torch.fft.rfft(half)
    again = torch.fft.irfft(spectrum)
    assert again.dtype == torch.float16 and torch.fft.fft(spectrum).dtype == torch.complex32
    torch.testing.assert_close(again.cpu().float(), x, rtol=1e-2, atol=1e-2)
    assert torch.fft.rfft(half.bfloat16()).dtype == torch.complex64


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", shapes((5, 5), (7, 16, 16), (2, 270, 270), (6, 4), (3, 4, 9)))
def test_factors_without_exchanges_of_rows(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    n, limit = min(shape[-2:]), tolerance(dtype)
    a = torch.randn(shape, dtype=dtype)
    a.diagonal(dim1=-2, dim2=-1).add_(4 * max(shape[-2:]))
    a = a.cuda()
    lu, pivots = torch.linalg.lu_factor(a, pivot=False)
    assert pivots.dtype == torch.int32
    assert pivots.eq(torch.arange(1, n + 1, device="cuda")).all().item()
    p, lower, upper = torch.linalg.lu(a, pivot=False)
    assert p.shape == (0,) and p.dtype == dtype
    torch.testing.assert_close(lower @ upper, a, rtol=limit, atol=limit)
    with pytest.warns(UserWarning, match="deprecated"):
        same, _, info = torch.lu(a, pivot=False, get_infos=True)
    assert same.equal(lu) and info.eq(0).all().item()
    if shape[-2] == shape[-1]:
        b = torch.randn((*shape[:-1], 2), dtype=dtype, device="cuda")
        x = torch.linalg.lu_solve(lu, pivots, b)
        torch.testing.assert_close(a @ x, b, rtol=limit, atol=limit)


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (5, 3), (3, 5)], ids=str)
def test_factors_without_exchanges_have_derivatives(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape, dtype=torch.float64)
    a.diagonal(dim1=-2, dim2=-1).add_(8)
    a = a.cuda().requires_grad_()
    assert torch.autograd.gradcheck(lambda a: torch.linalg.lu_factor(a, pivot=False)[0], a)
    assert torch.autograd.gradcheck(lambda a: torch.linalg.lu(a, pivot=False)[1:], a)


def test_a_zero_where_no_rows_may_be_exchanged_is_named() -> None:
    for shape in [(2, 2), (3, 2, 2)]:
        a = torch.tensor([[0.0, 1.0], [1.0, 0.0]], device="cuda").expand(shape)
        assert torch.linalg.lu_factor_ex(a, pivot=False).info.ne(0).all().item()
        with pytest.raises(RuntimeError, match="is zero"):
            torch.linalg.lu_factor(a, pivot=False)


def test_factors_are_unpacked_without_waiting() -> None:
    a = torch.randn(3, 5, 5, dtype=torch.float64)
    lu, pivots = torch.linalg.lu_factor(a.cuda())
    torch.cuda.set_sync_debug_mode("error")
    try:
        p, lower, upper = torch.lu_unpack(lu, pivots)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.allclose((p @ lower @ upper).cpu(), a)
    torch.lu_unpack(lu, pivots + 7)
    with pytest.raises(IndexError, match=r"with size 5 \(found by lu_unpack"):
        torch.cuda.synchronize()
