"""Forward mode: numbers that carry the derivative along a direction, their tangent.

Within a level, `make_dual` begins a graph at a tensor, and `unpack_dual` asks it for the product of
the Jacobian with the tangents, which is backward differentiated twice: every op with a second
derivative works.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import flambeau
from flambeau.autograd.graph import lead_elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
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


class _Start(NamedTuple):
    """Where the graph of a level begins."""

    leaf: Any  # what gradients are asked for
    tangent: Any
    dual: Any  # what the program was given, and its node as long as nobody has written to it
    node: Any
    differentiable: bool  # whether what is computed has to lead back to what was given


class _Level(list[_Start]):
    """A level: the starts of its graph. Recording is on inside of it, whatever it was before;
    where it was off, nothing that leaves the level has a history.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tracked = flambeau.is_grad_enabled()
        self.pushing = False  # whether products with tangents are being computed

    def differentiable(self, *results: Any) -> bool:
        """Whether results have to lead back to what any start was made of, or do lead to leaves
        that are none of this level."""
        if any(start.differentiable for start in self):
            return True
        nodes = [result.grad_fn for result in results if isinstance(result, flambeau.Tensor)]
        return self.tracked and lead_elsewhere(nodes, [start.leaf for start in self])


# The levels that were entered.
_levels: list[_Level] = []
_current_level = -1


def enter_dual_level() -> int:
    """Enters a level; its number."""
    global _current_level
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append(_Level())
    flambeau._C._set_grad_enabled(True)
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
    flambeau._C._set_grad_enabled(_levels.pop().tracked)
    _current_level = len(_levels) - 1


class _Begin(flambeau.autograd.Function):
    """The identity; its result shares memory, and may be written to. Writes to either are counted
    for both, so that what was kept of the result is known to be stale."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return flambeau._C._alias(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _Cut(_Begin):
    """The identity, which tangents do not pass: those before it have been taken into account by a
    custom function's own rule.
    """

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor | None:  # type: ignore[override]
        return None if any(level.pushing for level in _levels) else grad


def _inside(level: int | None, name: str) -> _Level:
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
    for what, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {what} to be floating point or complex, but got: {value.dtype}"
            )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    if any(start.dual is tangent for start in starts):
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level is not "
            "supported."
        )
    differentiable = starts.tracked and (tensor.requires_grad or tangent.requires_grad)
    return _begin(starts, tensor, tangent, _Begin, differentiable)


def _begin(
    level: _Level, tensor: Tensor, tangent: Tensor, first: type[_Begin], differentiable: bool
) -> Tensor:
    with flambeau.enable_grad():
        if not tensor.requires_grad:
            leaf = tensor.detach().requires_grad_()
        else:
            leaf = first.apply(tensor)  # no view: a write would give it another history
        dual = _Begin.apply(leaf)
    level.append(_Start(leaf, tangent, dual, dual.grad_fn, differentiable))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent; None where it has none."""
    if level is None and _current_level < 0:
        return UnpackedDualTensor(tensor, None)
    starts = _inside(level, "unpack")
    for start in starts:
        if start.dual is tensor and start.node is tensor.grad_fn:
            has_history = start.differentiable and start.leaf.grad_fn is not None
            primal = start.leaf.view_as(start.leaf) if has_history else tensor.detach()
            return UnpackedDualTensor(primal, start.tangent)
    if not tensor.requires_grad or not starts:
        return UnpackedDualTensor(tensor, None)
    leaves, tangents = [start.leaf for start in starts], [start.tangent for start in starts]
    differentiable = starts.differentiable(tensor)
    with flambeau.enable_grad():
        weight = flambeau.zeros_like(tensor).requires_grad_()
        starts.pushing = True
        try:
            rows = flambeau.autograd.grad(
                tensor, leaves, weight, create_graph=True, retain_graph=True, allow_unused=True
            )
        finally:
            starts.pushing = False
        pairs = [(row, t) for row, t in zip(rows, tangents) if row is not None]
        if not pairs:
            return UnpackedDualTensor(tensor, None)
        dependent = [(row, t) for row, t in pairs if row.requires_grad]
        product = flambeau.autograd.grad(
            [row for row, _ in dependent],
            weight,
            [t for _, t in dependent],
            retain_graph=True,
            create_graph=differentiable,
            allow_unused=True,
        )[0]
    if product is None:
        product = flambeau.zeros_like(tensor)
    elif any(_share_memory(product, tangent) for tangent in tangents):
        product = product.clone()  # whoever writes into it means this tensor's
    return UnpackedDualTensor(tensor if differentiable else tensor.detach(), product)


def tangents_of(args: tuple[Any, ...]) -> list[Any]:
    """The tangent of each argument of a function; None where it has none."""
    if not _levels or not _levels[-1]:
        return []
    return [
        unpack_dual(arg).tangent
        if isinstance(arg, flambeau.Tensor) and (arg.is_floating_point() or arg.is_complex())
        else None
        for arg in args
    ]


def push_tangents(function: Any, args: tuple[Any, ...], tangents: list[Any], result: Any) -> Any:
    """The results of a custom function with the tangents that its `jvp` computes; without any
    where no argument has one.
    """
    if all(tangent is None for tangent in tangents):
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    nodes = [output.grad_fn for output in outputs if isinstance(output, flambeau.Tensor)]
    context = next((n for n in nodes if getattr(n, "_forward_cls", None) is function), None)
    if context is None:
        return result
    if getattr(context, "materialize_grads", True):
        tangents = [
            flambeau.zeros_like(arg)
            if tangent is None and isinstance(arg, flambeau.Tensor)
            else tangent
            for arg, tangent in zip(args, tangents)
        ]
    with flambeau.set_grad_enabled(_levels[-1].differentiable(*outputs)):
        pushed = context.apply_jvp(*tangents)
    pushed = pushed if isinstance(pushed, tuple) else (pushed,)
    if len(pushed) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(pushed)})"
        )
    for index, tangent in enumerate(pushed):
        if not (tangent is None or isinstance(tangent, flambeau.Tensor)):
            raise RuntimeError(
                f"expected Variable or None (got {type(tangent).__name__}) for grad output {index}."
            )
    duals = tuple(map(_with_tangent, outputs, pushed))
    return duals if isinstance(result, tuple) else duals[0]


def _with_tangent(output: Any, tangent: Any) -> Any:
    if tangent is None or not isinstance(output, flambeau.Tensor):
        return output
    if output.shape != tangent.shape:
        raise RuntimeError(
            "A custom Function's forward mode gradient has a different size than its output: "
            f"{list(tangent.shape)} and {list(output.shape)}"
        )
    level = _levels[-1]
    return _begin(level, output, tangent, _Cut, level.differentiable(output))


def _share_memory(one: Tensor, two: Tensor) -> bool:
    if one.layout is not flambeau.strided or two.layout is not flambeau.strided:
        return one is two
    return one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()


class dual_level:
    """A context in which tensors may have tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()
