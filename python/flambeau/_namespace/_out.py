"""What `out=` means where a function is written in Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor


def delivered(result: Tensor, out: Tensor | None) -> Tensor:
    """The result; where there is an `out`, that one, made the shape of the result and filled."""
    return result if out is None else out.resize_(result.shape).copy_(result)
