"""What operations do with a NestedTensor: nearly all run on the packed values; those that look
along the ragged dimension run on a padded copy, and their result is packed again.

`rule_name` is the rule of the operation of that name, which it gets before the arguments.
Everything else goes by the kind that the registry gives an operation.
"""

from __future__ import annotations

import math

import flambeau
from flambeau._operators._kinds import Kind, kind_named, kind_of
from flambeau.nested._base import plain
from flambeau.nested._jagged import NestedInt, NestedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


def by_kind(kind: Kind, func: Any, args: Any, kwargs: Any) -> Any:
    """What has no rule of its own."""
    draws = kind.has("draws") and kind.has("takes_jagged")
    if kind.has("elementwise", "creates") or draws:
        return _run(func, args, kwargs, not kind.has("converts"))
    if kind.has("takes_jagged") and kind.has("reduces"):
        return _reduced(func, *args, **kwargs)
    if kind.has("takes_jagged", "reshapes"):
        return _along(kind, func, *args, **kwargs)
    return NotImplemented


# Converting ---------------------------------------------------------------------------------------


def _batch_and_place(nt: NestedTensor) -> tuple[Tensor, Tensor]:
    """For each row of the values the component that it belongs to, and its place in it."""
    lengths = nt._component_lengths()
    components = flambeau.arange(lengths.shape[0], device=lengths.device)
    batch = flambeau.repeat_interleave(components, lengths)
    place = flambeau.arange(batch.shape[0], device=batch.device) - nt._offsets[:-1][batch]
    return batch, place


def padded(nt: NestedTensor, fill: float, length: int | None = None) -> Tensor:
    """The components filled up to one length, with the dimensions of the nested tensor."""
    if nt._lengths is not None:
        nt = nt.contiguous()
    place_of_rows = nt._ragged_idx - 1
    rows = nt.values().movedim(place_of_rows, 0)
    batch, place = _batch_and_place(nt)
    longest = nt._maybe_max_seqlen if len(nt) else 0
    if length is not None and length < longest:
        fits = place < length
        rows, batch, place = rows[fits], batch[fits], place[fits]
    longest = longest if length is None else length
    empty = rows.new_full((len(nt), longest, *rows.shape[1:]), fill)
    return empty.index_put((batch, place), rows).movedim(1, nt._ragged_idx)


def packed(dense: Tensor, like: NestedTensor, ragged: int | None = None) -> Tensor:
    """The values of a padded tensor, without the padding."""
    ragged = like._ragged_idx if ragged is None else ragged
    batch, place = _batch_and_place(like)
    return dense.movedim(ragged, 1)[batch, place].movedim(0, ragged - 1)


def _fitted(dense: Tensor, like: NestedTensor) -> Tensor:
    """A tensor that broadcasts with a nested one, as one that broadcasts with its values."""
    ragged, rank = like._ragged_idx, like.dim()
    if dense.dim() < rank - ragged or dense.dim() == 0:
        return dense
    dense = dense.reshape([1] * (rank - dense.dim()) + list(dense.shape))
    if dense.shape[0] == 1 and dense.shape[ragged] == 1:
        return dense[0]
    if dense.shape[ragged] == 1:
        batch, _ = _batch_and_place(like)
        return dense.squeeze(ragged)[batch].movedim(0, ragged - 1)
    return packed(dense.expand(len(like), *dense.shape[1:]), like)


def _nested_among(values: Any) -> list[NestedTensor]:
    found = []
    for value in values:
        if isinstance(value, NestedTensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _nested_among(value)
    return found


def _check_alike(name: str, nested: list[NestedTensor]) -> NestedTensor:
    first = nested[0]
    for other in nested[1:]:
        if other.shape[other._ragged_idx] is not first.shape[first._ragged_idx]:
            shapes = [f"({', '.join(map(str, x.shape))})" for x in (first, other)]
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes {shapes[0]} "
                f"and {shapes[1]}"
            )
    return first


def _converted(value: Any, like: NestedTensor, fit: bool) -> Any:
    if isinstance(value, NestedTensor):
        return value.values()
    if isinstance(value, flambeau.Tensor):
        return _fitted(value, like) if fit else value
    if type(value) in (list, tuple):
        return type(value)(_converted(item, like, fit) for item in value)
    return value


def _wrapped(result: Any, like: NestedTensor) -> Any:
    if isinstance(result, flambeau.Tensor):
        rows = like.values().shape[like._ragged_idx - 1]
        fits = result.dim() >= like._ragged_idx and result.shape[like._ragged_idx - 1] == rows
        return like._like(result) if fits else result
    if isinstance(result, (list, tuple)):
        return type(result)([_wrapped(item, like) for item in result])
    return result


