"""The largest or smallest element of each segment, with a gradient that equal elements share.

Unlike ``scatter_reduce``'s, it goes to the elements that are not a number where there are some:
they are what the result is.
"""

from __future__ import annotations

from flambeau import _C, Tensor
from flambeau.autograd.function import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SegmentExtremes(Function):
    """``start`` with each of its elements combined with those of ``data`` in its segment."""

    @staticmethod
    def forward(
        ctx: Any, data: Tensor, start: Tensor, segment: Tensor, axis: int, reduce: str
    ) -> Tensor:
        result = _C.scatter_reduce(start, axis, segment, data, reduce)
        chosen = (data == result.gather(axis, segment)) | data.isnan()
        ctx.save_for_backward(chosen, segment)
        ctx.axis = axis
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        chosen, segment = ctx.saved_tensors
        count = _C.zeros_like(grad).scatter_add(ctx.axis, segment, chosen.to(grad.dtype))
        share = (grad / count).gather(ctx.axis, segment)
        return _C.where(chosen, share, 0), None, None, None, None
