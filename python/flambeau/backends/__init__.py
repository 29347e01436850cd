"""What the libraries under Flambeau may do, and whether they are there.

The settings here are permissions and hints (compute in less precision, search for the fastest
algorithm): results without making use of one are always allowed, and more exact.
"""

from __future__ import annotations

import sys
import types

from flambeau.backends import (
    _flags,
    cpu,
    cuda,
    cudnn,
    mha,
    mkl,
    mkldnn,
    mps,
    openmp,
    opt_einsum,
    quantized,
)

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "flags_frozen",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
]


def flags_frozen() -> bool:
    """Whether settings can be changed by their context managers only: they never are so bound."""
    return False


class _Settings(types.ModuleType):
    """This module, with the precision of all products of float32 as an attribute."""

    @property
    def fp32_precision(self) -> str:
        return _flags.everything.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        _flags.everything.fp32_precision = value


sys.modules[__name__].__class__ = _Settings
