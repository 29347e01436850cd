"""linear_cross_entropy, at once and in chunks, and products of groups of matrices."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def problem(bias: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    torch.manual_seed(3)
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    return x, weight, torch.randn(11, dtype=torch.float64, requires_grad=True) if bias else None


INDICES = torch.tensor([0, 10, 3, -100, 4, 4, 1])
PROBABILITIES = torch.arange(77, dtype=torch.float64).reshape(7, 11) / 77


@pytest.mark.parametrize("target", [INDICES, PROBABILITIES], ids=["indices", "probabilities"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [None, 1, 3, 100])
def test_chunks_make_no_difference(
    target: torch.Tensor, reduction: str, bias: bool, smoothing: float, chunk: int | None
) -> None:
    x, weight, b = problem(bias)
    class_weight = torch.linspace(0.5, 2, 11, dtype=torch.float64)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
    leaves = [t for t in (x, weight, b) if t is not None]
    how = {"weight": class_weight, "reduction": reduction, "label_smoothing": smoothing}
    wanted = F.cross_entropy(F.linear(x, weight, b), target, **how)  # type: ignore[arg-type]
    upstream = torch.rand_like(wanted)
    wanted_grads = torch.autograd.grad(wanted, leaves, upstream)
    for choice in (None, options):
        got = F.linear_cross_entropy(
            x, weight, target, linear_bias=b, options=choice, **how  # type: ignore[arg-type]
        )  # fmt: skip
        assert torch.allclose(got, wanted)
        for one, other in zip(torch.autograd.grad(got, leaves, upstream), wanted_grads):
            assert torch.allclose(one, other)


def test_losses_of_several_dimensions() -> None:
    torch.manual_seed(0)
    layer = nn.LinearCrossEntropyLoss(4, 5, out_features=(2, 3), bias=True)
    x, target = torch.randn(6, 4), torch.randint(5, (6, 2, 3))
    logits = layer.linear(x).reshape(6, 5, 2, 3)
    assert torch.allclose(layer(x, target), F.cross_entropy(logits, target))
    assert list(layer.state_dict()) == ["linear.weight", "linear.bias"]


def test_groups_are_multiplied_one_by_one() -> None:
    torch.manual_seed(0)
    offs = torch.tensor([2, 5, 8], dtype=torch.int32)
    a = torch.randn(8, 16, requires_grad=True)
    b = torch.randn(3, 16, 24, requires_grad=True)
    out = F.grouped_mm(a, b, offs=offs)
    wanted = torch.cat([a[:2] @ b[0], a[2:5] @ b[1], a[5:] @ b[2]])
    assert torch.allclose(out, wanted, atol=1e-5)
    assert out.requires_grad
    stacked = torch.randn(3, 8, 16)
    columns = F.grouped_mm(stacked, b.detach()[0], offs=torch.tensor([8, 16, 24]).int())
    assert torch.allclose(columns[:, 8:16], stacked[1] @ b[0, :, 8:16], atol=1e-5)
    shared = F.grouped_mm(torch.randn(8, 16).t(), torch.randn(8, 24), offs=offs)
    assert shared.shape == (3, 16, 24)
    assert torch.equal(F.grouped_mm(stacked, b), torch.bmm(stacked, b))


def test_groups_that_do_not_fit_are_refused() -> None:
    a, b = torch.randn(8, 16), torch.randn(3, 16, 24)
    offs = torch.tensor([2, 5, 8], dtype=torch.int32)
    bad = {
        "Have to provide offsets": lambda: F.grouped_mm(a, b),
        "int32": lambda: F.grouped_mm(a, b, offs=offs.long()),
        "Float32, BFloat16 or Float16": lambda: F.grouped_mm(a.double(), b.double(), offs=offs),
        "same dtype": lambda: F.grouped_mm(a.half(), b, offs=offs),
        "batch sizes have to match": lambda: F.grouped_mm(a, b, offs=offs[:2]),
        "contraction dimension": lambda: F.grouped_mm(a, b[:, :8], offs=offs),
        "multiple of 16 bytes": lambda: F.grouped_mm(a, torch.randn(3, 16, 5), offs=offs),
        "Bias not supported": lambda: F.grouped_mm(a, b, offs=offs, bias=torch.zeros(24)),
        "output dtype": lambda: F.grouped_mm(a, b, offs=offs, out_dtype=torch.float64),
    }
    for text, call in bad.items():
        with pytest.raises(RuntimeError, match=text):
            call()


def test_options_are_checked() -> None:
    for wrong in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0}):
        with pytest.raises(ValueError):
            nn.LinearCrossEntropyOptions(**wrong)  # type: ignore[arg-type]
