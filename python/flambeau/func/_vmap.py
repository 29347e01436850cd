"""vmap: a function of single samples as a function of batches.

The function runs once, with tensors that hold all samples and look like one (`_batched.py`). What
cannot be computed so, such as control flow that depends on values or writes in place, runs for each
sample in turn, and the results are stacked.
"""

from __future__ import annotations

import functools

import flambeau
from flambeau import Tensor
from flambeau.func import _batching_rules  # noqa: F401  (importing enters the rules)
from flambeau.func._batched import Batched, Unbatchable, batch_size, batching, physical, wrap
from flambeau.func._draws import BatchedDraws
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["vmap"]

_RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)


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


def _part(value: Tensor, dim: int, chunk: range) -> Tensor:
    """The samples of a chunk, counted by the first dimension; all of them are the value itself."""
    if len(chunk) < value.size(dim):
        value = value.narrow(dim, chunk.start, len(chunk))
    return value if dim == 0 else value.movedim(dim, 0)


def _same_view_of_each(parts: tuple[Any, ...], samples: Tensor) -> bool:
    """Whether results are the same part of every sample of an argument, so that together they are
    a view of it, as they are where all samples are computed at once. Those with a history are not
    looked at: it is theirs, not the argument's."""
    first, base = parts[0], samples if samples._base is None else samples._base
    if samples.requires_grad or samples.dtype != first.dtype:
        return False
    return all(
        part._base is base
        and not part.requires_grad
        and (part.dtype, part.shape, part.stride()) == (first.dtype, first.shape, first.stride())
        and (part.is_conj(), part.is_neg()) == (samples.is_conj(), samples.is_neg())
        and part.storage_offset() == first.storage_offset() + turn * samples.stride(0)
        for turn, part in enumerate(parts)
    )


def _turn_as_its_samples(whole: Tensor, picked: tuple[Tensor, ...]) -> None:
    """Gives an argument whose samples were turned in place (`t_`, `squeeze_`) their shape."""
    first, was = picked[0], whole[0]
    shape, steps = first.shape, first.stride()
    if (shape, steps) == (was.shape, was.stride()) or first.numel() != was.numel():
        return
    if first._base is not (whole if whole._base is None else whole._base):
        return  # it has other memory now
    if all((one.shape, one.stride()) == (shape, steps) for one in picked):
        whole.as_strided_((len(picked), *shape), (whole.stride(0), *steps), first.storage_offset())


def _given(
    flat: list[Any], dims: list[Any], picks: list[list[Any]], chunk: range
) -> list[tuple[Tensor, tuple[Any, ...]]]:
    """The arguments that have samples, with these in front, and the samples of a chunk."""
    found = []
    for value, dim, column in zip(flat, dims, zip(*picks)):
        if dim == 0 and len(chunk) == value.size(0):
            _turn_as_its_samples(value, column)
        if dim is not None:
            found.append((_part(value, dim, chunk), column))
    return found


def _row(parts: tuple[Any, ...], given: list[tuple[Tensor, tuple[Any, ...]]]) -> Any:
    """One result of every sample; that of a single sample keeps its layout, and an argument that
    is returned, maybe written to, is the result itself."""
    for samples, picked in given:
        if all(part is one for part, one in zip(parts, picked)):
            return samples
    if not isinstance(parts[0], Tensor):
        return parts[0]
    for samples, _ in given:
        if _same_view_of_each(parts, samples):
            first = parts[0]
            shape, steps = (len(parts), *first.shape), (samples.stride(0), *first.stride())
            return samples.as_strided(shape, steps, first.storage_offset())
    return flambeau.stack(parts) if len(parts) > 1 else parts[0].unsqueeze(0)


def _stacked(
    outputs: list[Any],
    out_dims: Any,
    name: str,
    given: list[tuple[Tensor, tuple[Any, ...]]] | None = None,
) -> Any:
    """The results of all samples, stacked leaf by leaf; `given` are arguments with their samples in
    front, and those samples."""
    flats, specs = zip(*map(tree_flatten, outputs))
    rows = [_row(parts, given or []) for parts in zip(*flats)]
    return _arranged(rows, specs[0], outputs[0], out_dims, name)


def _places(out_dims: Any, spec: Any, is_tensor: bool, name: str) -> list[Any]:
    """Where each result has its samples."""
    if is_tensor and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    places = _broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with "
            f"the structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but "
            f"outputs has structure {spec}."
        )
    if any(place is not None and not isinstance(place, int) for place in places):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should "
            "appear."
        )
    return places


def _arranged(rows: list[Any], spec: Any, output: Any, out_dims: Any, name: str) -> Any:
    """Results whose samples come first, with the samples where they are wanted."""
    result = []
    for row, dim in zip(rows, _places(out_dims, spec, isinstance(output, Tensor), name)):
        if dim is None:
            result.append(row[0] if isinstance(row, Tensor) else row)
            continue
        if not isinstance(row, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type "
                f"{type(row)}. Did you mean to set out_dims= to None for output?"
            )
        result.append(row if dim == 0 else row.movedim(0, dim))
    return tree_unflatten(result, spec)


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """The results of chunks, one after another."""
    flats, specs = zip(*map(tree_flatten, parts))
    places = _places(out_dims, specs[0], isinstance(parts[0], Tensor), "")
    joined = [
        rows[0] if dim is None else flambeau.cat(rows, dim)
        for rows, dim in zip(zip(*flats), places)
    ]
    return tree_unflatten(joined, specs[0])


