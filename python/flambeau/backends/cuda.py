"""Settings for matrix products and attention on CUDA.

They are permissions, to compute in less precision or by another formula of the same value. Of those
to be less exact only matmul.allow_tf32 is made use of.
"""

from __future__ import annotations

import contextlib
import enum
import warnings

import flambeau
from flambeau import _C
from flambeau.backends._flags import Precision, everything
from flambeau.nn.attention import SDPBackend, _allow, _allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "SDPAParams",
    "SDPBackend",
    "allow_fp16_bf16_reduction_math_sdp",
    "blas_workspace_size",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuBLASModule",
    "cuFFTPlanCacheManager",
    "cublas_workspace_size",
    "cublaslt_workspace_size",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


_ops: Any = _C


def is_built() -> bool:
    """Whether there is a library for CUDA devices beside the core, with or without a device."""
    return flambeau.cuda._is_compiled()


class cuBLASModule(Precision):
    """What products of matrices are allowed to do."""

    def __init__(self) -> None:
        super().__init__(everything, mode="matmul_tf32")
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False


matmul = cuBLASModule()


class cuFFTPlanCache:
    """The plans of transforms that one device keeps."""

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    @property
    def size(self) -> int:
        """How many plans are kept."""
        return _ops._cufft_get_plan_cache_size(self.device_index)

    @property
    def max_size(self) -> int:
        """How many plans are kept at most. Those that were used longest ago are dropped."""
        return _ops._cufft_get_plan_cache_max_size(self.device_index)

    @max_size.setter
    def max_size(self, value: int) -> None:
        _ops._cufft_set_plan_cache_max_size(self.device_index, value)

    def clear(self) -> None:
        """Forgets all plans."""
        _ops._cufft_clear_plan_cache(self.device_index)


class cuFFTPlanCacheManager:
    """The plans of transforms on the current device or, by index, on another."""

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        index = device if isinstance(device, int) else flambeau.device(device).index
        if index is None:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}"
            )
        count = flambeau.cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with "
                f"index {index}"
            )
        return cuFFTPlanCache(index)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'cuFFTPlanCacheManager' object has no attribute '{name}'")
        return getattr(self[flambeau.cuda.current_device()], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self[flambeau.cuda.current_device()], name, value)


cufft_plan_cache = cuFFTPlanCacheManager()


class _LinalgBackend(enum.Enum):
    Default = 0
    Cusolver = 1
    Magma = 2


class _BlasBackend(enum.Enum):
    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


_preferred: dict[str, Any] = {"linalg": _LinalgBackend.Default, "blas": _BlasBackend.Cublas}


def _prefer(what: str, backend: Any, known: dict[str, str], choices: Any) -> Any:
    if backend is not None:
        if isinstance(backend, str) and backend not in known:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(known)}.")
        _preferred[what] = choices[known[backend]] if isinstance(backend, str) else backend
    return _preferred[what]


def preferred_linalg_library(backend: Any = None) -> Any:
    """Which library should decompose matrices: a wish, which is remembered and not followed, as
    Flambeau has cuSOLVER and its own kernels for what each does best.
    """
    known = {"default": "Default", "cusolver": "Cusolver", "magma": "Magma"}
    return _prefer("linalg", backend, known, _LinalgBackend)


def preferred_blas_library(backend: Any = None) -> Any:
    """Which library should multiply matrices: a wish, which is remembered and not followed, as
    Flambeau has cuBLASLt.
    """
    known = {
        **dict.fromkeys(("default", "cublas", "hipblas"), "Cublas"),
        **dict.fromkeys(("cublaslt", "hipblaslt"), "Cublaslt"),
        "ck": "Ck",
    }
    return _prefer("blas", backend, known, _BlasBackend)


_reduced_math = False


_WORKSPACE = 32 << 20  # what products may use at most, and what NVIDIA advises


