"""Reductions and normalizations that leave out the elements where a mask is false.

An element that is left out is replaced by the value that changes nothing: 0 in a sum, 1 in a
product, minus infinity in a maximum. Where every element is left out, that value is the result.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.masked._masked_tensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

# PyTorch's programs also find these functions there.
_ops = sys.modules[__name__]

Dim = int | Sequence[int] | None


def _dims(dim: Dim, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce, all of them for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(rank))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _is_whole(dtype: Any) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


def _lowest(dtype: Any) -> Any:
    return torch.iinfo(dtype).min if _is_whole(dtype) else -math.inf


def _highest(dtype: Any) -> Any:
    return torch.iinfo(dtype).max if _is_whole(dtype) else math.inf


def _spread(mask: Any, input: Any) -> Any:
    """A mask of any layout in the shape of the input."""
    dense = mask if mask.layout is torch.strided else mask.to_dense()
    return dense.broadcast_to(input.shape)


def _filled(input: Any, mask: Any, value: Any) -> Any:
    """input with `value` where it is masked out."""
    if mask is None:
        return input
    return torch.where(_spread(mask, input), input, torch.tensor(value, dtype=input.dtype))


def _summed_dtype(input: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    return torch.int64 if _is_whole(input.dtype) else input.dtype


def _counts(input: Any, dims: tuple[int, ...], keepdim: bool, mask: Any) -> Any:
    """How many elements take part in each result."""
    marks = torch.ones(input.shape, dtype=torch.int64, device=input.device)
    if mask is not None:
        marks = _spread(mask, input).to(torch.int64)
    return marks.sum(dims, keepdim) if dims else marks


# --- Sparse tensors ------------------------------------------------------------------------------

_SPARSE = (torch.sparse_coo, torch.sparse_csr)


def _takes_sparse(*layouts: Any) -> Callable[[Any], Any]:
    """Lets a reduction of dense tensors take sparse ones; the result has the input's layout, and
    stores what at least one element took part in."""

    def wrap(reduce: Any) -> Any:
        @functools.wraps(reduce)
        def reduced(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
                    mask: Any = None) -> Any:  # fmt: skip
            if input.layout is torch.strided:
                return reduce(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
            name = reduce.__name__
            if input.layout not in layouts:
                raise ValueError(f"masked {name} does not take a {input.layout} tensor")
            if mask is None and name != "sum":
                short = str(input.layout).removeprefix("torch.")
                raise ValueError(f"masked {name} expects explicit mask for {short} tensor input")
            if input.layout is torch.sparse_csr and not keepdim:
                raise RuntimeError(
                    "reduction operations on CSR tensors with keepdim=False is unsupported"
                )
            if mask is None:
                mask = _stored_mask(input)
            mask = _spread(mask, input)
            dims = _dims(dim, input.dim())
            result = reduce(input.to_dense(), dims, keepdim=keepdim, dtype=dtype, mask=mask)
            if result.dim() == 0:
                return result.to_sparse()
            kept = mask.to(torch.int64).sum(dims, keepdim) > 0
            return result.sparse_mask(kept.to_sparse(layout=input.layout))

        return reduced

    return wrap


def _stored_mask(input: Any) -> Any:
    """True where a sparse tensor stores something."""
    if input.is_sparse:
        together = input.detach().coalesce()
        marks = torch.ones_like(together.values(), dtype=torch.bool)
        return torch.sparse_coo_tensor(together.indices(), marks, input.shape)
    marks = torch.ones_like(input.detach().values(), dtype=torch.bool)
    return torch.sparse_csr_tensor(input.crow_indices(), input.col_indices(), marks, input.shape)


# --- Reductions ----------------------------------------------------------------------------------


@_takes_sparse(*_SPARSE)
def sum(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Any:  # fmt: skip
    """The sum of the elements over dim."""
    dtype = _summed_dtype(input, dtype)
    values = _filled(input.to(dtype), mask, 0)
    return torch.sum(values, _dims(dim, input.dim()), keepdim, dtype=dtype)


@_takes_sparse(*_SPARSE)
def prod(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Any:  # fmt: skip
    """The product of the elements over dim."""
    dtype = _summed_dtype(input, dtype)
    result = _filled(input.to(dtype), mask, 1)
    # An empty list is nothing to multiply along, but an empty tuple is everything, as elsewhere.
    along = () if dim == [] else _dims(dim, input.dim())
    rank = max(input.dim(), 1)
    for d in along:
        if not -rank <= d < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but "
                f"got {d})"
            )
    dims = sorted((d % rank for d in along), reverse=True)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"prod: each dimension can be given once, but got dim={dim}")
    for d in dims:
        result = torch.prod(result, d, keepdim)
    return result


@_takes_sparse(*_SPARSE)
def amax(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Any:  # fmt: skip
    """The largest element over dim."""
    values = input if dtype is None else input.to(dtype)
    return torch.amax(
        _filled(values, mask, _lowest(values.dtype)), _dims(dim, input.dim()), keepdim
    )


@_takes_sparse(*_SPARSE)
def amin(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Any:  # fmt: skip
    """The smallest element over dim."""
    values = input if dtype is None else input.to(dtype)
    filled = _filled(values, mask, _highest(values.dtype))
    return torch.amin(filled, _dims(dim, input.dim()), keepdim)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Any:  # fmt: skip
    """The index of the largest element, in the dtype of the input."""
    values = input if dtype is None else input.to(dtype)
    found = torch.argmax(_filled(values, mask, _lowest(values.dtype)), dim, keepdim)
    return found.to(values.dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Any:  # fmt: skip
    """The index of the smallest element, in the dtype of the input."""
    values = input if dtype is None else input.to(dtype)
    found = torch.argmin(_filled(values, mask, _highest(values.dtype)), dim, keepdim)
    return found.to(values.dtype)


@_takes_sparse(torch.sparse_csr)
def mean(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Any:  # fmt: skip
    """The mean of the elements over dim; NaN where there is none."""
    dtype = input.dtype if dtype is None else dtype
    dims = _dims(dim, input.dim())
    if _is_whole(dtype):
        raise ValueError("mean requires a floating point or complex dtype, got integers")
    if mask is None:
        return torch.mean(input, dims, keepdim, dtype=dtype)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _counts(input, dims, keepdim, mask)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Any:  # fmt: skip
    """The lower middle element along dim; NaN where there is none."""
    values = input if dtype is None else input.to(dtype)
    if mask is None:
        return torch.median(values, dim, keepdim)[0]
    if _is_whole(values.dtype):
        counts = _counts(values, (dim,), True, mask)
        if bool((counts == 0).any()):
            raise ValueError(
                "masked median expects no fully masked out rows if dtype is not floating point"
            )
        ordered = torch.sort(_filled(values, mask, _highest(values.dtype)), dim)[0]
        middle = ordered.gather(dim, (counts - 1) // 2)
        return middle if keepdim else middle.squeeze(dim)
    if bool(torch.isnan(values).any()):
        raise ValueError("masked median expects no NaN in the input")
    return torch.nanmedian(_filled(values, mask, math.nan), dim, keepdim)[0]


def logsumexp(input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None,
              mask: Any = None) -> Any:  # fmt: skip
    """The logarithm of the sum of exponentials over dim."""
    dtype = input.dtype if dtype is None else dtype
    values = input.to(dtype)
    dims = _dims(dim, input.dim())
    return torch.logsumexp(_filled(values, mask, _lowest(dtype)), dims, keepdim).to(dtype)


def norm(input: Any, ord: float | None = 2.0, dim: Dim = None, *, keepdim: bool = False,
         dtype: Any = None, mask: Any = None) -> Any:  # fmt: skip
    """The vector norm over dim."""
    order = 2.0 if ord is None else ord
    values = input if dtype is None else input.to(dtype)
    neutral = math.inf if order < 0 else 0
    dims = _dims(dim, input.dim())
    return torch._C.linalg_vector_norm(_filled(values, mask, neutral), order, dims, keepdim)


def _correction(unbiased: bool | None, correction: int | float | None) -> float:
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if unbiased is not None:
        return float(unbiased)
    return 1.0 if correction is None else float(correction)


def var(input: Any, dim: Dim = None, unbiased: bool | None = None, *,
        correction: int | float | None = None, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Any:  # fmt: skip
    """The variance of the elements over dim."""
    less = _correction(unbiased, correction)
    dtype = input.dtype if dtype is None else dtype
    if _is_whole(dtype):
        dtype = torch.float32
    dims = _dims(dim, input.dim())
    counts = _counts(input, dims, True, mask)
    values = input.to(dtype)
    average = sum(values, dims, keepdim=True, mask=mask) / counts
    apart = values - average
    squares = apart * apart.conj() if dtype.is_complex else apart * apart
    total = sum(squares, dims, keepdim=keepdim, mask=mask)
    counts = counts if keepdim else counts.reshape(total.shape)
    real = dtype.to_real() if dtype.is_complex else dtype
    return total / torch.clamp(counts - less, min=0).to(real)


def std(input: Any, dim: Dim = None, unbiased: bool | None = None, *,
        correction: int | float | None = None, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Any:  # fmt: skip
    """The standard deviation of the elements over dim."""
    found = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return torch.sqrt(found)


# --- Along a dimension ---------------------------------------------------------------------------


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The sums of the elements up to each along dim."""
    values = input if dtype is None else input.to(dtype)
    return torch.cumsum(_filled(values, mask, 0), dim, dtype=values.dtype)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The products of the elements up to each along dim."""
    values = input if dtype is None else input.to(dtype)
    return torch.cumprod(_filled(values, mask, 1), dim, dtype=values.dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The softmax along dim of the elements that take part."""
    values = input if dtype is None else input.to(dtype)
    return torch.softmax(_filled(values, mask, -math.inf), dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of the softmax along dim of the elements that take part."""
    values = input if dtype is None else input.to(dtype)
    return torch.log_softmax(_filled(values, mask, -math.inf), dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The softmax of the negative elements along dim."""
    values = input if dtype is None else input.to(dtype)
    return torch.softmax(-_filled(values, mask, math.inf), dim)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
              mask: Any = None) -> Any:  # fmt: skip
    """The elements over their norm along dim, or over eps where that is larger."""
    values = input if dtype is None else input.to(dtype)
    length = norm(values, ord, dim, keepdim=True, mask=mask)
    return _filled(values, mask, 0) / torch.clamp(length, min=eps)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None,
              other_mask: Any = None) -> Any:  # fmt: skip
    """log(exp(input) + exp(other)), either of them where its mask is true."""
    dtype = input.dtype if dtype is None else dtype
    one = _filled(input.to(dtype), input_mask, -math.inf)
    two = _filled(other.to(dtype), other_mask, -math.inf)
    return torch.logaddexp(one, two)
