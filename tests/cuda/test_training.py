"""A network trains on the device with the losses it has on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


def losses_on(device: str, optimizer: Callable[[Any], Any], dtype: Any, steps: int) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5)
    ).to(dtype)
    x, target = torch.randn(256, 20, dtype=dtype), torch.randint(0, 5, (256,))
    model, x, target = model.to(device), x.to(device), target.to(device)
    step = optimizer(model.parameters())
    losses = []
    for _ in range(steps):
        step.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(
        p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_mlp_has_the_losses_of_the_cpu(
    name: str, dtype: str, request: pytest.FixtureRequest
) -> None:
    kind = getattr(torch, dtype)
    steps = 4 if request.config.getoption("--thin") else 30
    cpu, cuda = (losses_on(device, OPTIMIZERS[name], kind, steps) for device in ("cpu", "cuda"))
    assert cuda[-1] < (0.98 if steps == 30 else 1) * cuda[0]
    limit = 2e-4 if dtype == "float32" else 1e-10
    assert cuda == pytest.approx(cpu, rel=limit)


def test_a_weighted_loss_has_the_gradients_of_the_cpu() -> None:
    torch.manual_seed(1)
    logits, target = torch.randn(8, 5, 3), torch.randint(0, 5, (8, 3))
    weight = torch.rand(5)
    target[0, 0] = -100
    for reduction in ("mean", "sum", "none"):
        results = []
        for device in ("cpu", "cuda"):
            x = logits.detach().clone().to(device).requires_grad_()
            loss = nn.functional.cross_entropy(
                x, target.to(device), weight.to(device), reduction=reduction
            )
            loss.sum().backward()
            results.append((loss.detach().cpu(), x.grad.cpu()))
        for got, wanted in zip(results[1], results[0]):
            torch.testing.assert_close(got, wanted)


def test_half_precision_trains() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 64).cuda().to(torch.bfloat16)
    x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
    loss = (layer(x) ** 2).float().mean()
    loss.backward()
    gradient = layer.weight.grad
    assert gradient.dtype == torch.bfloat16
    assert torch.isfinite(gradient).all().item()


def test_a_graph_may_cross_devices() -> None:
    x = torch.randn(4, requires_grad=True)
    (x.cuda() * 2).cpu().sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    assert x.grad.device.type == "cpu"
