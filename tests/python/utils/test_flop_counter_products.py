"""Counting operations: by op and by module, forward and backward. Numbers are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.checkpoint import checkpoint
from flambeau.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from flambeau.utils.module_tracker import ModuleTracker


def numbers(*sizes: int) -> Any:
    return torch.randn(*sizes, requires_grad=True)


def counted(run: Callable[[], Any]) -> dict[str, int]:
    with FlopCounterMode(display=False) as counter:
        run()
    return {str(op): n for op, n in counter.get_flop_counts().get("Global", {}).items()}


CASES: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "matmul": (lambda: numbers(2, 3, 4) @ numbers(4, 5), {"aten.mm": 720}),
    "batches": (lambda: numbers(3, 1, 3, 4) @ numbers(2, 4, 5), {"aten.bmm": 2160}),
    "vector": (lambda: numbers(3, 4) @ numbers(4), {}),
    "a matrix by a batch": (lambda: numbers(2, 3) @ numbers(5, 3, 4), {"aten.mm": 720}),
    "a batch by a vector": (lambda: numbers(5, 2, 3) @ numbers(3), {}),
    "powers": (lambda: torch.linalg.matrix_power(numbers(3, 3), 3), {"aten.mm": 324}),
    "inner": (lambda: torch.inner(numbers(2, 3), numbers(4, 3)), {"aten.mm": 144}),
    "linear of a vector": (
        lambda: F.linear(numbers(3), numbers(4, 3), numbers(4)),
        {"aten.addmm": 24, "aten.mm": 48},
    ),
    "linear": (
        lambda: F.linear(numbers(2, 3, 4), numbers(5, 4), numbers(5)),
        {"aten.addmm": 240, "aten.mm": 480},
    ),
    "baddbmm": (
        lambda: torch.baddbmm(numbers(2, 3, 5), numbers(2, 3, 4), numbers(2, 4, 5)),
        {"aten.baddbmm": 240, "aten.bmm": 480},
    ),
    "einsum": (
        lambda: torch.einsum("ab,bc,cd->ad", numbers(2, 3), numbers(3, 4), numbers(4, 5)),
        {"aten.bmm": 384},
    ),
    "einsum of lists": (
        lambda: torch.einsum(numbers(2, 3), [0, 1], numbers(3, 4), [1, 2], [0, 2]),
        {"aten.bmm": 144},
    ),
    "outer": (lambda: torch.einsum("a,b->ab", numbers(2), numbers(3)), {}),
    "tensordot": (
        lambda: torch.tensordot(numbers(2, 3, 4), numbers(4, 3, 5), ([1, 2], [1, 0])),
        {"aten.mm": 720},
    ),
    "multi_dot": (
        lambda: torch.linalg.multi_dot([numbers(2, 3), numbers(3, 4), numbers(4, 5)]),
        {"aten.mm": 384},
    ),
    "convolution": (
        lambda: F.conv2d(torch.randn(2, 4, 10, 9), numbers(6, 4, 3, 3), numbers(6)),
        {"aten.convolution": 48384, "aten.convolution_backward": 48384},
    ),
    "groups": (
        lambda: F.conv2d(numbers(2, 4, 10, 9), numbers(6, 2, 3, 3), None, 2, 1, groups=2),
        {"aten.convolution": 10800, "aten.convolution_backward": 32400},
    ),
    "same size": (
        lambda: F.conv2d(torch.randn(2, 4, 5, 5), numbers(6, 4, 3, 3), padding="same"),
        {"aten.convolution": 21600, "aten.convolution_backward": 21600},
    ),
    "transposed": (
        lambda: F.conv_transpose2d(numbers(2, 4, 5, 5), numbers(4, 3, 3, 3), stride=2),
        {"aten.convolution": 10800, "aten.convolution_backward": 21600},
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(
            numbers(2, 3, 5, 8), numbers(2, 3, 7, 8), numbers(2, 3, 7, 8)
        ),
        {
            "aten._scaled_dot_product_flash_attention_for_cpu": 6720,
            "aten._scaled_dot_product_flash_attention_for_cpu_backward": 16800,
        },
    ),
    "heads": (
        lambda: nn.MultiheadAttention(8, 2)(*[torch.ones(1, 5, 8)] * 3)[0],
        {"aten.addmm": 2560, "aten.bmm": 480, "aten.mm": 3200},
    ),
    "cell": (
        lambda: nn.GRUCell(4, 5)(torch.randn(2, 4)),
        {"aten.addmm": 540, "aten.mm": 540},
    ),
    "gru": (
        lambda: nn.GRU(4, 5)(torch.randn(3, 2, 4))[0],
        {"aten.addmm": 1620, "aten.mm": 2220},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_products_forward_and_backward(name: str) -> None:
    run, expected = CASES[name]
    assert counted(lambda: run().sum().backward()) == expected


def test_modules_have_their_own_counts_and_rows() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
            self.b = nn.Linear(16, 4, bias=False)

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

    net, counter = Net(), FlopCounterMode(display=False)
    with counter:
        loss = net(torch.randn(5, 8)).sum()
        loss.backward()
    found = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    assert found == {"Global": 4480, "Net": 4480, "Net.a": 2560, "Net.a.0": 2560, "Net.b": 1920}
    assert counter.get_total_flops() == 4480
    lines = counter.get_table().split("\n")
    assert lines[:3] == [
        "Module          FLOP    % Total",
        "------------  ------  ---------",
        "Net             4480    100.00%",
    ]
    with FlopCounterMode(display=False) as counter:
        loss = net(torch.randn(5, 8)).sum()
    loss.backward()  # outside: not counted
    assert counter.get_total_flops() == 1920


def test_a_module_that_runs_twice_has_both_gradients() -> None:
    layer, x = nn.Linear(4, 4), torch.randn(2, 4)
    outer = nn.Sequential(layer, nn.Tanh(), layer)
    with FlopCounterMode(display=False) as counter:
        checkpoint(outer, x, use_reentrant=False).sum().backward()
    counts = counter.get_flop_counts()
    aten = torch.ops.aten
    # Forward, the first layer once more for backward, and three gradients.
    assert counts["Sequential"] == counts["Global"] == {aten.addmm: 192, aten.mm: 192}


def test_nodes_are_numbered_in_order() -> None:
    x = torch.ones(1, requires_grad=True)
    number = torch._C._autograd._get_sequence_nr()
    assert (x + 1).grad_fn._sequence_nr() == number
    assert torch._C._autograd._get_sequence_nr() > number


def test_a_table_is_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with FlopCounterMode():
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert "aten.mm" in capsys.readouterr().out


def test_formulas_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_shape(shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        return 7 * shape[0]

    aten = torch.ops.aten
    with FlopCounterMode(display=False, custom_mapping={aten.cos: of_shape}) as counter:
        torch.cos(torch.ones(4))
    assert counter.get_total_flops() == 28
    try:
        register_flop_formula(aten.sin)(of_shape)
        assert counted(lambda: torch.sin(torch.ones(3))) == {"aten.sin": 21}
        with pytest.raises(RuntimeError, match="duplicate"):
            register_flop_formula(aten.sin)(of_shape)
    finally:
        del flop_registry[aten.sin]


def test_the_tracker_knows_the_modules_that_run() -> None:
    seen = []

    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append(set(tracker.parents))
            return x

    with ModuleTracker() as tracker:
        nn.Sequential(Inner(), nn.ReLU())(torch.ones(1))
        assert tracker.parents == {"Global"}
    assert seen == [{"Global", "Sequential", "Sequential.0"}]
