"""Mixed precision on the device: what autocast casts, what it keeps, and GradScaler."""

from __future__ import annotations

import math
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=str)
def test_products_are_cast_and_what_would_lose_is_not(low: torch.dtype) -> None:
    x = torch.randn(8, 8, device="cuda")
    with torch.autocast("cuda", low):
        product = x @ x
        assert product.dtype == low
        assert F.softmax(product, -1).dtype == product.sum().dtype == torch.float32
        assert F.layer_norm(product, (8,)).dtype == torch.float32
        assert torch.cat([product, x]).dtype == torch.float32
        assert torch.cat([product, product]).dtype == low
        assert F.relu(product).dtype == low
        assert (x.double() @ x.double()).dtype == torch.float64
    assert (x @ x).dtype == torch.float32


def test_a_weight_is_cast_once_within_a_step() -> None:
    layer = nn.Linear(16, 16, bias=False).cuda()
    x = torch.randn(4, 16, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        layer(x)
        first = torch.cuda.memory_stats()["allocation.all.allocated"] - before
        layer(x)
        second = torch.cuda.memory_stats()["allocation.all.allocated"] - before - first
    assert second == first - 1


def train(device: str, scaler: torch.amp.GradScaler | None, steps: int, **options: object) -> list:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
    x = torch.linspace(-1, 1, 32 * 64).view(64, 32).to(device)
    target = (torch.arange(64) % 8).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16, enabled=scaler is not None):
            loss = F.cross_entropy(model(x), target)
        losses.append(loss.detach())
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return torch.stack(losses).tolist()


@pytest.mark.parametrize("fused", [False, True])
def test_training_in_half_precision_follows_single_precision(fused: bool) -> None:
    exact = train("cuda", None, 20)
    scaled = train("cuda", torch.amp.GradScaler("cuda", init_scale=1024.0), 20, fused=fused)
    assert scaled == pytest.approx(exact, rel=2e-2)
    assert scaled[-1] < scaled[0]


@pytest.mark.parametrize("fused", [False, True])
def test_an_overflow_leaves_a_step_out_and_shrinks_the_scale(fused: bool) -> None:
    parameter = nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = torch.optim.Adam([parameter], lr=1.0, fused=fused)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0, growth_interval=2)
    factors = (math.inf, 1.0, math.nan, 1.0, 1.0)
    scales = []
    for factor in factors:
        optimizer.zero_grad()
        before = parameter.tolist()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        assert (parameter.tolist() == before) == (not math.isfinite(factor))
    assert scales == [2.0, 2.0, 1.0, 1.0, 2.0]


def test_a_scaled_step_waits_for_the_device_at_most_to_ask_for_an_overflow() -> None:
    parameters = [nn.Parameter(torch.ones(3, device="cuda")) for _ in range(50)]
    parameters.append(nn.Parameter(torch.ones(4, 4, device="cuda").t()))
    optimizer = torch.optim.Adam(parameters, lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        loss = torch.stack([p.sum() for p in parameters]).sum()
        scaler.scale(loss).backward()
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    plain = torch.optim.SGD(parameters, lr=0.1)
    scaler.scale(torch.stack([p.sum() for p in parameters]).sum()).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        scaler.unscale_(plain)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(p.grad.eq(1).all().item() for p in parameters)
    scaler.step(plain)
    scaler.update()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_many_gradients_are_unscaled_and_looked_at_together(dtype: torch.dtype) -> None:
    shapes = [(1,), (0,), (70_000,), (30, 40), (1000, 33)] * 9
    grads = [torch.full(shape, 8.0, dtype=dtype, device="cuda") for shape in shapes]
    grads.append(torch.full((6, 8), 8.0, dtype=dtype, device="cuda")[::2, ::2])
    for place in (None, -1, 12, 2):
        found = torch.zeros((), device="cuda")
        if place is not None:
            grads[place][..., -1] = math.inf if place != 12 else math.nan
        torch._C._amp_foreach_non_finite_check_and_unscale_(
            grads, found, torch.tensor(0.5, device="cuda")
        )
        assert found.item() == (place is not None)
        for grad in grads:
            assert grad.numel() == 0 or grad.reshape(-1)[0].item() in (4.0, 2.0, 1.0, 0.5)
            grad.fill_(8.0)


def test_a_scaler_is_kept_in_checkpoints() -> None:
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    scaler.scale(torch.ones((), device="cuda"))
    scaler.update(32.0)
    again = torch.amp.GradScaler("cuda")
    again.load_state_dict(scaler.state_dict())
    copied = pickle.loads(pickle.dumps(scaler))
    assert again.get_scale() == copied.get_scale() == 32.0
    half = torch.ones((), device="cuda", dtype=torch.float16)
    assert (
        copied.scale(half * 60_000).isfinite().item()
    )  # a loss of half precision does not overflow
