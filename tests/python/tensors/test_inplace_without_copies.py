"""In-place forms that write over their first input, and where they must not."""

from __future__ import annotations

import pytest

import flambeau as torch

OPS = {
    "addcmul_": lambda x, a, b: x.addcmul_(a, b, value=0.5),
    "addcdiv_": lambda x, a, b: x.addcdiv_(a, b, value=-2),
    "lerp_": lambda x, a, b: x.lerp_(a, 0.3),
    "lerp_ by a tensor": lambda x, a, b: x.lerp_(a, b),
    "clamp_": lambda x, a, b: x.clamp_(-0.5, 0.5),
    "clamp_ by tensors": lambda x, a, b: x.clamp_(a, b),
    "clamp_min_": lambda x, a, b: x.clamp_min_(0.1),
    "clamp_max_": lambda x, a, b: x.clamp_max_(a),
}
PLAIN = {
    "addcmul_": lambda x, a, b: x + 0.5 * a * b,
    "addcdiv_": lambda x, a, b: x - 2 * a / b,
    "lerp_": lambda x, a, b: x + 0.3 * (a - x),
    "lerp_ by a tensor": lambda x, a, b: x + b * (a - x),
    "clamp_": lambda x, a, b: torch.minimum(torch.maximum(x, x * 0 - 0.5), x * 0 + 0.5),
    "clamp_ by tensors": lambda x, a, b: torch.minimum(torch.maximum(x, a), b),
    "clamp_min_": lambda x, a, b: torch.maximum(x, x * 0 + 0.1),
    "clamp_max_": lambda x, a, b: torch.minimum(x, a),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("layout", ["dense", "transposed", "strided", "broadcast"])
def test_values_memory_and_version(name: str, layout: str) -> None:
    torch.manual_seed(0)
    x, a, b = (torch.randn(6, 6, dtype=torch.float64) for _ in range(3))
    if layout == "transposed":
        x = x.t()
    if layout == "strided":
        x, a, b = x[::2], a[1::2], b[:3]
    if layout == "broadcast":
        a, b = a[:1], b[:, :1]
    want, address, version = PLAIN[name](x, a, b), x.data_ptr(), x._version
    assert OPS[name](x, a, b) is x
    assert torch.allclose(x, want, rtol=1e-12) and x.data_ptr() == address
    assert x._version == version + 1


@pytest.mark.parametrize("name", OPS)
def test_what_backward_needs_is_not_overwritten(name: str) -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(4, dtype=torch.float64).requires_grad_() for _ in range(3)]
    x, a, b = leaves
    got = torch.autograd.grad((OPS[name](x * 1, a, b) ** 2).sum(), leaves, allow_unused=True)
    want = torch.autograd.grad((PLAIN[name](x, a, b) ** 2).sum(), leaves, allow_unused=True)
    for one, other in zip(got, want, strict=True):
        zeros = torch.zeros_like(x)
        assert torch.allclose(zeros if one is None else one, zeros if other is None else other)


def test_in_place_without_gradients_marks_what_was_kept() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    with torch.no_grad():
        y.lerp_(torch.zeros(3), 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_other_shapes_and_dtypes_are_refused_or_cast() -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.addcmul_(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(3, dtype=torch.int64).addcmul_(x, x)
    assert x.addcmul_(torch.ones(3, dtype=torch.float64), x).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError):
        torch.ones(3, 3).lerp_(x.expand(3, 3), torch.ones(4))
    square = torch.arange(9.0).view(3, 3)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        square.addcmul_(square.t(), square)
    assert torch.equal(square, torch.arange(9.0).view(3, 3))


def test_angle_of_real_numbers() -> None:
    x = torch.tensor([-2.0, -0.0, 0.0, 3.0, torch.inf, -torch.inf, torch.nan])
    got = torch.angle(x)
    assert got[:6].tolist() == pytest.approx([torch.pi, 0, 0, 0, 0, torch.pi]) and got[6].isnan()
    assert torch.angle(torch.tensor([-1, 2])).tolist() == pytest.approx([torch.pi, 0])


def test_einsum_of_columns_in_reduced_precision() -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(300, 17).to(torch.bfloat16) for _ in range(2))
    want = (a.double() * b.double()).sum(0)
    assert (torch.einsum("ij,ij->j", a, b).double() - want).abs().max() < 0.2


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100, 1000])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_in_blocks(count: int, right: bool) -> None:
    torch.manual_seed(count)
    edges = torch.randint(0, 50, (3, count)).sort(1)[0]
    values = torch.randint(-2, 53, (3, 21))
    got = torch.searchsorted(edges, values, right=right)
    for row in range(3):
        for value, place in zip(values[row].tolist(), got[row].tolist(), strict=True):
            below = [e for e in edges[row].tolist() if (e <= value if right else e < value)]
            assert place == len(below)
