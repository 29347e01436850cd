"""grid_sample, embedding_bag and ctc_loss on CUDA, with their gradients, against the CPU."""

from __future__ import annotations

import pytest
from test_layers import assert_gradients

import flambeau as torch
import flambeau.nn.functional as F


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_are_sampled_as_on_the_cpu(mode: str, padding: str, align: bool) -> None:
    x, grid = torch.randn(2, 19, 8, 9).double(), torch.rand(2, 5, 7, 2).double() * 2.6 - 1.3

    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align)

    assert_gradients(sample, x, grid, tolerance=1e-9)
    if mode != "bicubic":
        volume, positions = torch.randn(2, 3, 4, 5, 6).double(), torch.rand(2, 3, 4, 5, 3).double()
        assert_gradients(sample, volume, positions * 2.6 - 1.3, tolerance=1e-9)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_those_of_the_cpu(mode: str) -> None:
    table = torch.randn(20, 300)
    indices = torch.randint(0, 20, (50,))
    offsets = torch.tensor([0, 3, 3, 17, 50])

    def bag(table: torch.Tensor) -> torch.Tensor:
        where = table.device
        return F.embedding_bag(
            indices.to(where), table, offsets.to(where), mode=mode, padding_idx=4
        )

    assert_gradients(bag, table)
    if mode == "sum":
        factors = torch.randn(50)
        assert_gradients(
            lambda table, factors: F.embedding_bag(
                indices.to(table.device),
                table,
                offsets.to(table.device),
                mode="sum",
                per_sample_weights=factors,
            ),
            table,
            factors,
        )


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_the_temporal_loss_is_that_of_the_cpu(zero_infinity: bool) -> None:
    x = torch.randn(30, 4, 11).double()
    targets = torch.randint(1, 11, (4, 9))
    targets[0, 1] = targets[0, 0]
    inputs, lengths = (30, 22, 30, 25), (9, 4, 0, 7)

    def loss(x: torch.Tensor) -> torch.Tensor:
        scores = F.log_softmax(x, 2)
        return F.ctc_loss(
            scores,
            targets.to(x.device),
            inputs,
            lengths,
            reduction="none",
            zero_infinity=zero_infinity,
        )

    assert_gradients(loss, x, tolerance=1e-9)
