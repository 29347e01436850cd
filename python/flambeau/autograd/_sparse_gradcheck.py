"""gradcheck for functions of sparse tensors: the stored values are what is varied."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_sparse(value: Any) -> bool:
    return isinstance(value, flambeau.Tensor) and value.layout is not flambeau.strided


def _dense(value: Any) -> Any:
    return value.to_dense() if _is_sparse(value) else value


def over_values(
    func: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The same function of values in place of sparse tensors, with dense results."""
    if not any(map(_is_sparse, inputs)):
        return func, inputs
    positions = [
        (x.coalesce() if x.is_sparse else x).detach() if _is_sparse(x) else None for x in inputs
    ]
    varied = tuple(
        x if place is None else place.values().clone().requires_grad_(x.requires_grad)
        for x, place in zip(inputs, positions, strict=True)
    )

    def of_values(*args: Any) -> Any:
        rebuilt = [
            x if place is None else flambeau._C._sparse_with_values(place, x)
            for x, place in zip(args, positions, strict=True)
        ]
        result = func(*rebuilt)
        if isinstance(result, (tuple, list)):
            return tuple(map(_dense, result))
        return _dense(result)

    return of_values, varied