def _workspace_size(name: str, size: int | None) -> int:
    if size is not None and size < 0:
        raise RuntimeError(f"{name}: size must be non-negative, got {size}")
    if size is not None and size != _WORKSPACE:
        import warnings

        warnings.warn(
            f"{name}: products take at most {_WORKSPACE} bytes of work space out of the caching "
            "allocator, which cannot be changed",
            stacklevel=3,
        )
    return _WORKSPACE


def cublas_workspace_size(size: int | None = None) -> int:
    """The bytes of work space that a product may use; they cannot be set."""
    return _workspace_size("cublas_workspace_size", size)


def cublaslt_workspace_size(size: int | None = None) -> int:
    """The bytes of work space that a product may use; they cannot be set."""
    return _workspace_size("cublaslt_workspace_size", size)


def blas_workspace_size(size: int | None = None, backend: Any = None) -> int:
    """The bytes of work space that a product may use; they cannot be set."""
    return _workspace_size("blas_workspace_size", size)


def enable_flash_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed block by block."""
    _allow({SDPBackend.FLASH_ATTENTION: bool(enabled)})


def flash_sdp_enabled() -> bool:
    """Whether attention may be computed block by block."""
    return _allowed[SDPBackend.FLASH_ATTENTION]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed with little memory."""
    _allow({SDPBackend.EFFICIENT_ATTENTION: bool(enabled)})


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may be computed with little memory."""
    return _allowed[SDPBackend.EFFICIENT_ATTENTION]


def enable_math_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed as its formula says, with the whole matrix."""
    _allow({SDPBackend.MATH: bool(enabled)})


def math_sdp_enabled() -> bool:
    """Whether attention may be computed as its formula says, with the whole matrix."""
    return _allowed[SDPBackend.MATH]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets whether attention may be computed by cuDNN."""
    _allow({SDPBackend.CUDNN_ATTENTION: bool(enabled)})


def cudnn_sdp_enabled() -> bool:
    """Whether attention may be computed by cuDNN."""
    return _allowed[SDPBackend.CUDNN_ATTENTION]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Sets whether half precision may be summed in half precision."""
    global _reduced_math
    _reduced_math = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether half precision may be summed in half precision."""
    return _reduced_math


class SDPAParams:
    """The arguments of scaled_dot_product_attention, to ask which formulas could compute it."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool,
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def is_ck_sdpa_available() -> bool:
    """False: that library is for other devices."""
    return False


def is_flash_attention_available() -> bool:
    """True: it is a part of the library."""
    return True


def _why_not(params: SDPAParams, enabled: bool, halves_only: bool) -> str | None:
    tensors = (params.query, params.key, params.value)
    if not enabled:
        return "it is switched off"
    if not all(x.is_cuda for x in tensors):
        devices = ", ".join(str(x.device) for x in tensors)
        return f"all tensors need to be on a cuda device, got {devices}"
    if any(x.dim() != 4 for x in tensors):
        return "query, key and value need four dimensions"
    if halves_only and any(x.dtype not in (flambeau.float16, flambeau.bfloat16) for x in tensors):
        return f"it computes in half precision, got {params.query.dtype}"
    return None


def _can_use(params: SDPAParams, enabled: bool, halves_only: bool, debug: bool) -> bool:
    why = _why_not(params, enabled, halves_only)
    if why is not None and debug:
        warnings.warn(f"This formula of attention cannot be used: {why}", stacklevel=3)
    return why is None


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether attention of these arguments can be computed block by block in half precision."""
    masked = params.attn_mask is not None
    return not masked and _can_use(params, flash_sdp_enabled(), True, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether attention of these arguments can be computed with little memory."""
    return _can_use(params, mem_efficient_sdp_enabled(), False, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN can compute attention of these arguments."""
    return _can_use(params, cudnn_sdp_enabled(), True, debug)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A context in which attention may be computed in these ways."""
    before = dict(_allowed)
    wanted = (enable_flash, enable_mem_efficient, enable_math, enable_cudnn)
    _allow(dict(zip(_allowed, wanted, strict=True)))
    try:
        yield
    finally:
        _allow(before)
