"""Gradients of each sample of a batch, against one sample at a time."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads


class Network(nn.Module):
    """All layers that treat samples one by one; one linear layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.conv = nn.Conv1d(4, 6, 3, padding=1)
        self.back = nn.ConvTranspose1d(6, 4, 3, padding=1)
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True)
        self.layer, self.rms, self.slope = nn.LayerNorm(5), nn.RMSNorm(5), nn.PReLU(4)
        self.linear, self.pair = nn.Linear(5, 5), nn.Bilinear(5, 5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x).transpose(1, 2)
        x = self.instance(self.group(self.back(self.conv(x).tanh())) + x)
        x = self.linear(self.slope(self.linear(self.rms(self.layer(x)))))
        y: torch.Tensor = self.pair(x, x)
        return y


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_gradients_are_those_of_one_sample_at_a_time(reduction: str) -> None:
    torch.manual_seed(0)
    network = Network().double()
    batch = torch.randint(9, (3, 5))
    losses = call_for_per_sample_grads(network, loss_reduction=reduction)(batch).pow(2).flatten(1)
    getattr(losses.sum(1), reduction)().backward()
    parameters = list(network.parameters())
    for i in range(3):
        loss = network(batch[i : i + 1]).pow(2).sum()
        for weight, wanted in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            assert weight.grad is None
            torch.testing.assert_close(weight.grad_sample[i], wanted)


def test_what_comes_before_gets_its_gradient_too() -> None:
    layer, frozen = nn.Linear(3, 2), nn.Linear(3, 3).requires_grad_(False)
    x = torch.randn(5, 4, 3, requires_grad=True)
    call = call_for_per_sample_grads(nn.Sequential(frozen, layer), batch_first=False)
    call(x).sum().backward()
    wanted = torch.autograd.grad(layer(frozen(x)).sum(), x)[0]
    torch.testing.assert_close(x.grad, wanted)
    assert layer.weight.grad_sample.shape == (4, 2, 3)
    assert not hasattr(frozen.weight, "grad_sample")


@pytest.mark.parametrize(
    ("module", "options", "inputs", "words"),
    [
        (3, {}, (), "Module passed must be nn.Module, got int"),
        (nn.Linear(3, 2), {"loss_reduction": "x"}, (), "to be sum or mean, got x"),
        (nn.Linear(3, 2), {"batch_size": "x"}, (), "must be None or an integer, got str"),
        (nn.Linear(3, 2), {"batch_size": 5}, (torch.ones(4, 3),), "input batch size of 4 with"),
        (nn.Linear(3, 2), {}, (torch.ones(0, 3),), "0 is not a valid batch size"),
        (nn.Linear(3, 2), {}, (torch.ones(3),), "Input does not have a batch dimension"),
        (nn.Linear(3, 2), {}, (3,), "Unable to find a tensor in the passed args"),
        (nn.Bilinear(3, 3, 2), {}, (torch.ones(4, 3), torch.ones(5, 3)), "batch size 4 and one"),
        (nn.BatchNorm1d(3), {}, (torch.ones(4, 3),), "cannot handle function batch_norm"),
    ],
)
def test_what_it_refuses(module: Any, options: Any, inputs: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call_for_per_sample_grads(module, **options)(*inputs)


def test_gradients_of_two_calls_are_not_mixed() -> None:
    layer = nn.Linear(3, 2)
    call_for_per_sample_grads(layer)(torch.ones(4, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="Please clear out the grad_sample"):
        call_for_per_sample_grads(layer)
