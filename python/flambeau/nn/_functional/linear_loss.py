"""A linear layer and the cross-entropy of its outputs as one function, which need not hold the
outputs of all samples at once; and products of groups of matrices."""

from __future__ import annotations

import dataclasses
import math
import re

import flambeau
from flambeau import _C
from flambeau.autograd.function import Function, once_differentiable
from flambeau.nn._functional.loss import cross_entropy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["LinearCrossEntropyOptions", "grouped_mm", "linear_cross_entropy"]


# Chunks by the shape of the weight, and by how much smaller they shall be.
_ASPECT = re.compile(r"aspect_ratio(?::([1-9]\d*))?", re.ASCII)


@dataclasses.dataclass
class LinearCrossEntropyOptions:
    """How ``linear_cross_entropy`` cuts the samples into chunks.

    A chunk has ``batch_chunk_size`` samples; without it, as many as make its logits about as large
    as the input. Gradients are added up in ``acc_dtype``, by default in the dtype of the weight.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: flambeau.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "compact"):
            raise ValueError(
                f"invalid acc_policy: {self.acc_policy!r}; expected one of 'auto', 'accurate', "
                "'compact'"
            )
        if self.chunking_method not in (None, "auto") and not _ASPECT.fullmatch(
            self.chunking_method
        ):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        floating = (None, _C.float16, _C.bfloat16, _C.float32, _C.float64)
        if self.acc_dtype not in floating:
            raise ValueError(f"acc_dtype must be None or a floating dtype, got {self.acc_dtype}")

    def samples_in_chunk(self, samples: int, classes: int, features: int) -> int:
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        found = _ASPECT.fullmatch(self.chunking_method or "")
        factor = int(found[1]) if found and found[1] else 1
        chunks = max(1, math.ceil(classes / max(features, 1))) * factor
        return max(1, math.ceil(samples / chunks))


class _ChunkedLoss(Function):
    """The losses of samples, chunk by chunk; backward makes the logits of a chunk anew."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Any, rest: Any) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.rest = rest
        losses = [
            _losses(x[rows], weight, bias, rest, rows) for rows in _chunks(len(x), rest["chunk"])
        ]
        return _C.cat(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, bias = ctx.saved_tensors
        dtype = ctx.rest["acc_dtype"] or weight.dtype
        wanted = [t for t, needed in zip((weight, bias), ctx.needs_input_grad[1:3]) if needed]
        totals = [_C.zeros_like(t, dtype=dtype) for t in wanted]
        parts = []
        for rows in _chunks(len(x), ctx.rest["chunk"]):
            with flambeau.enable_grad():
                part = x[rows].detach().requires_grad_()
                losses = _losses(part, weight, bias, ctx.rest, rows)
                found = flambeau.autograd.grad(losses, [part, *wanted], grad[rows])
            parts.append(found[0])
            for total, more in zip(totals, found[1:], strict=True):
                total += more
        found_totals = iter([t.to(w.dtype) for t, w in zip(totals, wanted, strict=True)])
        of_weight, of_bias = (next(found_totals) if n else None for n in ctx.needs_input_grad[1:3])
        return _C.cat(parts), of_weight, of_bias, None


def _chunks(samples: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, samples, size)]


def _losses(x: Tensor, weight: Tensor, bias: Any, rest: Any, rows: slice) -> Tensor:
    logits = _C.linear(x, weight, bias)
    return cross_entropy(logits, rest["target"][rows], reduction="none", **rest["options"])


def _share(target: Tensor, weight: Tensor | None, ignore_index: int) -> Any:
    """What a mean divides by: the weights of the samples that count."""
    if target.is_floating_point():
        return len(target)
    counted = target != ignore_index
    if weight is None:
        return counted.sum()
    return (weight[target.masked_fill(~counted, 0)] * counted).sum()


def _check_linear(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got "
            f"{tuple(linear_bias.shape)}"
        )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """The cross-entropy between ``linear(input, linear_weight, linear_bias)`` and ``target``.

    ``linear_weight`` is (C, in_features), or (C, d1, ..., dK, in_features) for a loss of K
    dimensions. With ``options`` the logits are made for a chunk of samples at a time.
    """
    _check_linear(input, linear_weight, linear_bias)
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    how: dict[str, Any] = {
        "weight": weight,
        "ignore_index": ignored,
        "label_smoothing": label_smoothing,
    }
    classes, *inner, features = linear_weight.shape
    if not isinstance(options, LinearCrossEntropyOptions | None):
        raise TypeError(
            "linear_cross_entropy: options must be LinearCrossEntropyOptions or None, not "
            f"{type(options).__name__}"
        )
    chunked = options is not None and not inner and input.dim() == 2 and len(input) > 0
    if not chunked or target.requires_grad or reduction not in ("none", "mean", "sum"):
        bias = None if linear_bias is None else linear_bias.reshape(-1)
        logits = _C.linear(input, linear_weight.reshape(-1, features), bias)
        logits = logits.reshape(*input.shape[:-1], classes, *inner)
        return cross_entropy(logits, target, reduction=reduction, **how)
    assert options is not None
    rest = {
        "target": target,
        "options": how,
        "chunk": options.samples_in_chunk(len(input), classes, features),
        "acc_dtype": options.acc_dtype,
    }
    losses: Tensor = _ChunkedLoss.apply(input, linear_weight, linear_bias, rest)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / _share(target, weight, ignored)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: flambeau.dtype | None = None,
) -> Tensor:
    """Products of groups of matrices, as layers of many experts have them.

    Of a matrix of 2 dimensions, group i is what stands before ``offs[i]`` along the dimension that
    is not shared (or, where both have 2, along the shared one); of one of 3, it is element i.
    """
    return _C._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
