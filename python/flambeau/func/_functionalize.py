"""Transforms that change next to nothing where operations run at once: there is no program to
rewrite, and a tensor inside of a transform is an ordinary one.
"""

from __future__ import annotations

import functools

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function without writes into intermediate tensors (and, with "mutations_and_views",
    without views): it computes the same, and writes into its inputs stay. As in PyTorch, what
    writes under another name than its operator's (`x.multiply_`, `x.square_`) is refused.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are 'mutations' and 'mutations_and_views'."
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = _C._set_functionalizing(True)
        try:
            return func(*args, **kwargs)
        finally:
            _C._set_functionalizing(before)

    return wrapped


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor that a transform wraps, to look at in a debugger."""
    return tensor
