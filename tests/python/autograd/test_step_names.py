"""Graphs as programs print them: ops are the steps that they are in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

IMAGE = (1, 2, 4, 4)

# An op of a leaf, the sizes of that, and the name of the step.
STEPS: list[tuple[Callable[..., Any], tuple[int, ...], str]] = [
    (lambda x: F.mse_loss(x, torch.zeros(3, 4)), (3, 4), "MseLossBackward0"),
    (lambda x: F.smooth_l1_loss(x, torch.zeros(3, 4)), (3, 4), "SmoothL1LossBackward0"),
    (lambda x: F.huber_loss(x, torch.zeros(3, 4)), (3, 4), "HuberLossBackward0"),
    (
        lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros(3, 4)),
        (3, 4),
        "BinaryCrossEntropyWithLogitsBackward0",
    ),
    (lambda x: F.nll_loss(x, torch.tensor([0, 1, 2])), (3, 4), "NllLossBackward0"),
    (lambda x: F.nll_loss(x, torch.zeros(1, 4, 4).long()), IMAGE, "NllLoss2DBackward0"),
    (lambda x: F.soft_margin_loss(x, torch.ones(3, 4)), (3, 4), "SoftMarginLossBackward0"),
    (
        lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2])),
        (3, 4),
        "MultiMarginLossBackward0",
    ),
    (
        lambda x: F.multilabel_margin_loss(x, torch.zeros(3, 4).long()),
        (3, 4),
        "MultilabelMarginLossBackward0",
    ),
    (
        lambda x: F.max_unpool2d(x, torch.tensor([[[[0]], [[3]]]]), 2),
        (1, 2, 1, 1),
        "MaxUnpool2DBackward0",
    ),
    (lambda x: F.group_norm(x, 2), IMAGE, "NativeGroupNormBackward0"),
    (lambda x: F.interpolate(x, scale_factor=2), IMAGE, "UpsampleNearest2DBackward0"),
    (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        IMAGE,
        "UpsampleBilinear2DBackward0",
    ),
    (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), IMAGE, "ReflectionPad2DBackward0"),
    (lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), IMAGE, "ReplicationPad2DBackward0"),
    (lambda x: F.pixel_unshuffle(x, 2), IMAGE, "PixelUnshuffleBackward0"),
    (F.relu6, (3, 4), "HardtanhBackward0"),
    (F.selu, (3, 4), "EluBackward0"),
    (lambda x: torch.div(x, 2, rounding_mode="floor"), (3, 4), "DivBackward2"),
    (torch.trace, (3, 3), "TraceBackward0"),
    (lambda x: torch.dist(x, torch.zeros(3)), (3,), "DistBackward0"),
    (lambda x: torch.vdot(x, torch.ones(3)), (3,), "VdotBackward0"),
    (lambda x: torch.addr(torch.zeros(3, 3), x, torch.ones(3)), (3,), "AddrBackward0"),
    (lambda x: torch.renorm(x, 2, 0, 1.0), (3, 4), "RenormBackward0"),
    (lambda x: torch.sort(x, stable=True)[0], (3, 4), "SortBackward1"),
    (lambda x: torch.fill(x, 2.0), (3, 4), "FillBackward0"),
    (torch.t_copy, (3, 4), "TBackward0_copy"),
    (lambda x: torch.unbind_copy(x)[0], (3, 4), "UnbindBackward0_copy"),
]


@pytest.mark.parametrize(("op", "sizes", "name"), STEPS)
def test_an_op_is_one_step(op: Callable[..., Any], sizes: tuple[int, ...], name: str) -> None:
    x = torch.ones(sizes).requires_grad_()
    step = op(x).grad_fn
    assert step.name() == name
    nodes = [node for node, _ in step.next_functions if node is not None]
    assert [node.name() for node in nodes] == ["torch::autograd::AccumulateGrad"]
    assert nodes[0].variable is x


def test_the_steps_of_a_network_lead_back_to_its_input() -> None:
    """As tutorials show it: the loss, the layer before, the activation before that."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    loss = nn.MSELoss()(model(torch.ones(5, 3)), torch.zeros(5, 2))
    assert str(loss).endswith("grad_fn=<MseLossBackward0>)")
    layer = loss.grad_fn.next_functions[0][0]
    assert layer.name() == "AddmmBackward0"
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_an_argument_that_is_handed_through_keeps_its_step() -> None:
    x = torch.ones(2, requires_grad=True) * 2
    assert torch.sgn(x).grad_fn.name() != "MulBackward0"
    assert x.grad_fn.name() == "MulBackward0"


def test_results_that_were_filled_in_steps_are_fresh() -> None:
    x = (torch.eye(3) * 2).requires_grad_()
    for result in (torch.linalg.inv(x), torch.linalg.qr(x)[0], torch.linalg.cholesky(x)):
        assert result._version == 0
        result.sum().backward()
