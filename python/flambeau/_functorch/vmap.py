"""vmap, and the steps that it is made of."""

from __future__ import annotations

from flambeau import Tensor
from flambeau._C import _add_batch_dim, _vmap_increment_nesting
from flambeau.func import vmap
from flambeau.func._core import _unwrap_batched as _unwrapped
from flambeau.func._core import _vmap_decrement_nesting
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["vmap"]


def vmap_impl(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The results of a function for batches."""
    return vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **kwargs)


def wrap_batched(args: Any, bdims: Any, level: int) -> Any:
    """Samples of tensors that are counted along these dimensions; None: shared by all."""
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(bdims, spec)
    if dims is None:
        raise ValueError(f"wrap_batched: the dimensions {bdims} do not fit the arguments {spec}")
    samples = [
        value if dim is None else _add_batch_dim(value, dim, level)
        for value, dim in zip(flat, dims)
    ]
    return tree_unflatten(samples, spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """What is behind samples of a level, and the dimensions that count them there."""
    flat, spec = tree_flatten(args)
    if not flat:
        return args, ()
    pairs = [
        _unwrapped(value, level) if isinstance(value, Tensor) else (value, None) for value in flat
    ]
    values, dims = zip(*pairs)
    return tree_unflatten(list(values), spec), tree_unflatten(list(dims), spec)


def restore_vmap(
    func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str
) -> Callable[..., Any]:
    """vmap that gives back where each result has its samples, instead of moving them."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        level = _vmap_increment_nesting(batch_size, randomness)
        try:
            return unwrap_batched(func(*wrap_batched(args, in_dims, level), **kwargs), level)
        finally:
            _vmap_decrement_nesting()

    return inner
