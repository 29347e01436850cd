"""Samples of the softmax family, dropout and activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .spec import as_dtype, call, op, t, unary_calls
from .unary import each, sigmoid

Array = Any


def softmax(x: Array, dim: int, *, dtype: Any = None) -> Array:
    if x.ndim == 0:
        return np.ones(())
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def log_softmax(x: Array, dim: int, *, dtype: Any = None) -> Array:
    return np.log(softmax(x, dim)) if x.size else x


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 50))) / beta)


def gelu(x: Array, *, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + each(math.erf)(x / math.sqrt(2)))


def glu(x: Array, dim: int = -1) -> Array:
    one, two = np.split(x, 2, axis=dim)
    return one * sigmoid(two)


SOFTMAX_CALLS = [
    call(t(3, 4), 1),
    call(t(2, 3, 4), 0),
    call(t(2, 3, 4), -2),
    call(t(), 0),
    call(t(0, 3), 1),
    call(t(3, 0), 1),
    call(t(2, 70), -1),
    call(t(2, 3), 1, dtype=as_dtype("float64"), result_="float64"),
    call(t(3, dtype="int64"), 0, dtype=as_dtype("float32"), dtypes_="int64", result_="float32"),
    call(t(2, 3, low=80, high=100), 1, dtypes_="f"),
]
op("softmax", SOFTMAX_CALLS, ref=softmax, dtypes="hf")
op("log_softmax", SOFTMAX_CALLS, ref=log_softmax, dtypes="hf", tolerance=4)
op(
    "dropout",
    call(t(3, 4), 0.0, True),
    call(t(3, 4), 0.5, False),
    call(t(), 0.3, False),
    call(t(0, 2), 0.5, True, layouts_=False),
    ref=lambda x, p, train: x,
    dtypes="hf",
    covers="native_dropout",
)
op(
    "alpha_dropout feature_dropout feature_alpha_dropout",
    call(t(3, 4), 0.5, False),
    call(t(2, 3), 0.0, True),
    call(t(), 0.3, False),
    call(t(0, 2), 0.5, False),
    ref=lambda x, p, train: x,
    dtypes="hf",
)

# Activations: smooth ones, and ones with a kink, at which no sample lies.
FUNCTION = {"where": "nn.functional", "dtypes": "hf"}
op("silu", unary_calls(), ref=lambda x: x * sigmoid(x), **FUNCTION)
op(
    "logsigmoid",
    unary_calls(),
    ref=lambda x: -np.log1p(np.exp(-x)),
    covers="log_sigmoid",
    **FUNCTION,
)
op("mish", unary_calls(), ref=lambda x: x * np.tanh(softplus(x)), **FUNCTION)
op(
    "hardswish",
    unary_calls(-5.0, 5.0, nonzero=True),
    ref=lambda x: x * np.clip(x + 3, 0, 6) / 6,
    **FUNCTION,
)
op("hardsigmoid", unary_calls(-5.0, 5.0), ref=lambda x: np.clip(x + 3, 0, 6) / 6, **FUNCTION)
op("softsign", unary_calls(nonzero=True), ref=lambda x: x / (1 + np.abs(x)), **FUNCTION)
op("tanhshrink", unary_calls(), ref=lambda x: x - np.tanh(x), tolerance=4, **FUNCTION)
op(
    "leaky_relu",
    unary_calls(nonzero=True),
    call(t(5, nonzero=True), 0.3),
    ref=lambda x, slope=0.01: np.where(x > 0, x, slope * x),
    **FUNCTION,
)
op(
    "elu celu",
    unary_calls(nonzero=True),
    call(t(5, nonzero=True), 1.0),
    ref=lambda x, alpha=1.0: np.where(x > 0, x, np.expm1(x)),
    **FUNCTION,
)
op(
    "selu",
    unary_calls(nonzero=True),
    ref=lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    **FUNCTION,
)
op("relu6", unary_calls(nonzero=True), ref=lambda x: np.clip(x, 0, 6), **FUNCTION)
op(
    "hardtanh",
    unary_calls(),
    call(t(5), -0.5, 2.0),
    ref=lambda x, low=-1.0, high=1.0: np.clip(x, low, high),
    **FUNCTION,
)
op(
    "softplus",
    unary_calls(),
    call(t(4), 2.0, 3.0),
    ref=softplus,
    tolerance=4,
    **FUNCTION,
)
op(
    "threshold",
    call(t(3, 4), 0.5, 7.0),
    call(t(), 0.0, 1.0),
    call(t(0, 2), 0.0, 1.0),
    ref=lambda x, threshold, value: np.where(x > threshold, x, value),
    **FUNCTION,
)
op(
    "gelu",
    unary_calls(),
    call(t(5), approximate="tanh"),
    ref=gelu,
    tolerance=4,
    covers="_nn_gelu",
    **FUNCTION,
)
op(
    "glu",
    call(t(3, 4)),
    call(t(4, 3), 0),
    call(t(0, 4)),
    ref=glu,
    zero_dim="it halves a dimension",
    **FUNCTION,
)
op(
    "prelu",
    call(t(3, 4, nonzero=True), t(1)),
    call(t(2, 3, 2, nonzero=True), t(3)),
    call(t(0, 2), t(1)),
    ref=lambda x, w: np.where(
        x > 0, x, x * (w if w.size == 1 else w.reshape(-1, *[1] * (x.ndim - 2)))
    ),
    zero_dim="its weight is a vector",
    where="nn.functional",
    dtypes="hf",
)
op(
    "softshrink hardshrink",
    call(t(3, 4, low=0.6, high=3), 0.0),
    call(t(low=1, high=2), 0.0),
    call(t(0, 2), 0.5),
    ref=lambda x, lambd: x,
    **FUNCTION,
)
op(
    "rrelu",
    call(t(3, 4, nonzero=True), 0.2, 0.4),
    call(t(nonzero=True)),
    call(t(0, 2)),
    ref=lambda x, lower=1 / 8, upper=1 / 3: np.where(x > 0, x, x * (lower + upper) / 2),
    **FUNCTION,
)


def on_grid(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    """Fake quantization: NumPy rounds ties to even, as the op does."""
    place = np.round(x.astype(np.float64) / np.float64(scale)) + zero
    return (np.clip(place, low, high) - zero) * np.float64(scale)


# Their gradient is that of the identity inside the grid, not that of the staircase.
op(
    "fake_quantize_per_tensor_affine",
    call(t(3, 4), 0.25, 1, -4, 9),
    call(t(), 0.5, 0, -128, 127),
    call(t(0, 2), 0.5, 0, 0, 255),
    ref=on_grid,
    dtypes="hf",
    grad=False,
)
op(
    "fake_quantize_per_channel_affine",
    call(
        t(2, 3),
        t(2, dtype="float32", values=(0.25, 0.5)),
        t(2, dtype="int32", values=(0, 3)),
        0,
        -4,
        9,
    ),
    ref=lambda x, scale, zero, axis, low, high: on_grid(
        x, scale[:, None], zero[:, None], low, high
    ),
    dtypes="hf",
    grad=False,
    empty="each channel has a scale",
    zero_dim="it has channels",
)
