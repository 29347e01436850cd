"""Settings for matrix products and attention on CUDA.

They are permissions, to compute in less precision or by another formula of the same value. Of those
to be less exact only matmul.allow_tf32 is made use of.
"""

from __future__ import annotations

import contextlib

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp",
    "cuBLASModule",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]


def is_built() -> bool:
    """Whether there is a library for CUDA devices beside the core, with or without a device."""
    return _C._cuda_is_loaded() or _C._cuda_device_count() > 0


class cuBLASModule:
    """What products of matrices are allowed to do."""

    def __init__(self) -> None:
        self._allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether single precision may be multiplied with the ten bits of TF32."""
        return self._allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self._allow_tf32 = bool(value)
        _C._set_math_mode("matmul_tf32", self._allow_tf32)

    @property
    def fp32_precision(self) -> str:
        """ "tf32" where allow_tf32 is set, "ieee" otherwise."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Invalid precision: {value}")
        self.allow_tf32 = value == "tf32"


matmul = cuBLASModule()

# Which formulas of attention may be chosen.
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduction": False}


def enable_flash_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed block by block."""
    _attention["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """Whether attention may be computed block by block."""
    return _attention["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed with little memory."""
    _attention["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may be computed with little memory."""
    return _attention["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed as its formula says, with the whole matrix."""
    _attention["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may be computed as its formula says, with the whole matrix."""
    return _attention["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed by cuDNN."""
    _attention["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may be computed by cuDNN."""
    return _attention["cudnn"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Sets whether half precision may be summed in half precision."""
    _attention["reduction"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether half precision may be summed in half precision."""
    return _attention["reduction"]


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A context in which attention may be computed in these ways."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)
