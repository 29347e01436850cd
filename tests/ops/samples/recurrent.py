"""Samples of recurrent layers and cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, op, t
from .unary import sigmoid

Array = Any


def lstm_cell(x: Array, state: Any, w_ih: Array, w_hh: Array, b_ih: Array = 0, b_hh: Array = 0,
              w_hr: Array | None = None) -> tuple[Array, Array]:  # fmt: skip
    h, c = state
    i, f, g, o = np.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h if w_hr is None else h @ w_hr.T), c


def gru_cell(x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array = 0, b_hh: Array = 0) -> Any:
    xr, xz, xn = np.split(x @ w_ih.T + b_ih, 3, 1)
    hr, hz, hn = np.split(h @ w_hh.T + b_hh, 3, 1)
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def elman_cell(squash: Any) -> Any:
    def cell(x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array = 0, b_hh: Array = 0) -> Any:
        return squash(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)

    return cell


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def layers(cell: Any, states: int) -> Any:
    """A stack of a cell over equally long sequences, one direction or two."""

    def run(x: Array, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
            train: bool, bidirectional: bool, batch_first: bool) -> Any:  # fmt: skip
        x = np.swapaxes(x, 0, 1) if batch_first else x
        count = num_layers * (2 if bidirectional else 1)
        each = len(params) // count
        finals = []
        for layer in range(num_layers):
            outputs = []
            for direction in range(count // num_layers):
                k = layer * (count // num_layers) + direction
                state = (hx[0][k], hx[1][k]) if states == 2 else hx[k]
                steps = x[::-1] if direction else x
                rows = []
                for step in steps:
                    state = cell(step, state, *params[k * each : (k + 1) * each])
                    rows.append(state[0] if states == 2 else state)
                outputs.append(np.stack(rows[::-1] if direction else rows))
                finals.append(state)
            x = np.concatenate(outputs, -1)
        x = np.swapaxes(x, 0, 1) if batch_first else x
        if states == 1:
            return x, np.stack(finals)
        return x, np.stack([h for h, _ in finals]), np.stack([c for _, c in finals])

    return run


def weights(gates: int, sizes: tuple[int, ...], hidden: int, biases: bool) -> list[Any]:
    """The parameters of one direction a size of input."""
    params: list[Any] = []
    for size in sizes:
        params += [t(gates * hidden, size), t(gates * hidden, hidden)]
        params += [t(gates * hidden), t(gates * hidden)] if biases else []
    return params


LAYER = {
    "dtypes": "f",
    "tolerance": 40,
    "empty": "a sequence has at least one step",
    "zero_dim": "it takes sequences",
    "forms": "function-only",
}
op(
    "lstm",
    call(t(2, 1, 2), [t(1, 1, 1), t(1, 1, 1)], weights(4, (2,), 1, True), True, 1, 0.0, True,
         False, False),
    call(t(1, 2, 1), [t(2, 1, 1), t(2, 1, 1)], weights(4, (1, 1), 1, False), False, 1, 0.0, True,
         True, True),
    call(t(3, 2, 3), [t(4, 2, 4), t(4, 2, 4)], weights(4, (3, 3, 8, 8), 4, True), True, 2, 0.5,
         False, True, False, grad_=False),
    ref=layers(lstm_cell, 2),
    **LAYER,
)  # fmt: skip
for name, cell, gates in (
    ("gru", gru_cell, 3),
    ("rnn_tanh", elman_cell(np.tanh), 1),
    ("rnn_relu", elman_cell(relu), 1),
):
    op(
        name,
        call(t(2, 1, 2), t(1, 1, 1), weights(gates, (2,), 1, True), True, 1, 0.0, True, False,
             False),
        call(t(1, 2, 1), t(2, 1, 1), weights(gates, (1, 1), 1, False), False, 1, 0.0, True, True,
             True),
        call(t(3, 2, 3), t(4, 2, 4), weights(gates, (3, 3, 8, 8), 4, True), True, 2, 0.5, False,
             True, False, grad_=False),
        ref=layers(cell, 1),
        **LAYER,
    )  # fmt: skip

CELL = {**LAYER, "empty": "an empty batch is asked for in the tests of layers"}
op(
    "lstm_cell",
    call(t(2, 1), [t(2, 1), t(2, 1)], t(4, 1), t(4, 1), t(4), t(4)),
    call(t(1, 2), [t(1, 1), t(1, 1)], t(4, 2), t(4, 1)),
    ref=lstm_cell,
    **CELL,
)
for name, cell, gates in (
    ("gru_cell", gru_cell, 3),
    ("rnn_tanh_cell", elman_cell(np.tanh), 1),
    ("rnn_relu_cell", elman_cell(relu), 1),
):
    op(
        name,
        call(t(2, 1), t(2, 1), t(gates, 1), t(gates, 1), t(gates), t(gates)),
        call(t(1, 2), t(1, 1), t(gates, 2), t(gates, 1)),
        ref=cell,
        **CELL,
    )