def _run(func: Any, args: Any, kwargs: Any, fit: bool) -> Any:
    like = _check_alike(func.__name__, _nested_among((*args, *kwargs.values())))
    converted = [_converted(arg, like, fit) for arg in args]
    named = {key: _converted(arg, like, fit) for key, arg in kwargs.items()}
    result = func(*converted, **named)
    writes = func.__name__.endswith("_") and not func.__name__.endswith("__")
    if (writes or func.__name__.startswith("__i")) and isinstance(args[0], NestedTensor):
        return args[0]
    return _wrapped(result, like)


def rule_linear(func: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation on the last dimensions: other operands are weights."""
    if any(isinstance(weight, NestedTensor) for weight in args[1:]):
        raise ValueError(f"{func.__name__}(): weights that are nested are not supported")
    return _run(func, args, kwargs, False)


rule_embedding = rule_layer_norm = rule_rms_norm = rule_linear


def rule_get(func: Any, self: NestedTensor, *args: Any) -> Any:
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if name in ("mT", "mH"):
        swapped = rule_transpose(flambeau.transpose, self, -2, -1)
        return swapped if name == "mT" else swapped.conj()
    result = func(self, *args)
    return _wrapped(result, self) if isinstance(result, flambeau.Tensor) else result


def rule_grad(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any) -> Any:
    """torch.autograd.grad: gradients of nested tensors are nested."""
    found = func(plain(outputs), inputs, plain(grad_outputs), *args)
    targets = [inputs] if isinstance(inputs, flambeau.Tensor) else list(inputs)
    return tuple(
        target._like(each) if isinstance(target, NestedTensor) and each is not None else each
        for target, each in zip(targets, found, strict=True)
    )


def rule_where(func: Any, condition: Any, *sides: Any) -> Any:
    if not isinstance(condition, NestedTensor):
        raise ValueError("where(): the condition must be nested beside nested tensors")
    return _run(func, (condition, *sides), {}, True)


def rule_copy(func: Any, nt: Any, src: Any, non_blocking: bool = False) -> Any:
    if nt.is_nested and src.is_nested:
        func(nt.values(), src.values(), non_blocking)
        return nt
    raise RuntimeError("copy_(): both tensors must be nested, or none")


def rule_fill(func: Any, nt: NestedTensor, value: Any) -> Any:
    result = func(nt.values(), value)
    return nt if kind_of(func).writes else nt._like(result)


def rule_equal(func: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
    if not (isinstance(a, NestedTensor) and isinstance(b, NestedTensor)) or len(a) != len(b):
        return False
    pairs = list(zip(a.unbind(), b.unbind(), strict=True))
    same = all(x.shape == y.shape for x, y in pairs)
    return same and all(func(x, y, *args, **kwargs) for x, y in pairs)


rule_allclose = rule_equal


# Dimensions ---------------------------------------------------------------------------------------


def _place(name: str, nt: NestedTensor, dim: int) -> int:
    """The dimension of the values that a dimension is; the batch has none."""
    rank = nt.dim()
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
            f"{dim})"
        )
    if dim % rank == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return dim % rank - 1


def _plain_place(name: str, nt: NestedTensor, dim: int) -> int:
    place = _place(name, nt, dim)
    if place == nt._ragged_idx - 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on the ragged dim")
    return place


def rule_transpose(func: Any, nt: NestedTensor, dim0: int, dim1: int) -> Any:
    if 0 in (dim0 % nt.dim(), dim1 % nt.dim()):
        raise ValueError("transpose(): not supported for NestedTensor on dim=0")
    first, second = (_place("transpose", nt, dim) for dim in (dim0, dim1))
    ragged = {first: second, second: first}.get(nt._ragged_idx - 1, nt._ragged_idx - 1)
    return nt._like(nt.values().transpose(first, second), ragged + 1)


rule_swapaxes = rule_swapdims = rule_transpose


def rule_adjoint(func: Any, nt: NestedTensor) -> Any:
    return rule_transpose(func, nt, -2, -1).conj()


def rule_permute(func: Any, nt: NestedTensor, *dims: Any) -> Any:
    order = [dim % nt.dim() for dim in (dims[0] if isinstance(dims[0], (list, tuple)) else dims)]
    if order[0] != 0:
        raise ValueError("permute(): not supported for NestedTensor when the batch moves")
    return nt._like(nt.values().permute([d - 1 for d in order[1:]]), order.index(nt._ragged_idx))


def rule_view(func: Any, nt: NestedTensor, *sizes: Any) -> Any:
    shape = list(sizes[0]) if isinstance(sizes[0], (list, tuple)) else list(sizes)
    name = func.__name__
    if shape[0] not in (len(nt), -1) or isinstance(shape[0], NestedInt):
        raise RuntimeError(f"{name}(): cannot view shape {nt.shape} as {shape}")
    spots = [i for i, size in enumerate(shape) if isinstance(size, NestedInt)]
    spots = spots or [i for i, size in enumerate(shape) if i and size == -1]
    if len(spots) != 1:
        raise RuntimeError(f"{name}(): cannot view shape {nt.shape} as {shape}")
    shape[spots[0]] = nt.values().shape[nt._ragged_idx - 1]
    return nt._like(func(nt.values(), shape[1:]), spots[0])


rule_reshape = rule_expand = rule_view


def rule_view_as(func: Any, nt: NestedTensor, other: NestedTensor) -> Any:
    if nt.dim() != other.dim() or nt.values().shape != other.values().shape:
        raise RuntimeError(f"{func.__name__}(): cannot view shape {nt.shape} as {other.shape}")
    return nt._like(nt.values())


rule_reshape_as = rule_expand_as = rule_view_as


def rule_unflatten(func: Any, nt: NestedTensor, dim: int, sizes: Any) -> Any:
    place = _plain_place("unflatten", nt, dim)
    before = place < nt._ragged_idx - 1
    return nt._like(nt.values().unflatten(place, sizes), nt._ragged_idx + (len(sizes) - 1) * before)


def rule_flatten(func: Any, nt: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    start, end = start_dim % nt.dim(), end_dim % nt.dim()
    if start == 0 and nt._ragged_idx == 1 and nt._lengths is None:
        return nt.values() if end <= 1 else nt.values().flatten(0, end - 1)
    if start <= nt._ragged_idx <= end or start == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor across the ragged dim")
    before = end - start if end < nt._ragged_idx else 0
    return nt._like(nt.values().flatten(start - 1, end - 1), nt._ragged_idx - before)


def rule_unsqueeze(func: Any, nt: NestedTensor, dim: int) -> Any:
    spot = dim % (nt.dim() + 1)
    if spot == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return nt._like(nt.values().unsqueeze(spot - 1), nt._ragged_idx + (spot <= nt._ragged_idx))


def rule_squeeze(func: Any, nt: NestedTensor, dim: Any) -> Any:
    dims = [dim] if isinstance(dim, int) else list(dim)
    positions = [_plain_place("squeeze", nt, d) for d in dims]
    gone = [p for p in positions if nt.values().shape[p] == 1]
    before = sum(p < nt._ragged_idx - 1 for p in gone)
    return nt._like(nt.values().squeeze(gone), nt._ragged_idx - before)


def _along(kind: Kind, func: Any, nt: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    """An operation along a dimension that is not ragged."""
    if "dim" not in kind.parameters:
        return NotImplemented
    given = dict(zip(kind.parameters[1:], args)) | kwargs
    dim = given["dim"] if "dim" in given else kind.default("dim")
    one = dim[0] if isinstance(dim, (list, tuple)) else dim
    place = _plain_place(kind.name, nt, one)
    given["dim"] = [place] if isinstance(dim, (list, tuple)) else place
    return _wrapped(func(nt.values(), **given), nt)


def rule_chunk(func: Any, nt: NestedTensor, chunks: int, dim: int = 0) -> Any:
    if dim in (0, -nt.dim()):
        return _chunks_of_batch(nt, chunks)
    return _along(kind_named("chunk"), func, nt, chunks, dim)


def _chunks_of_batch(nt: NestedTensor, chunks: int) -> Any:
    from flambeau.nested import _pack

    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    components = nt.unbind()
    size = max(1, math.ceil(len(components) / chunks))
    return tuple(
        _pack(list(components[at : at + size]), nt._ragged_idx)
        for at in range(0, len(components), size)
    )


def rule_select(func: Any, nt: NestedTensor, dim: int, index: int) -> Any:
    if dim % nt.dim() == 0:
        return nt.unbind()[index]
    place = _plain_place("select", nt, dim)
    before = place < nt._ragged_idx - 1
    return nt._like(nt.values().select(place, index), nt._ragged_idx - before)


def rule_getitem(func: Any, nt: NestedTensor, index: Any) -> Any:
    index = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, (flambeau.Tensor, list)) for item in index):
        raise NotImplementedError("index: not implemented for nested tensors")
    if isinstance(index[0], int):
        component = nt.unbind()[index[0]]
        return component[index[1:]] if len(index) > 1 else component
    everything = slice(None)
    if index[0] is Ellipsis:
        index = (everything,) * (nt.dim() - len(index) + 1) + index[1:]
    if index[0] != everything:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    rest = index[1:]
    if len(rest) >= nt._ragged_idx and rest[nt._ragged_idx - 1] != everything:
        raise RuntimeError("slice(): not supported for NestedTensor on the ragged dim")
    before = sum(isinstance(item, int) for item in rest[: nt._ragged_idx - 1])
    return nt._like(nt.values()[rest], nt._ragged_idx - before)


def rule_cat(func: Any, tensors: Any, dim: int = 0) -> Any:
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    stacks = func.__name__ == "stack"
    rank = first.dim() + stacks
    if dim % rank == 0 and not stacks:
        from flambeau.nested import _pack

        return _pack([x for t in tensors for x in t.unbind()], first._ragged_idx)
    if dim % rank == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    _check_alike(func.__name__, list(tensors))
    spot = dim % rank
    ragged = first._ragged_idx + (stacks and spot <= first._ragged_idx)
    return first._like(func([t.values() for t in tensors], spot - 1), ragged)


rule_concat = rule_concatenate = rule_stack = rule_cat


def rule_dstack(func: Any, tensors: Any) -> Any:
    return rule_cat(flambeau.cat, tensors, 2)


# Along the ragged dimension -----------------------------------------------------------------------


def _reduced(func: Any, nt: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    dim = kwargs.pop("dim") if "dim" in kwargs else args[0] if args else None
    if isinstance(dim, flambeau.Tensor):
        return _run(func, (nt, dim), {}, True)
    if dim is None:
        whole = nt if nt._lengths is None else nt.contiguous()
        return func(whole.values(), **kwargs)
    keepdim = kwargs.pop("keepdim", args[1] if len(args) > 1 else False)
    dims = [d % nt.dim() for d in ([dim] if isinstance(dim, int) else dim)]
    ragged = nt._ragged_idx
    if 0 in dims and ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
            "supported for nested tensors"
        )
    if ragged in dims and 0 not in dims:
        if len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
                "nested tensors"
            )
        return _reduced_rows(func, nt, keepdim, kwargs)
    positions = [d - 1 for d in dims if d]
    result = func(
        nt.values(), positions[0] if len(positions) == 1 else positions, keepdim, **kwargs
    )
    if ragged in dims:
        return result.unsqueeze(0) if keepdim else result
    before = 0 if keepdim else sum(d < ragged for d in dims)
    if isinstance(result, tuple):
        return type(result)([nt._like(item, ragged - before) for item in result])
    return nt._like(result, ragged - before)


def _reduced_rows(func: Any, nt: NestedTensor, keepdim: bool, kwargs: Any) -> Any:
    name, ragged = func.__name__, nt._ragged_idx
    if nt._lengths is not None:
        raise RuntimeError(
            f"{name}(): reducing across the ragged dimension is not supported for non-contiguous "
            "nested tensors with holes"
        )
    parts = [func(part, ragged - 1, keepdim, **kwargs) for part in nt.unbind()]
    if isinstance(parts[0], tuple):
        return type(parts[0])(flambeau.stack(each) for each in zip(*parts, strict=True))
    return flambeau.stack(parts)


def rule_softmax(func: Any, nt: NestedTensor, dim: int, *args: Any, **kwargs: Any) -> Any:
    place = _place(func.__name__, nt, dim)
    if place != nt._ragged_idx - 1:
        return nt._like(func(nt.values(), place, *args, **kwargs))
    if func.__name__ == "log_softmax":
        raise RuntimeError("log_softmax(): not supported for NestedTensor on the ragged dim")
    return nt._like(packed(func(padded(nt, -math.inf), place + 1, *args, **kwargs), nt))


rule_log_softmax = rule_softmax


def rule_matmul(func: Any, a: Any, b: Any) -> Any:
    if isinstance(a, NestedTensor) and not isinstance(b, NestedTensor):
        last = a._ragged_idx == a.dim() - 1
        if b.dim() == 2 and not last:
            return a._like(flambeau.matmul(a.values(), b))
        if not last:
            return a._like(packed(flambeau.matmul(padded(a, 0.0), b), a))
    if isinstance(a, NestedTensor) and isinstance(b, NestedTensor):
        _check_alike("matmul", [a, b])
        # Over the ragged dimension: padding adds nothing.
        if a._ragged_idx == a.dim() - 1 and b._ragged_idx == b.dim() - 2:
            return flambeau.matmul(padded(a, 0.0), padded(b, 0.0))
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(a.shape)} and {b.shape}"
    )


rule_bmm = rule_matmul


def rule_scaled_dot_product_attention(
    func: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, **kw: Any
) -> Any:
    if not all(isinstance(x, NestedTensor) for x in (query, key, value)) or attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention(): query, key and value must all be nested, and there "
            "must be no attn_mask"
        )
    dense = [padded(x, 0.0) for x in (query, key, value)]
    lengths = key._component_lengths()
    positions = flambeau.arange(dense[1].shape[-2], device=lengths.device)
    mask = (positions < lengths[:, None]).reshape(len(key), *[1] * (dense[0].dim() - 2), -1)
    if kw.pop("is_causal", False):
        rows = flambeau.arange(dense[0].shape[-2], device=lengths.device)
        mask = mask & (positions <= rows[:, None])
    return query._like(packed(func(*dense, attn_mask=mask, **kw), query))
