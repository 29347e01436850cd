"""Initial values for parameters. All write into the tensor they are given, without recording."""

from __future__ import annotations

import math
import re
import warnings

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Generator, Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def _no_grad_uniform_(
    tensor: Tensor, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    with flambeau.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(
    tensor: Tensor, mean: float, std: float, generator: Generator | None = None
) -> Tensor:
    with flambeau.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    with flambeau.no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    with flambeau.no_grad():
        return tensor.zero_()


def _no_grad_trunc_normal_(
    tensor: Tensor,
    mean: float,
    std: float,
    a: float,
    b: float,
    generator: Generator | None = None,
) -> Tensor:
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    with flambeau.no_grad():
        if inside > 0.3:
            _draw_normal_until_inside(tensor, mean, std, a, b, generator)
        else:
            _draw_uniform_and_thin(tensor, mean, std, a, b, generator)
    return tensor


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _draw_normal_until_inside(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> None:
    """Draws from the normal distribution, and again where the draw was outside [a, b]."""
    tensor.normal_(mean, std, generator=generator)
    if tensor.is_meta:
        return  # nothing was drawn that could lie outside
    outside = (tensor < a) | (tensor > b)
    while outside.any():
        # Everything is drawn again and the rest thrown away: the order of draws is PyTorch's.
        again = flambeau.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(flambeau.where(outside, again, tensor))
        outside = (tensor < a) | (tensor > b)


def _draw_uniform_and_thin(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> None:
    """Draws uniformly from [a, b] and accepts in proportion to the normal density there.

    For an interval that normal draws seldom hit.
    """
    peak = (min(max(mean, a), b) - mean) / std
    missing = flambeau.ones_like(tensor, dtype=flambeau.bool)
    while missing.any():
        drawn = flambeau.empty_like(tensor).uniform_(a, b, generator=generator)
        chance = flambeau.empty_like(tensor).uniform_(0, 1, generator=generator)
        z = (drawn - mean) / std
        accepted = chance < (-0.5 * (z * z - peak * peak)).exp()
        tensor.copy_(flambeau.where(missing & accepted, drawn, tensor))
        missing = missing & ~accepted


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much to scale weights that are followed by a nonlinearity."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity in ("linear", "sigmoid") or re.fullmatch(
        r"conv(_transpose)?[123]d", nonlinearity
    ):
        return 1
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif not isinstance(param, bool) and isinstance(param, (int, float)):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills from the uniform distribution on [a, b)."""
    return _no_grad_uniform_(tensor, a, b, generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills from a normal distribution."""
    return _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills from a normal distribution restricted to [a, b]."""
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value."""
    return _no_grad_fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones."""
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros."""
    return _no_grad_zero_(tensor)


def eye_(tensor: Tensor) -> Tensor:
    """Makes a matrix the identity, as far as its shape allows."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with flambeau.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes a convolution's weight pass on as many input channels as it can."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    channels_per_group = sizes[0] // groups
    center = tuple(length // 2 for length in sizes[2:])
    with flambeau.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(channels_per_group, sizes[1])):
                index = (group * channels_per_group + channel, channel, *center)
                tensor[index] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of a weight depends on, and how many outputs an input reaches."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    receptive_field = 1
    for length in tensor.shape[2:]:
        receptive_field *= length
    return tensor.size(1) * receptive_field, tensor.size(0) * receptive_field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return _no_grad_normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """The standard deviation of the kaiming initializations; None for a tensor without elements."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with variance gain^2 / fan (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    with flambeau.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with variance gain^2 / fan (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    with flambeau.no_grad():
        return tensor.normal_(0, std, generator=generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Makes the rows (or columns, if there are fewer) orthonormal (Saxe et al., 2013)."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    with flambeau.no_grad():
        if rows < columns:
            q = _orthonormal_columns(drawn.t()).t()
        else:
            q = _orthonormal_columns(drawn)
        tensor.view_as(q).copy_(q)
        return tensor.mul_(gain)


def _orthonormal_columns(matrix: Tensor) -> Tensor:
    """The factor Q of matrix = Q R with a positive diagonal of R, which makes it unique.

    Block Gram-Schmidt, where every projection is made twice and so is as good as exact.
    """
    wide = flambeau.complex128 if matrix.is_complex() else flambeau.float64
    q = matrix.to(wide, copy=True)
    block = 64
    for start in range(0, q.size(1), block):
        panel = q[:, start : start + block]
        _remove_components(panel, q[:, :start])
        for j in range(panel.size(1)):
            column = panel[:, j : j + 1]
            _remove_components(column, panel[:, :j])
            column.div_(column.norm())
    return q.to(matrix.dtype)


def _remove_components(vectors: Tensor, directions: Tensor) -> None:
    """Makes vectors orthogonal to orthonormal directions, in place."""
    if directions.size(1) > 0:
        for _ in range(2):
            vectors.sub_(directions @ (directions.mH @ vectors))


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal, with a given fraction of zeros in each column (Martens, 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with flambeau.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[flambeau.randperm(rows)[:zeros], column] = 0
    return tensor


def _make_deprecate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The old name of an initialization, without the underscore at its end."""
    new_name = function.__name__
    old_name = new_name[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated.__name__ = old_name
    deprecated.__doc__ = f"The old name of {new_name}."
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
