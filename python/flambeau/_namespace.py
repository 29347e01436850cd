"""Functions of the top-level namespace that have another home too: losses with numbered reductions,
convolutions in one function, files and capsules."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "conv_tbc",
    "convolution",
    "cosine_embedding_loss",
    "dequantize",
    "from_file",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "nuclear_norm",
    "poisson_nll_loss",
    "to_dlpack",
    "triplet_margin_loss",
]

# --- Losses: what nn.functional says by name is a number here, and 0 unless it is given -----------

_REDUCTIONS = ("none", "mean", "sum")


def _named(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise RuntimeError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def _functional() -> Any:
    from flambeau.nn import functional

    return functional


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.cosine_embedding_loss` with a numbered reduction."""
    loss = _functional().cosine_embedding_loss
    return loss(input1, input2, target, margin, reduction=_named(reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Any:
    """`nn.functional.hinge_embedding_loss` with a numbered reduction."""
    loss = _functional().hinge_embedding_loss
    return loss(input, target, margin, reduction=_named(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div` with a numbered reduction."""
    loss = _functional().kl_div
    return loss(input, target, reduction=_named(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.margin_ranking_loss` with a numbered reduction."""
    loss = _functional().margin_ranking_loss
    return loss(input1, input2, target, margin, reduction=_named(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """`nn.functional.poisson_nll_loss` with a numbered reduction."""
    loss = _functional().poisson_nll_loss
    return loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Any:
    """`nn.functional.triplet_margin_loss` with a numbered reduction."""
    loss = _functional().triplet_margin_loss
    return loss(anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction))


# --- Convolutions ---------------------------------------------------------------------------------


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """The convolution, or its transpose, over as many dimensions as the weight has."""
    dims = weight.dim() - 2
    if dims not in (1, 2, 3):
        raise RuntimeError(f"weight should have at least three dimensions, got {weight.dim()}")
    if transposed:
        op = getattr(_C, f"conv_transpose{dims}d")
        return op(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(_C, f"conv{dims}d")(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Any:
    """A convolution over the first dimension of (time, batch, channels)."""
    if input.dim() != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if bias.dim() != 1:
        raise RuntimeError("Bias must be 1-D")
    kernel = weight.permute(2, 1, 0)
    return _C.conv1d(input.permute(1, 2, 0), kernel, bias, padding=pad).permute(2, 0, 1)


# --- Norms, files, capsules -----------------------------------------------------------------------


def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Any:
    """The sum of the singular values of a matrix."""
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    dims = (0, 1) if dim is None else dim
    return _C.linalg_matrix_norm(input, "nuc", dims, keepdim, out=out)


def dequantize(tensors: Any) -> Any:
    """The tensors in float32: there are no quantized ones to convert."""
    if isinstance(tensors, _C.Tensor):
        return tensors.to(_C.float32)
    return tuple(tensor.to(_C.float32) for tensor in tensors)


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor as a DLPack capsule, which shares its memory."""
    return tensor.__dlpack__()


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A vector of ``size`` elements whose memory is a file.

    With ``shared`` the file is made if there is none, and what is written goes to it.
    """
    import mmap
    import os

    dtype = _C.get_default_dtype() if dtype is None else dtype
    mode, flags = ("read-write", os.O_RDWR | os.O_CREAT) if shared else ("read-only", os.O_RDONLY)
    try:
        handle = os.open(filename, flags, 0o600)
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from None
    try:
        needed = size * dtype.itemsize
        if shared and os.fstat(handle).st_size < needed:
            os.ftruncate(handle, needed)
        if os.fstat(handle).st_size < needed:
            raise RuntimeError(
                f"file <{filename}> is too small: {os.fstat(handle).st_size} bytes where "
                f"{needed} are needed"
            )
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        if needed == 0:
            return _C.empty(0, dtype=dtype, requires_grad=requires_grad)
        memory = mmap.mmap(handle, needed, access=access)
    finally:
        os.close(handle)
    return _C.frombuffer(memory, dtype=dtype, count=size, requires_grad=requires_grad)
