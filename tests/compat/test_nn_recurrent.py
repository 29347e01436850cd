"""Recurrent layers, cells and packed sequences give PyTorch's numbers, names and errors."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import STATE, check

SETUP = ["R = nn.utils.rnn", "D = torch.float64"]
LOOSE = "D = torch.float32"

LAYERS = [
    "LSTM(3, 4)", "LSTM(3, 4, 2, bidirectional=True)", "LSTM(3, 4, 2, bias=False, proj_size=2)",
    "LSTM(3, 4, 3, dropout=0.4, batch_first=True, bidirectional=True, proj_size=3)",
    "GRU(3, 4)", "GRU(3, 4, 2, batch_first=True, bidirectional=True)", "GRU(3, 5, bias=False)",
    "GRU(3, 4, 3, dropout=0.5)", "RNN(3, 4)", "RNN(3, 4, 2, 'relu', bidirectional=True)",
    "RNN(3, 4, nonlinearity='relu', bias=False, batch_first=True)",
]  # fmt: skip
AFTER = [
    "flat = list(s) if isinstance(s, tuple) else [s]",
    "loss = (y * y).sum() + sum((q ** 3).sum() for q in flat)",
    "loss.backward()",
    "y, flat, loss = y.detach(), [q.detach() for q in flat], loss.detach()",
    "grads = [p.grad for p in m.parameters()]",
    "del s",
]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_on_equal_sequences(layer: str, training: bool, comparison: Comparison) -> None:
    check(
        comparison, *SETUP,
        f"m = nn.{layer}", "text = repr(m)", "start = dict(m.state_dict())", STATE,
        f"m = m.to(D).train({training})",
        "x = torch.randn(5, 5, 3, dtype=D).requires_grad_()",
        "y, s = m(x)", *AFTER, "again = torch.rand(2)",
    )  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_on_packed_sequences_with_a_state(layer: str, comparison: Comparison) -> None:
    for order in ("[5, 4, 4, 1]", "[2, 5, 1, 3]"):
        check(
            comparison, *SETUP,
            f"m = nn.{layer}.to(D)",
            "x = torch.randn(4, 5, 3, dtype=D).requires_grad_()",
            f"p = R.pack_padded_sequence(x, {order}, batch_first=True, enforce_sorted=False)",
            "n = m.num_layers * (2 if m.bidirectional else 1)",
            "h = torch.randn(n, 4, m.proj_size or m.hidden_size, dtype=D).requires_grad_()",
            "c = torch.randn(n, 4, m.hidden_size, dtype=D).requires_grad_()",
            "q, s = m(p, (h, c) if m.mode == 'LSTM' else h)",
            "parts = [q.data.detach(), q.batch_sizes, q.sorted_indices, q.unsorted_indices]",
            "y, lengths = R.pad_packed_sequence(q, m.batch_first, -2.0, 7)",
            "del p, q", *AFTER,
        )  # fmt: skip


@pytest.mark.parametrize(
    "cell",
    ["LSTMCell(3, 4)", "LSTMCell(3, 4, bias=False)", "GRUCell(3, 4)", "RNNCell(3, 4)",
     "RNNCell(3, 4, nonlinearity='relu')"],
)  # fmt: skip
def test_cells(cell: str, comparison: Comparison) -> None:
    for shape in ("(2, 3)", "(3,)"):
        check(
            comparison, *SETUP,
            f"m = nn.{cell}", "text = repr(m)", "start = dict(m.state_dict())", STATE,
            "m = m.to(D)", f"x = torch.randn({shape}, dtype=D).requires_grad_()",
            "s = m(x)", "s = m(x * 2, s)", "y = s[0] if isinstance(s, tuple) else s", *AFTER,
        )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "nn.LSTM(3, 4)(z(2))", "nn.GRU(3, 4)(z(2))", "nn.RNN(3, 4)(z(2, 2, 2, 2))",
        "nn.LSTM(3, 4)(z(2, 3, 5))", "nn.LSTM(3, 4)(z(2, 3, 3).double())",
        "nn.LSTM(3, 4)(z(2, 3, 3), (z(1, 3, 5), z(1, 3, 4)))",
        "nn.LSTM(3, 4)(z(2, 3, 3), (z(1, 3, 4), z(1, 2, 4)))",
        "nn.LSTM(3, 4)(z(2, 3, 3), (z(3, 4), z(3, 4)))",
        "nn.LSTM(3, 4)(z(2, 3), (z(1, 3, 4), z(1, 3, 4)))",
        "nn.GRU(3, 4)(z(2, 3, 3), z(1, 2, 4))", "nn.GRU(3, 4)(z(2, 3, 3), z(2, 4))",
        "nn.GRU(3, 4)(z(2, 3), z(2, 4, 3))", "nn.RNN(3, 4, nonlinearity='x')",
        "nn.RNN(3, 4, proj_size=2)", "nn.GRU(3, 4, proj_size=2)", "nn.LSTM(3, 4, proj_size=4)",
        "nn.LSTM(3, 4, proj_size=-1)", "nn.LSTM(3, 4, num_layers=0)", "nn.LSTM(3, 0)",
        "nn.LSTM(3, 4.0)", "nn.LSTM(3, 4, num_layers=1.5)", "nn.LSTM(3, 4, dropout=2)",
        "nn.LSTM(3, 4, dropout='a')", "nn.LSTM(0, 4)", "nn.LSTM(3, 4)(z(0, 3, 3))",
        "out = nn.LSTM(3, 4)(z(2, 0, 3))[0].shape", "nn.LSTMCell(3, 4)(z(3, 2))",
        "nn.LSTMCell(3, 4)(z(2, 3, 3))", "nn.GRUCell(3, 4)(z(2, 3), z(3, 4))",
        "nn.GRUCell(3, 4)(z(2, 3), z(4))", "nn.LSTMCell(3, 4)(z(2, 3), (z(2, 5), z(2, 4)))",
        "nn.RNNCell(3, 4, nonlinearity='x')(z(2, 3))", "nn.GRUCell(3, 4)(z(2, 3), z(1, 2, 4))",
        "R.pack_padded_sequence(t, [1, 2, 3, 3])", "R.pack_padded_sequence(t, [3, 3, 2, 0])",
        "R.pack_padded_sequence(t, [3, 2, 2])", "R.pack_sequence([])", "R.pad_sequence([])",
        "R.pad_packed_sequence(R.pack_padded_sequence(t, [3, 2, 2, 1]), total_length=2)",
        "R.pad_sequence([1])", "R.pad_sequence([z(2)], padding_side='x')",
        "R.pad_sequence([z(2, 3), z(3, 2)])", "R.PackedSequence(z(3), None)",
        "R.pack_sequence([z(2), z(3)])",
    ],
)  # fmt: skip
def test_errors(statement: str, comparison: Comparison) -> None:
    check(comparison, *SETUP, "z = torch.zeros", "t = torch.arange(24.0).view(3, 4, 2)", statement)


def test_packing_and_padding(exact: Comparison) -> None:
    check(
        exact, *SETUP,
        "s = [torch.arange(k * 2.0).view(k, 2) + k for k in (2, 4, 1)]",
        "right = R.pad_sequence(s)", "left = R.pad_sequence(s, True, -1.0, 'left')",
        "p = R.pack_sequence(s, enforce_sorted=False)", "text = repr(p)",
        "back = R.unpack_sequence(p)", "cut = R.unpad_sequence(right + 0, torch.tensor([2, 4, 1]))",
        "double = p.double()", "parts = list(double)", "same = p.to(torch.float32) is p",
        "inverse = R.invert_permutation(torch.tensor([2, 0, 1]))",
    )  # fmt: skip


def test_weights_replaced_after_the_layer_was_made_are_used(comparison: Comparison) -> None:
    check(
        comparison, *SETUP, "m = nn.LSTM(3, 4)", "x = torch.randn(2, 1, 3)",
        "m.weight_hh_l0 = nn.Parameter(torch.zeros(16, 4))", "y = m(x)[0].detach()",
        "del m.weight_ih_l0", "m.weight_ih_l0 = torch.ones(16, 3)", "w = m(x)[0].detach()",
    )  # fmt: skip
