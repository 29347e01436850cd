"""Reductions of tensors that no cache holds: sums and softmax along columns, losses in chunks,
products with a vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

import flambeau as torch
from flambeau.nn import functional

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("shape", [(3000, 100), (2, 9000, 40), (140, 1500), (1100, 33)])
@pytest.mark.parametrize("scale", [1, 300])
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_usual_tall_columns(shape: tuple, scale: float, dtype: Any) -> None:
    dim = len(shape) - 2
    torch.manual_seed(0)
    x = (torch.randn(shape) * scale).to(dtype)
    exact, tolerance = x.double().numpy(), TOLERANCE[dtype]
    for ours, theirs in (
        (torch.softmax(x, dim), softmax(exact, dim)),
        (torch.log_softmax(x, dim), log_softmax(exact, dim)),
        (torch.logsumexp(x, dim), logsumexp(exact, dim)),
    ):
        np.testing.assert_allclose(ours.double().numpy(), theirs, tolerance, tolerance)


@pytest.mark.parametrize("n", [257, 1000, 1024, 5001])
@pytest.mark.parametrize("dtype", [*TOLERANCE, torch.float16], ids=str)
def test_rows_spread_widely(n: int, dtype: Any) -> None:
    torch.manual_seed(0)
    x = (torch.randn(40, n) * 300).to(dtype)
    x[2] /= 300
    x[3, -1], x[4, -1], x[5], x[6] = torch.inf, torch.nan, 0, -torch.inf
    x[7, 100:] = 60000
    if dtype != torch.float16:
        x[8], x[9, n // 2] = 1e30, 1e30
    exact, tolerance = x.double().numpy(), TOLERANCE.get(dtype, 1e-3)
    target = torch.argmax(torch.randn(40, n), 1)
    with np.errstate(all="ignore"):
        logs = log_softmax(exact, 1)
        pairs = [
            (torch.softmax(x, 1), softmax(exact, 1)),
            (torch.log_softmax(x, 1), logs),
            (torch.logsumexp(x, 1), logsumexp(exact, 1)),
            (
                functional.cross_entropy(x, target, reduction="none"),
                -logs[np.arange(40), target.numpy()],
            ),
        ]
    finite = [i for i in range(40) if i not in (3, 6)]
    for ours, theirs in pairs:
        found = ours.double().numpy()
        np.testing.assert_allclose(found[finite], theirs[finite], tolerance, tolerance)
    assert pairs[2][0][3] == torch.inf and pairs[2][0][6] == -torch.inf


@pytest.mark.parametrize("shape", [(3000, 100), (2, 9000, 40), (140, 1500), (70000, 16)])
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_tall_columns(shape: tuple, dtype: Any) -> None:
    dim = len(shape) - 2
    torch.manual_seed(0)
    x = (torch.randn(shape) * 8).to(dtype)
    rows = x.select(dim, 0), x.select(dim, 100)
    x.select(-1, 3).fill_(-torch.inf)  # nothing but minus infinity
    x.select(-1, 4).narrow(dim, 0, 100).fill_(-torch.inf)  # and at first
    x.select(-1, 5).fill_(1e30)
    rows[0].select(-1, 6).fill_(torch.inf)
    rows[1].select(-1, 7).fill_(torch.nan)
    exact = x.double().numpy()
    with np.errstate(all="ignore"):
        pairs = [
            (torch.softmax(x, dim), softmax(exact, dim)),
            (torch.log_softmax(x, dim), log_softmax(exact, dim)),
            (torch.logsumexp(x, dim), logsumexp(exact, dim)),
        ]
    for ours, theirs in pairs:
        tolerance = TOLERANCE[dtype]
        if theirs.ndim == exact.ndim:  # scipy knows what infinite logits mean better than PyTorch
            keep = [j for j in range(shape[-1]) if j not in (3, 6)]
            assert ours[..., [3, 6]].isnan().all()
            ours, theirs = ours[..., keep], theirs[..., keep]
        np.testing.assert_allclose(ours.double().numpy(), theirs, tolerance, tolerance)


def test_tall_columns_do_not_depend_on_threads() -> None:
    x = torch.randn(5000, 64)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(torch.softmax(x, 0))
    torch.set_num_threads(before)
    assert results[0].equal(results[1]) and results[0].equal(results[2])


def sums(x: Any, dim: int) -> Any:
    """Exact, then rounded once."""
    exact = torch.from_numpy(x.double().numpy().sum(dim))
    return exact.to(x.dtype if x.is_floating_point() else torch.int64)


@pytest.mark.parametrize("rows", [63, 64, 65, 128, 4096, 4097])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float32, torch.bfloat16], ids=str)
def test_columns_of_all_the_rows_that_lanes_take(rows: int, dtype: Any) -> None:
    x = torch.randint(-128, 128, (rows, 70)).to(dtype)
    assert x.sum(0).equal(sums(x, 0))
    assert x.amax(0).equal(torch.from_numpy(x.double().numpy().max(0)).to(dtype))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16], ids=str)
def test_columns_in_cuts(threads: int, dtype: Any) -> None:
    x = torch.randint(-128, 128, (2, 1030, 4100)).to(dtype)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert x.sum(1).equal(sums(x, 1))
        assert x[:, :, ::3].sum(1).equal(sums(x[:, :, ::3], 1))
        assert x.transpose(0, 1).sum(0).equal(sums(x, 1))
        out = torch.empty(4100, 2, dtype=dtype).t()
        assert torch.sum(x, 1, out=out).equal(sums(x, 1))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("n", [65536, 100003])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_in_chunks(dtype: Any, n: int, reduction: str) -> None:
    x, y = torch.randn(n).to(dtype), torch.rand(n).to(dtype)
    y[5] = 0
    chances = torch.rand(n).to(dtype)
    for loss, input, options in [
        (functional.mse_loss, x, {}),
        (functional.l1_loss, x, {}),
        (functional.huber_loss, x, {"delta": 0.7}),
        (functional.smooth_l1_loss, x, {}),
        (functional.kl_div, x, {}),
        (functional.binary_cross_entropy_with_logits, x, {}),
        (functional.binary_cross_entropy, chances, {}),
    ]:
        ours = loss(input, y, reduction=reduction, **options)
        each = loss(input.double(), y.double(), reduction="none", **options).numpy()
        exact = getattr(each, reduction)()
        assert ours.dtype == dtype and ours.shape == ()
        np.testing.assert_allclose(ours.item(), exact, 4 * TOLERANCE[dtype])
        wanted = input.clone().requires_grad_()  # the way that keeps what backward needs
        kept = loss(wanted, y, reduction=reduction, **options)
        np.testing.assert_allclose(kept.item(), exact, 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("n", [48, 100, 515, 4099])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_running_sums_and_products(n: int, dtype: Any) -> None:
    torch.manual_seed(1)
    x = torch.randn(9, n + 3).to(dtype)[:, 3:].contiguous()
    factors = (1 + 0.01 * torch.randn(9, n)).to(dtype)
    factors[1, n // 2] = 0
    factors[2, n // 3] = torch.inf
    factors[3, 20] = torch.nan
    factors[4] = torch.finfo(dtype).smallest_normal  # vanishes, in other orders too early
    factors[5] = torch.finfo(dtype).max
    factors[6, ::2], factors[6, 1::2] = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    factors[7, 8:16], factors[7, 16:23] = 2.0**-16, 2.0**15
    x[2, 40] = torch.inf
    x[2, 41] = -torch.inf
    carry = np.float32 if dtype == torch.bfloat16 else np.float64
    with np.errstate(all="ignore"):
        pairs = [
            (x.cumsum(1), x.double().numpy().cumsum(1)),
            (factors.cumprod(1), factors.double().numpy().astype(carry).cumprod(1)),
            (factors[5:7].cumprod(1), factors[5:7].double().numpy().astype(carry).cumprod(1)),
            (x.clone().cumsum_(1), x.double().numpy().cumsum(1)),
        ]
    for ours, theirs in pairs:
        expected = torch.from_numpy(theirs).to(dtype)
        tolerance = torch.finfo(dtype).eps
        np.testing.assert_allclose(ours.double(), expected.double(), tolerance, 1e-37)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 30), (9, 200), (5, 1024), (4, 5000), (2000, 40), (7, 70001)])
def test_products_of_powers_of_two(shape: tuple[int, int], dtype: Any) -> None:
    rng = np.random.default_rng(3)
    powers, signs = rng.integers(-1, 2, shape), rng.choice([-1.0, 1.0], shape)
    powers[0], signs[0], signs[0, 0] = -60, 1.0, -1.0  # vanishes, but for its sign
    values = np.ldexp(signs, powers)
    values[1, 17], values[2, 3], values[2, 20] = np.inf, np.nan, 0.0
    x = torch.from_numpy(values).to(dtype)
    for dim in (0, 1, (0, 1)):
        size = np.ldexp(1.0, np.clip(powers.sum(dim), -500, 500))
        wanted = (
            size * np.prod(np.sign(values), dim) * np.where(np.isinf(values), values, 1).max(dim)
        )
        ours = (x.prod() if dim == (0, 1) else x.prod(dim)).double().numpy()
        wanted = torch.from_numpy(np.asarray(wanted)).to(dtype).double().numpy()
        np.testing.assert_array_equal(ours, wanted)
        assert ((np.signbit(ours) == np.signbit(wanted)) | np.isnan(wanted)).all()


def test_large_copies() -> None:
    values = np.arange(5_000_011, dtype=np.float32)
    x = torch.from_numpy(values)
    for start in (0, 1, 7):
        np.testing.assert_array_equal(x[start:].clone().numpy(), values[start:])
    rows, more = x[:4_999_000].view(-1, 1000), x[11:].view(-1, 500)
    np.testing.assert_array_equal(rows[:, 3:].contiguous().numpy(), rows.numpy()[:, 3:])
    for dim, parts in [(0, (rows, rows[5:])), (1, (rows, more[: len(rows)])), (1, (rows, rows))]:
        ours = torch.cat(parts, dim).numpy()
        np.testing.assert_array_equal(ours, np.concatenate([part.numpy() for part in parts], dim))
    into = torch.zeros(5_000_011)
    into[1:].copy_(x[:-1])
    np.testing.assert_array_equal(into[1:].numpy(), values[:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_large_matrix_by_a_vector(dtype: Any) -> None:
    x, v = torch.randint(-9, 9, (4300, 1001)).to(dtype), torch.randint(-9, 9, (1001,)).to(dtype)
    assert torch.mv(x, v).equal(torch.from_numpy(x.numpy() @ v.numpy()))
    assert (v @ x.t()).equal(torch.from_numpy(x.numpy() @ v.numpy()))
