"""vmap under its older names, which libraries still take for gradients of several vectors."""

from __future__ import annotations

import functools
import warnings

from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["_vmap", "vmap"]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: int | tuple[int, ...] = 0
) -> Callable[..., Any]:
    """`flambeau.vmap` for functions that return a tensor or a tuple of tensors."""
    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.",
        FutureWarning,
        stacklevel=2,
    )
    return _vmap(func, in_dims, out_dims)


def _check_outputs(outputs: Any, name: str, allow_none: bool) -> None:
    if isinstance(outputs, Tensor):
        return
    start = f"vmap({name}, ...): `{name}` must only return Tensors, got type"
    if not isinstance(outputs, tuple):
        raise ValueError(f"{start} {type(outputs)} as the return.")
    for index, output in enumerate(outputs):
        if not (isinstance(output, Tensor) or (output is None and allow_none)):
            raise ValueError(f"{start} {type(output)} for return {index}.")


def _check_out_dims(out_dims: Any, name: str) -> None:
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,)
    if not all(isinstance(dim, int) for dim in dims):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int "
            "representing where in the outputs the vmapped dimension should appear."
        )


def _given_dims(outputs: tuple[Any, ...], out_dims: Any, name: str) -> tuple[int, ...]:
    """Where the batch belongs in each output that is not None."""
    dims = (out_dims,) * len(outputs) if isinstance(out_dims, int) else out_dims
    if len(dims) != len(outputs):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must have one dim per output "
            f"(got {len(outputs)} outputs) of {name}."
        )
    return tuple(dim for dim, output in zip(dims, outputs) if output is not None)


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: int | tuple[int, ...] = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """As `vmap`, without its warning; an output of None may be let through."""
    import flambeau

    name = getattr(func, "__name__", None) or repr(func)

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        _check_out_dims(out_dims, name)
        shape: list[tuple[bool, ...] | None] = []  # which outputs are tensors, if it is a tuple

        def named(*samples: Any) -> Any:
            outputs = func(*samples)
            _check_outputs(outputs, name, allow_none_pass_through)
            single = isinstance(outputs, Tensor)
            row = (outputs,) if single else outputs
            _given_dims(row, out_dims, name)
            shape.append(None if single else tuple(output is not None for output in row))
            return tuple(output for output in row if output is not None)

        named.__name__ = name
        # All outputs are mapped to the front first: how many there are is known after the call.
        results = iter(flambeau.vmap(named, in_dims, 0)(*args))
        filled = shape[-1]
        row = tuple(next(results) if there else None for there in filled or (True,))
        dims = iter(_given_dims(row, out_dims, name))
        moved = tuple(None if output is None else output.movedim(0, next(dims)) for output in row)
        return moved[0] if filled is None else moved

    return wrapped
