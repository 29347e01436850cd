"""What operations do with a NestedTensor: nearly all run on the packed values; those that look
along the ragged dimension run on a padded copy, and their result is packed again.

`rule_name` is the rule of the operation of that name, which it gets before the arguments.
Everything else goes by the kind that the registry gives an operation.
"""

from __future__ import annotations

import math

import flambeau
from flambeau._operators._kinds import Kind, among, kind_of, replaced
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
    if kind.has("reshapes"):
        return _reshaped(func, *args, **kwargs)
    if kind.has("takes_jagged"):
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
    def values(tensor: Tensor) -> Tensor:
        if isinstance(tensor, NestedTensor):
            return tensor.values()
        return _fitted(tensor, like) if fit else tensor

    return replaced(value, flambeau.Tensor, values)


def _wrapped(result: Any, like: NestedTensor) -> Any:
    place, rows = like._ragged_idx - 1, like.values().shape[like._ragged_idx - 1]

    def over(tensor: Tensor) -> Tensor:
        fits = tensor.dim() > place and tensor.shape[place] == rows
        return like._like(tensor) if fits else tensor

    return replaced(result, flambeau.Tensor, over)


def _run(func: Any, args: Any, kwargs: Any, fit: bool) -> Any:
    like = _check_alike(func.__name__, among((*args, *kwargs.values()), NestedTensor))
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
    if getattr(getattr(func, "__self__", None), "__name__", "") in ("mT", "mH"):
        return _reshaped(func, self)
    result = func(self, *args)
    return _wrapped(result, self) if isinstance(result, flambeau.Tensor) else result


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


# Sizes that no dimension has but the batch and the ragged one of a probe.
_BATCH, _RAGGED = 7919, 7907


def _reshaped(func: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation on shapes, whose arguments count the batch as a dimension. Where the ragged one
    goes a tensor without values tells."""
    name = "slice" if func.__name__ == "__getitem__" else func.__name__
    like = _check_alike(name, among(args, NestedTensor))
    sizes = [_BATCH, *like.values().shape]
    sizes[like._ragged_idx] = _RAGGED
    probe = flambeau.empty(sizes, device="meta")
    found = func(*replaced(args, NestedTensor, lambda nt: probe), **kwargs)
    shape = list((found if isinstance(found, flambeau.Tensor) else found[0]).shape)
    if shape[:1] != [_BATCH]:
        error = ValueError if sorted(shape) == sorted(sizes) else RuntimeError
        raise error(f"{name}(): not supported for NestedTensor on dim=0")
    if shape.count(_RAGGED) != 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on the ragged dim")
    # Twice the values stand for a batch.
    pairs = replaced(args, NestedTensor, lambda nt: nt.values().expand(2, *nt.values().shape))
    ragged, result = shape.index(_RAGGED), func(*pairs, **kwargs)
    return replaced(result, flambeau.Tensor, lambda pair: like._like(pair[0], ragged))


rule_adjoint = rule_movedim = rule_moveaxis = rule_stack = _reshaped


def rule_permute(func: Any, nt: NestedTensor, *dims: Any) -> Any:
    first = dims[0][0] if isinstance(dims[0], (list, tuple)) else dims[0]
    if first % nt.dim() != 0:
        raise ValueError("permute(): not supported for NestedTensor when the batch moves")
    return _reshaped(func, nt, *dims)


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


def rule_flatten(func: Any, nt: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    end = end_dim % nt.dim()
    if start_dim % nt.dim() == 0 and nt._ragged_idx == 1 and nt._lengths is None:
        return nt.values() if end <= 1 else nt.values().flatten(0, end - 1)
    return _reshaped(func, nt, start_dim, end_dim)


def rule_squeeze(func: Any, nt: NestedTensor, dim: Any) -> Any:
    for each in [dim] if isinstance(dim, int) else dim:
        _plain_place("squeeze", nt, each)
    return _reshaped(func, nt, dim)


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
    if dim not in (0, -nt.dim()):
        return _reshaped(func, nt, chunks, dim)
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
    return _reshaped(func, nt, dim, index)


def rule_getitem(func: Any, nt: NestedTensor, index: Any) -> Any:
    first, *rest = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, (flambeau.Tensor, list)) for item in (first, *rest)):
        raise NotImplementedError("index: not implemented for nested tensors")
    if isinstance(first, int):
        return nt.unbind()[first][tuple(rest)]
    return _reshaped(func, nt, index)


def rule_cat(func: Any, tensors: Any, dim: int = 0) -> Any:
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    if dim % first.dim() != 0:
        return _reshaped(func, tensors, dim)
    from flambeau.nested import _pack

    return _pack([x for t in tensors for x in t.unbind()], first._ragged_idx)


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
