"""Window functions in the manner of SciPy: symmetric ones for filters (``sym=True``), periodic ones
for spectra. They are computed in double precision and then rounded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as torch

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _checked(name: str, M: int, dtype: Any, layout: Any) -> Any:
    """The dtype of the window; raises where there can be none."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout != torch.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return dtype


def _window(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a window function of a formula for double-precision positions 0, 1, ... and the length
    of the period, M - 1 for a symmetric window and M for a periodic one."""

    @functools.wraps(formula)
    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = torch.strided,
        device: Any = None,
        requires_grad: bool = False,
        **parameters: Any,
    ) -> Any:
        dtype = _checked(formula.__name__, M, dtype, layout)
        positions = torch.arange(M, dtype=torch.float64)
        values = formula(positions, float(M - 1 if sym else M), sym=sym, **parameters)
        if M == 1:
            values = torch.ones(1)
        return values.to(device=device or torch.get_default_device(), dtype=dtype).requires_grad_(
            requires_grad
        )

    return window


@_window
def bartlett(k: Any, period: float, *, sym: bool) -> Any:
    """The Bartlett window: a triangle that falls to zero."""
    return 1 - (2 * k / max(period, 1.0) - 1).abs()


@_window
def cosine(k: Any, period: float, *, sym: bool) -> Any:
    """The cosine window: half a wave of the sine, also called the sine window."""
    return torch.sin(math.pi * (k + 0.5) / (period + 1))


@_window
def exponential(
    k: Any, period: float, *, center: float | None = None, tau: float = 1.0, sym: bool
) -> Any:
    """The exponential (Poisson) window: falls by e with every tau samples from its center."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return torch.exp(-(k - (period / 2 if center is None else center)).abs() / tau)


@_window
def gaussian(k: Any, period: float, *, std: float = 1.0, sym: bool) -> Any:
    """The Gaussian window with a standard deviation of ``std`` samples."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return torch.exp(-0.5 * ((k - period / 2) / std) ** 2)


@_window
def kaiser(k: Any, period: float, *, beta: float = 12.0, sym: bool) -> Any:
    """The Kaiser window of shape ``beta``."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return torch.kaiser_window(k.numel(), not sym, float(beta), dtype=torch.float64)


def _cosine_sum(k: Any, period: float, a: Iterable[float]) -> Any:
    angle = 2 * math.pi * k / max(period, 1.0)
    return sum((-1) ** i * factor * torch.cos(i * angle) for i, factor in enumerate(a))


@_window
def general_cosine(k: Any, period: float, *, a: Iterable[float], sym: bool) -> Any:
    """A sum of cosines with the coefficients ``a``, their signs alternating."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _cosine_sum(k, period, a)


@_window
def blackman(k: Any, period: float, *, sym: bool) -> Any:
    """The Blackman window: a sum of three cosines."""
    return _cosine_sum(k, period, (0.42, 0.5, 0.08))


def general_hamming(M: int, *, alpha: float = 0.54, **options: Any) -> Any:
    """A raised cosine: ``alpha`` less ``1 - alpha`` times a wave of the cosine."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], **options)


def hamming(M: int, **options: Any) -> Any:
    """The Hamming window: a raised cosine that does not fall to zero."""
    return general_hamming(M, **options)


def hann(M: int, **options: Any) -> Any:
    """The Hann window: a raised cosine that falls to zero."""
    return general_hamming(M, alpha=0.5, **options)


def nuttall(M: int, **options: Any) -> Any:
    """The minimum four-term Blackman-Harris window as Nuttall gave it."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], **options)
