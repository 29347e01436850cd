"""The table of a model: what it counts, and that the model is left as it was."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.utils.model_summary import summary


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 2),
    )


def test_layers_shapes_parameters_and_memory_are_counted():
    net = network()
    net[3].bias.requires_grad_(False)
    found = summary(net, torch.zeros(5, 1, 4, 4))
    assert [layer.kind for layer in found.layers] == [
        "Sequential",
        "Conv2d",
        "BatchNorm2d",
        "Flatten",
        "Linear",
    ]
    assert found.layers[1].output_shapes == [(5, 4, 2, 2)] and found.layers[1].parameters == 40
    assert found.parameters == 40 + 8 + 34 and found.trainable == found.parameters - 2
    assert found.parameter_bytes == 4 * 82 and found.buffer_bytes == 4 * 8 + 8
    assert found.output_bytes == 4 * (80 + 80 + 80 + 10)
    text = str(found)
    assert "  0 (Conv2d)" in text and "[5, 4, 2, 2]" in text and "parameters: 82" in text


def test_the_model_is_left_as_it_was():
    net = network().train()
    net[1].eval()
    before = net[1].running_mean.clone()
    summary(net, torch.ones(2, 1, 4, 4))
    assert net.training and not net[1].training and torch.equal(net[1].running_mean, before)
    assert not net[0]._forward_hooks and net[0].weight.grad is None
    with pytest.raises(RuntimeError):
        summary(net, torch.ones(2, 9, 4, 4))
    assert net.training and not net[0]._forward_hooks
