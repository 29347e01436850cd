"""What the libraries under Flambeau may do, and whether they are there.

The settings here are permissions and hints (compute in less precision, search for the fastest
algorithm): results without making use of one are always allowed, and more exact.
"""

from __future__ import annotations

from flambeau.backends import (
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
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
]
