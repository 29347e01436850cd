"""vmap: a function of single samples as a function of batches.

The function runs once, with tensors that hold all samples and look like one. Ops compute all
samples of these at once (`flambeau/ops/layers/vmap.h`).
"""

from __future__ import annotations

import functools

import flambeau
from flambeau import _C, Tensor
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["vmap"]


def _checked_inputs(args: Any, in_dims: Any, name: str) -> tuple[list[Any], list[Any], Any, int]:
    """The arguments flattened, the batch dimension of each or None, and the size of the batch."""
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    checked, sizes = [], []
    for value, dim in zip(flat, dims):
        if dim is not None and not isinstance(dim, int):
            raise ValueError(
                f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if dim is not None and not isinstance(value, Tensor):
            raise ValueError(
                f"{where}: Got in_dim={dim} for an input but the input is of type {type(value)}. "
                "We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if dim is not None and not -value.dim() <= dim < value.dim():
            raise ValueError(
                f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {value.dim()} so expected in_dim to satisfy "
                f"-{value.dim()} <= in_dim < {value.dim()}."
            )
        checked.append(dim)
        if dim is not None:
            sizes.append(value.size(dim))
    if not sizes:
        raise ValueError(f"{where}: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return flat, checked, spec, sizes[0]


def _positions(out_dims: Any, spec: Any, is_tensor: bool, name: str) -> list[Any]:
    """Where each result has its samples."""
    if is_tensor and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    positions = _broadcast_to_and_flatten(out_dims, spec)
    if positions is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with "
            f"the structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but "
            f"outputs has structure {spec}."
        )
    if any(position is not None and not isinstance(position, int) for position in positions):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should "
            "appear."
        )
    return positions


def _whole(leaf: Any, dim: int | None, level: int, size: int, name: str) -> Any:
    """A result with the samples in this dimension; None where all are to be the same."""
    if dim is None:
        if isinstance(leaf, Tensor) and _C.maybe_get_level(leaf) == level:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return leaf
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    return _C._remove_batch_dim(leaf, level, size, dim)


def _run(
    func: Callable[..., Any],
    inputs: tuple[list[Any], list[Any], Any, int],
    kwargs: dict[str, Any],
    randomness: str,
    out_dims: Any,
    name: str,
) -> Any:
    """The results of all samples."""
    flat, dims, spec, size = inputs
    level = _C._vmap_increment_nesting(size, randomness)
    try:
        samples = [
            value if dim is None else _C._add_batch_dim(value, dim, level)
            for value, dim in zip(flat, dims)
        ]
        output = func(*tree_unflatten(samples, spec), **kwargs)
        leaves, out_spec = tree_flatten(output)
        positions = _positions(out_dims, out_spec, isinstance(output, Tensor), name)
        rows = [_whole(leaf, dim, level, size, name) for leaf, dim in zip(leaves, positions)]
    finally:
        _C._vmap_decrement_nesting()
    return tree_unflatten(rows, out_spec)


def _narrowed(value: Any, dim: int | None, first: int, step: int) -> Any:
    if dim is None:
        return value
    return value.narrow(dim, first, min(step, value.size(dim) - first))


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """The results of chunks, one after another."""
    flats, specs = zip(*map(tree_flatten, parts))
    positions = _positions(out_dims, specs[0], isinstance(parts[0], Tensor), "")
    joined = [
        rows[0] if dim is None else flambeau.cat(rows, dim)
        for rows, dim in zip(zip(*flats), positions)
    ]
    return tree_unflatten(joined, specs[0])


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function of batches that applies a function to every sample.

    Args:
        func: takes and returns tensors, or nested containers of them.
        in_dims: which dimension of each input counts samples; None for an input all share.
        out_dims: which dimension of each output counts samples.
        randomness: "different" for random numbers of each sample, "same" for the same ones,
            "error" to raise when any are drawn.
        chunk_size: how many samples to compute at once; any number gives the same result.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, dims, spec, size = _checked_inputs(args, in_dims, name)
        step = chunk_size or size
        if step >= size:
            return _run(func, (flat, dims, spec, size), kwargs, randomness, out_dims, name)
        start = flambeau.get_rng_state() if randomness == "same" else None
        parts = []
        for first in range(0, size, step):
            if start is not None:
                flambeau.set_rng_state(start)
            chunk = [_narrowed(value, dim, first, step) for value, dim in zip(flat, dims)]
            count = min(step, size - first)
            parts.append(_run(func, (chunk, dims, spec, count), kwargs, randomness, out_dims, name))
        return _joined(parts, out_dims)

    return wrapped
