"""Forward mode: numbers that carry the derivative along a direction, their tangent.

Within a level, `make_dual` begins a graph at a tensor, and `unpack_dual` asks it for the product of
the Jacobian with the tangents, which is backward differentiated twice: every op with a second
derivative works.
"""

from __future__ import annotations

from collections import namedtuple

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])

# For each level that was entered, the tensors that begin its graph and their tangents.
_levels: list[list[tuple[Any, Any]]] = []
_current_level = -1


def enter_dual_level() -> int:
    """Enters a level; its number."""
    global _current_level
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    _current_level = len(_levels) - 1
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves a level, whose tangents are forgotten."""
    global _current_level
    if not _levels or (level is not None and level != _current_level):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    _levels.pop()
    _current_level = len(_levels) - 1


def _inside(level: int | None, name: str) -> list[tuple[Any, Any]]:
    if level is None:
        level = _current_level
    if not 0 <= level < len(_levels):
        raise RuntimeError(
            f"Trying to {name} a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    return _levels[level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The tensor with a tangent."""
    starts = _inside(level, "create")
    from flambeau.func._batched import Batched

    if isinstance(tensor, Batched) or isinstance(tangent, Batched):
        # vmap takes the samples one by one then.
        raise RuntimeError("make_dual: a batch of samples cannot be made dual as one tensor")
    for what, value in (("tensor", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {what} to be floating point or complex, but got: {value.dtype}"
            )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"Expected the primal and the tangent to have the same size, but got {tensor.shape} "
            f"and {tangent.shape}"
        )
    with flambeau.enable_grad():
        if tensor.requires_grad:
            dual = tensor.view_as(tensor)
        else:
            dual = tensor.detach().requires_grad_()
    starts.append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent; None where it has none."""
    if level is None and _current_level < 0:
        return UnpackedDualTensor(tensor, None)
    starts = _inside(level, "unpack")
    for dual, tangent in starts:
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    if not tensor.requires_grad or not starts:
        return UnpackedDualTensor(tensor, None)
    duals, tangents = [dual for dual, _ in starts], [tangent for _, tangent in starts]
    with flambeau.enable_grad():
        weight = flambeau.zeros_like(tensor).requires_grad_()
        rows = flambeau.autograd.grad(
            tensor, duals, weight, create_graph=True, retain_graph=True, allow_unused=True
        )
        pairs = [(row, t) for row, t in zip(rows, tangents) if row is not None]
        if not pairs:
            return UnpackedDualTensor(tensor, None)
        dependent = [(row, t) for row, t in pairs if row.requires_grad]
        product = flambeau.autograd.grad(
            [row for row, _ in dependent],
            weight,
            [t for _, t in dependent],
            retain_graph=True,
            allow_unused=True,
        )[0]
    if product is None:
        product = flambeau.zeros_like(tensor)
    return UnpackedDualTensor(tensor.detach(), product)


class dual_level:
    """A context in which tensors may have tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()
