"""Samples of Fourier transforms: lengths of every kind (powers of two, small and large primes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import Call, call, op, t

Array = Any
FORWARD = {"dtypes": "ifc", "tolerance": 20}
NOT_ZERO_DIM = {"zero_dim": "it takes at least one dimension"}


def lengths(**options: Any) -> list[Call]:
    return [
        call(t(8)),
        call(t(2, 5)),
        call(t(3, 7)),
        call(t(58), grad_=False),
        call(t(18, 16), grad_=False),
        call(t(2, 3, 4), dim=1),
        call(t(2, 5), n=3),
        call(t(2, 5), n=8),
        call(t(2, 6), norm="ortho"),
        call(t(2, 6), norm="forward"),
        call(t(0, 4)),
        call(t(1)) if options.get("one", True) else call(t(2)),
    ]


def transform(function: Any) -> Any:
    """NumPy's function with PyTorch's names of arguments."""

    def run(x: Array, n: Any = None, dim: int = -1, norm: Any = None) -> Array:
        if x.size == 0:
            return np.zeros((0, *function(np.ones(x.shape[1:])).shape))
        return function(x, n, dim, norm)

    return run


def several(function: Any) -> Any:
    def run(x: Array, s: Any = None, dim: Any = None, norm: Any = None) -> Array:
        axes = dim if dim is not None or s is None else tuple(range(-len(s), 0))
        if x.size == 0:
            return np.zeros((0, *function(np.ones(x.shape[1:]), s=s).shape))
        return function(x, s=s, axes=axes, norm=norm)

    return run


op(
    "fft_fft",
    lengths(),
    ref=transform(np.fft.fft),
    result="any",
    forms="out-dim",
    **FORWARD,
    **NOT_ZERO_DIM,
)
op("fft_ifft", lengths(), ref=transform(np.fft.ifft), result="any", **FORWARD, **NOT_ZERO_DIM)
REAL = {"dtypes": "if", "tolerance": 20, "result": "any"}
op("fft_rfft", lengths(), ref=transform(np.fft.rfft), **REAL, **NOT_ZERO_DIM)
op("fft_ihfft", lengths(), ref=transform(np.fft.ihfft), **REAL, **NOT_ZERO_DIM)
HALVES = {"dtypes": "fc", "tolerance": 20, "result": "real"}
op("fft_irfft", lengths(one=False), ref=transform(np.fft.irfft), **HALVES, **NOT_ZERO_DIM)
op("fft_hfft", lengths(one=False), ref=transform(np.fft.hfft), **HALVES, **NOT_ZERO_DIM)

BOXES = [
    call(t(3, 4)),
    call(t(2, 3, 4), dim=(0, 2)),
    call(t(2, 3, 4), s=(4, 3)),
    call(t(3, 4), norm="ortho"),
    call(t(3, 4), norm="forward"),
    call(t(0, 3, 2), dim=(1, 2)),
]
PLANES = [
    call(t(3, 4)),
    call(t(2, 3, 4)),
    call(t(2, 3, 4), dim=(0, 1)),
    call(t(3, 4), s=(2, 6)),
    call(t(0, 3, 2)),
]


def hfftn(x: Array, s: Any = None, axes: Any = None, norm: Any = None) -> Array:
    import scipy.fft

    return scipy.fft.hfftn(x, s, axes, norm)


def ihfftn(x: Array, s: Any = None, axes: Any = None, norm: Any = None) -> Array:
    import scipy.fft

    return scipy.fft.ihfftn(x, s, axes, norm)


def planes(function: Any) -> Any:
    run = several(function)
    return lambda x, s=None, dim=(-2, -1), norm=None: run(x, s, dim, norm)


for names, function, options in (
    ("fft_fft", np.fft.fftn, FORWARD | {"result": "any"}),
    ("fft_ifft", np.fft.ifftn, FORWARD | {"result": "any"}),
    ("fft_rfft", np.fft.rfftn, REAL),
    ("fft_irfft", np.fft.irfftn, HALVES),
    ("fft_hfft", hfftn, HALVES),
    ("fft_ihfft", ihfftn, REAL),
):
    op(f"{names}n", BOXES, ref=several(function), **options, **NOT_ZERO_DIM)
    op(f"{names}2", PLANES, ref=planes(function), **options, **NOT_ZERO_DIM)

op(
    "fft_fftfreq",
    call(8),
    call(7, 0.5),
    call(1),
    ref=np.fft.fftfreq,
    dtypes="float32",
    result="any",
    forms="creation",
    grad=False,
)
op(
    "fft_rfftfreq",
    call(8),
    call(7, 0.5),
    call(1),
    ref=np.fft.rfftfreq,
    dtypes="float32",
    result="any",
    forms="creation",
    grad=False,
)


def shift(function: Any) -> Any:
    return lambda x, dim=None: function(x, dim) if x.ndim else x


SHIFTED = [
    call(t(5)),
    call(t(4)),
    call(t(2, 3, 4)),
    call(t(2, 3, 4), dim=1),
    call(t(2, 3, 4), dim=(0, 2)),
    call(t(0, 3)),
]
for name in ("fftshift", "ifftshift"):
    reference = shift(getattr(np.fft, name))
    op(f"fft_{name}", SHIFTED, ref=reference, zero_dim="it needs a dimension to shift along")
