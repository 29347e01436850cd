"""Activation functions and dropout."""

from __future__ import annotations

import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "alpha_dropout",
    "celu",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "feature_alpha_dropout",
    "glu",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, ``value`` elsewhere."""
    if inplace:
        return _C.threshold_(input, threshold, value)
    return _C.threshold(input, threshold, value)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, x) of each element."""
    if inplace:
        return _C.relu_(input)
    return _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, x), 6) of each element."""
    if inplace:
        return _C.relu6_(input)
    return _C.relu6(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _C.glu(input, dim)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Each element clamped to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return _C.hardtanh_(input, min_val, max_val)
    return _C.hardtanh(input, min_val, max_val)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha * (exp(x) - 1) elsewhere."""
    if inplace:
        return _C.elu_(input, alpha)
    return _C.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalizing ELU."""
    if inplace:
        return _C.selu_(input)
    return _C.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if inplace:
        return _C.celu_(input, alpha)
    return _C.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, negative_slope * x elsewhere."""
    if inplace:
        return _C.leaky_relu_(input, negative_slope)
    return _C.leaky_relu(input, negative_slope)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with a random slope in training, and the mean slope otherwise."""
    if inplace:
        return _C.rrelu_(input, lower, upper, training)
    return _C.rrelu(input, lower, upper, training)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Each element moved towards zero by ``lambd``, and no further."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _C.softshrink(input, lambd, out=out)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6."""
    if inplace:
        return _C.hardswish_(input)
    return _C.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    if inplace:
        return _C.hardsigmoid_(input)
    return _C.hardsigmoid(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    if inplace:
        return _C.silu_(input)
    return _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    if inplace:
        return _C.mish_(input)
    return _C.mish(input)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x)), without overflow; laid out row by row."""
    return _C.log_sigmoid(input.contiguous(), out=out)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return _C._tanhshrink(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return _C._softsign(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of each element."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """The logistic function of each element."""
    return input.sigmoid()


def _implicit_dim(name: str, dimensions: int, stacklevel: int) -> int:
    """The dimension the softmax family took before it was asked to name one."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if dimensions in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Rescales along ``dim`` so that the elements are positive and sum to one."""
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return _C.softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax of the negated input."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return _C.softmax(-input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of softmax, computed without overflow."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return _C.log_softmax(input, dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples from the Gumbel-softmax distribution; ``hard`` samples are one-hot.

    Hard samples have the gradient of the soft ones.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    return _C._gumbel_softmax(logits, tau, hard, dim)


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability ``p`` and rescales the others by 1 / (1 - p)."""
    if p < 0.0 or p > 1.0:
        _check_probability(p)
    if inplace:
        return _C.dropout_(input, p, training)
    return _C.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps the mean and variance of inputs made for SELU."""
    _check_probability(p)
    if inplace:
        return _C.alpha_dropout_(input, p, training)
    return _C.alpha_dropout(input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels."""
    _check_probability(p)
    if inplace:
        return _C.feature_alpha_dropout_(input, p, training)
    return _C.feature_alpha_dropout(input, p, training)


def _feature_dropout(
    name: str, dimensions: int, input: Tensor, p: float, training: bool, inplace: bool
) -> Tensor:
    """Zeroes whole channels of a batch with ``dimensions`` dimensions, or of one sample of it."""
    _check_probability(p)
    given = input.dim()
    batched = given == dimensions
    if not batched and given != dimensions - 1:
        if name == "dropout1d":
            raise RuntimeError(
                f"{name}: Expected 2D or 3D input, but received a {given}D input. "
                "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 "
                "spatial dimension, a channel dimension, and an optional batch dimension "
                "(i.e. 2D or 3D inputs)."
            )
        warnings.warn(
            f"{name}: Received a {given}-D input to {name}, which is deprecated and will result "
            "in an error in a future release. To retain the behavior and silence this warning, "
            "please use dropout instead.",
            stacklevel=3,
        )
    if name == "dropout2d" and given == 3:
        warnings.warn(
            "dropout2d: Received a 3D input and assuming that channel-wise 1D dropout behavior is "
            "desired: it is read as (N, C, L). Use dropout1d to keep this behavior.",
            stacklevel=3,
        )
    # 1d and 3d take what is no batch for a single sample; 2d reads 3 dimensions as (N, C, L).
    unsqueezed = not batched and name != "dropout2d"
    if unsqueezed:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    if inplace:
        result = _C.feature_dropout_(input, p, training)
    else:
        result = _C.feature_dropout(input, p, training)
    if unsqueezed:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L)."""
    return _feature_dropout("dropout1d", 3, input, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, H, W)."""
    return _feature_dropout("dropout2d", 4, input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _feature_dropout("dropout3d", 5, input, p, training, inplace)