def _run_together(
    together: Callable[[range], Any],
    chunk: range,
    randomness: str,
    start: Tensor,
    out_dims: Any,
    name: str,
) -> Any:
    """The results of all samples of a chunk, computed at once; None if that cannot be."""
    if len(chunk) == 1 or randomness == "different" or batch_size() is not None:
        return None
    if randomness == "same":
        flambeau.set_rng_state(start)
    try:
        with batching(len(chunk), randomness):
            outputs = together(chunk)
            flat, spec = tree_flatten(outputs)
            places = _places(out_dims, spec, isinstance(outputs, Tensor), name)
            if any(dim is None and isinstance(leaf, Batched) for leaf, dim in zip(flat, places)):
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is "
                    "None"
                )
            rows = [_whole_result(leaf, len(chunk)) for leaf in flat]
    except Unbatchable:
        flambeau.set_rng_state(start)
        return None
    if randomness == "error" and not flambeau.equal(start, flambeau.get_rng_state()):
        flambeau.set_rng_state(start)
        raise RuntimeError(_RANDOM)
    return _arranged(rows, spec, outputs, out_dims, name)


def _whole_result(leaf: Any, size: int) -> Any:
    """A result of a batch with the samples in its first dimension."""
    if isinstance(leaf, Batched):
        return physical(leaf)
    if isinstance(leaf, Tensor):
        if leaf.is_meta:
            raise Unbatchable("a sample was read past the rules")
        return leaf.unsqueeze(0).expand(size, *leaf.shape)
    return leaf


def _run(sample: Callable[[int], Any], chunk: range, randomness: str, start: Tensor) -> list[Any]:
    """The results of some samples, with random numbers as they are asked for."""
    if randomness == "different":
        outputs = []
        draws = BatchedDraws(len(chunk))
        with draws:
            for turn, index in enumerate(chunk):
                draws.begin(turn)
                outputs.append(sample(index))
        return outputs
    outputs = []
    for index in chunk:
        if randomness == "same":
            flambeau.set_rng_state(start)
        outputs.append(sample(index))
        if randomness == "error" and not flambeau.equal(start, flambeau.get_rng_state()):
            flambeau.set_rng_state(start)
            raise RuntimeError(_RANDOM)
    return outputs


def _versions(tensors: list[Tensor]) -> list[int]:
    """How often each tensor has been written to."""
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _of_nothing(
    func: Any, flat: Any, dims: Any, spec: Any, kwargs: Any, out_dims: Any, name: str
) -> Any:
    """The result for no samples: a sample of zeros, their sum, tells its shapes and history."""
    state = flambeau.get_rng_state()
    zeros = [v if d is None else v.sum(d).to(v.dtype) for v, d in zip(flat, dims)]
    one = _stacked([func(*tree_unflatten(zeros, spec), **kwargs)], out_dims, name)
    flambeau.set_rng_state(state)
    flat_out, out_spec = tree_flatten(one)
    places = _places(out_dims, out_spec, isinstance(one, Tensor), name)
    return tree_unflatten(
        [t if d is None else t.narrow(d, 0, 0) for t, d in zip(flat_out, places)], out_spec
    )


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
        shared = [v for v, d in zip(flat, dims) if d is None and isinstance(v, Tensor)]

        picks: list[list[Any]] = []

        def sample(index: int) -> Any:
            picked = [v if d is None else v.select(d, index) for v, d in zip(flat, dims)]
            picks.append(picked)
            before = _versions(shared)
            result = func(*tree_unflatten(picked, spec), **kwargs)
            if size > 1 and _versions(shared) != before:
                raise RuntimeError(
                    f"vmap({name}, ...): `{name}` writes in place into an input that all samples "
                    "share, which cannot hold the results of all of them; give it a dimension of "
                    "samples, or write into a copy"
                )
            return result

        def together(chunk: range) -> Any:
            picked = [v if d is None else wrap(_part(v, d, chunk)) for v, d in zip(flat, dims)]
            return func(*tree_unflatten(picked, spec), **kwargs)

        if size == 0:
            return _of_nothing(func, flat, dims, spec, kwargs, out_dims, name)
        step = min(chunk_size or size, size)
        start = flambeau.get_rng_state()
        parts = []
        for first in range(0, size, step):
            chunk = range(first, min(first + step, size))
            part = _run_together(together, chunk, randomness, start, out_dims, name)
            if part is None:
                picks.clear()
                outputs = _run(sample, chunk, randomness, start)
                part = _stacked(outputs, out_dims, name, _given(flat, dims, picks, chunk))
            parts.append(part)
        return parts[0] if len(parts) == 1 else _joined(parts, out_dims)

    return wrapped
