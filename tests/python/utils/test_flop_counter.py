"""FlopCounterMode: counts of products, convolutions and attention, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.flop_counter import FlopCounterMode

aten = torch.ops.aten


def counted(function: Any, **options: Any) -> FlopCounterMode:
    counter = FlopCounterMode(display=False, **options)
    with counter:
        function()
    return counter


def test_a_network_by_its_modules() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4)))
    x = torch.randn(5, 8)
    counter = counted(lambda: net(x).sum().backward())
    assert counter.get_total_flops() == 4480
    counts = counter.get_flop_counts()
    assert counts["Sequential.0"] == {aten.addmm: 1280, aten.mm: 1280}
    assert counts["Sequential.2.0"] == counts["Sequential.2"] == {aten.addmm: 640, aten.mm: 1280}
    assert counts["Sequential"] == counts["Global"] == {aten.addmm: 1920, aten.mm: 2560}
    assert counted(lambda: net(x)).get_total_flops() == 1920
    x.requires_grad_()
    assert counted(lambda: net(x).sum().backward()).get_total_flops() == 5760


def test_convolutions() -> None:
    conv, image = nn.Conv2d(3, 4, 3, padding=1, stride=2), torch.randn(2, 3, 8, 8)
    counts = counted(lambda: conv(image).sum().backward()).get_flop_counts()
    assert counts["Conv2d"] == {aten.convolution: 6912, aten.convolution_backward: 6912}
    back = nn.ConvTranspose2d(3, 4, 3)
    image.requires_grad_()
    assert counted(lambda: back(image).sum().backward()).get_total_flops() == 82944


def test_attention_and_products_of_batches() -> None:
    q = torch.randn(2, 4, 6, 8, requires_grad=True)
    counter = counted(lambda: F.scaled_dot_product_attention(q, q, q).sum().backward())
    assert counter.get_total_flops() == 9216 + 23040
    a, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 4, 5)
    counts = counted(lambda: (a @ b).sum().backward()).get_flop_counts()["Global"]
    assert counts == {aten.bmm: 480}
    m, n = torch.randn(2, 3), torch.randn(4, 3)
    assert counted(lambda: torch.einsum("ij,kj->ik", m, n)).get_total_flops() == 48
    assert counted(lambda: m @ n[0]).get_total_flops() == 0


def test_formulas_of_ones_own_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    formula = {aten.relu: lambda shape, out_shape=None: shape[0] * out_shape[1]}
    counter = FlopCounterMode(custom_mapping=formula)
    with counter:
        F.relu(torch.randn(3, 5))
    assert counter.get_flop_counts() == {"Global": {aten.relu: 15}}
    text = capsys.readouterr().out
    assert "aten.relu" in text
    assert "100.00%" in text


def test_what_runs_later_is_not_counted() -> None:
    w = torch.randn(3, 3, requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        out = w @ w
    out.sum().backward()
    assert counter.get_total_flops() == 54


def test_products_into_a_given_tensor_count() -> None:
    a, out = torch.randn(3, 3), torch.empty(3, 3)
    assert counted(lambda: torch.mm(a, a, out=out)).get_total_flops() == 54
    assert counted(lambda: torch.addmm(out[0], a, a, out=out)).get_total_flops() == 54
