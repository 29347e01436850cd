"""Derivatives of functions, as `torch.func` has them, and the checks that they share."""

from __future__ import annotations

from flambeau.func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


def grad_impl(func: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Any:
    """The gradient of a function at arguments."""
    return grad(func, argnums, has_aux)(*args, **kwargs)


def grad_and_value_impl(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: Any
) -> Any:
    """The gradient of a function at arguments, and its value."""
    return grad_and_value(func, argnums, has_aux)(*args, **kwargs)
