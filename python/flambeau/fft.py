"""Fourier transforms: the core's ops whose names start with `fft_`."""

from __future__ import annotations

from flambeau import _C

_OPS = {name[4:]: op for name, op in vars(_C).items() if name.startswith("fft_")}
globals().update(_OPS)

__all__ = list(_OPS)
