"""Initial values for parameters. All write into the tensor they are given, without recording."""

from __future__ import annotations

import warnings

from flambeau import _C

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


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills from the uniform distribution on [a, b)."""
    return _C._init_uniform(tensor, a, b, generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills from a normal distribution."""
    return _C._init_normal(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills from a normal distribution restricted to [a, b]."""
    return _C._init_trunc_normal(tensor, mean, std, a, b, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value."""
    return _C._init_constant(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones."""
    return _C._init_constant(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros."""
    return _C._init_zeros(tensor)


def eye_(tensor: Tensor) -> Tensor:
    """Makes a matrix the identity, as far as its shape allows."""
    return _C._init_eye(tensor)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes a convolution's weight pass on as many input channels as it can."""
    return _C._init_dirac(tensor, groups)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of a weight depends on, and how many outputs an input reaches."""
    return _C._init_fan(tensor, "fan_in"), _C._init_fan(tensor, "fan_out")


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    return _C._init_fan(tensor, mode)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return _C._init_xavier_uniform(tensor, gain, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return _C._init_xavier_normal(tensor, gain, generator)


def _slope(nonlinearity: str, param: float | None) -> float | None:
    """The parameter of the nonlinearity, where it has one."""
    if nonlinearity != "leaky_relu":
        return None
    if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
        raise ValueError(f"negative_slope {param} not a valid number")
    return param


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much to scale weights that are followed by a nonlinearity."""
    return _C._init_calculate_gain(nonlinearity, _slope(nonlinearity, param))


def _warn_if_empty(tensor: Tensor) -> None:
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with variance gain^2 / fan (He et al., 2015)."""
    _warn_if_empty(tensor)
    slope = _slope(nonlinearity, a)
    return _C._init_kaiming_uniform(tensor, slope, mode, nonlinearity, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with variance gain^2 / fan (He et al., 2015)."""
    _warn_if_empty(tensor)
    slope = _slope(nonlinearity, a)
    return _C._init_kaiming_normal(tensor, slope, mode, nonlinearity, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Makes the rows (or columns, if there are fewer) orthonormal (Saxe et al., 2013)."""
    return _C._init_orthogonal(tensor, gain, generator)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal, with a given fraction of zeros in each column (Martens, 2010)."""
    return _C._init_sparse(tensor, sparsity, std, generator)


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
