"""Sparse tensors rearranged: transposed, cut, joined, resized, and new ones like them."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau.sparse import _construct
from flambeau.sparse._table import (
    compressed,
    coo,
    indices_of,
    is_compressed,
    is_coo,
    refuse,
    values_of,
    with_values,
    wrapped_dim,
)

_ops: Any = _C


# --- Indices -----------------------------------------------------------------------------------


@compressed
def rule_transpose(x: Any, dim0: int, dim1: int) -> Any:
    batch = _construct.batch_rank(x)
    if batch and {wrapped_dim(dim0, x.dim()), wrapped_dim(dim1, x.dim())} == {batch, batch + 1}:
        return _construct.map_matrices(x, lambda matrix: _ops._sparse_transpose(matrix, 0, 1))
    return _ops._sparse_transpose(x, dim0, dim1)


@compressed
def rule_t(x: Any) -> Any:
    if x.sparse_dim() > 2 or x.dense_dim() > 0:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{x.sparse_dim()} sparse and {x.dense_dim()} dense dimensions"
        )
    return x if x.dim() < 2 else _ops._sparse_transpose(x, 0, 1)


@compressed
def rule_T(x: Any) -> Any:
    if x.dim() == 2:
        return _ops._sparse_transpose(x, 0, 1)
    return x if x.dim() < 2 else rule_permute(x, *range(x.dim())[::-1])


@compressed
def rule_mT(x: Any) -> Any:
    return x if x.dim() < 2 else _ops._sparse_transpose(x, -2, -1)


@compressed
def rule_mH(x: Any) -> Any:
    return rule_mT(x).conj()


rule_adjoint = rule_mH


def rule_dstack(tensors: Any) -> Any:
    return rule_cat(rule_atleast_3d(tensors), 2)


@compressed
def rule_H(x: Any) -> Any:
    return rule_T(x).conj()


def rule_real(x: Any) -> Any:
    return with_values(x, _ops.real(values_of(x))) if x.is_complex() else x


def rule_atleast_3d(*tensors: Any) -> Any:
    """With a dimension in front and one behind, for as many as are missing."""
    return _each_of(tensors, lambda x: x if x.dim() > 2 else _unsqueezed(_at_least(x, 2), -1))


def rule_atleast_2d(*tensors: Any) -> Any:
    return _each_of(tensors, lambda x: _at_least(x, 2))


def rule_atleast_1d(*tensors: Any) -> Any:
    return _each_of(tensors, lambda x: _at_least(x, 1))


def _each_of(tensors: Any, change: Any) -> Any:
    given = tensors[0] if isinstance(tensors[0], (tuple, list)) else tensors
    made = tuple(map(change, given))
    return made if given is not tensors or len(made) > 1 else made[0]


def _unsqueezed(x: Any, dim: int) -> Any:
    return rule_unsqueeze(x, dim) if is_coo(x) else x.unsqueeze(dim)


def _at_least(x: Any, rank: int) -> Any:
    return _at_least(_unsqueezed(x, 0), rank) if x.dim() < rank else x


def rule_broadcast_tensors(*tensors: Any) -> Any:
    if any(x.shape != tensors[0].shape and is_coo(x) for x in tensors):
        raise RuntimeError("expand is unsupported for Sparse tensors")
    size = next(x.shape for x in tensors if is_coo(x))
    return tuple(x if is_coo(x) else x.expand(size) for x in tensors)


@compressed
def rule_view_as_real(x: Any) -> Any:
    if is_compressed(x):
        return refuse("view_as_real", (x,), {})
    if not x.is_complex():
        raise RuntimeError(f"view_as_real: expected a complex sparse tensor, but got {x.dtype}")
    values = _ops.view_as_real(values_of(x))
    return coo(indices_of(x), values, (*x.shape, 2), x.is_coalesced())


@compressed
def rule_view_as_complex(x: Any) -> Any:
    if is_compressed(x):
        return refuse("view_as_complex", (x,), {})
    if x.dense_dim() == 0 or x.shape[-1] != 2:
        raise RuntimeError(
            "view_as_complex: expected a sparse tensor whose last dimension is dense and of size "
            f"2, but got shape {tuple(x.shape)} with {x.dense_dim()} dense dimensions"
        )
    values = _ops.view_as_complex(values_of(x))
    return coo(indices_of(x), values, x.shape[:-1], x.is_coalesced())


def rule_movedim(x: Any, source: Any, destination: Any) -> Any:
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    sources = [wrapped_dim(d, x.dim()) for d in sources]
    targets = [wrapped_dim(d, x.dim()) for d in targets]
    if not len(sources) == len(targets) == len(set(sources)) == len(set(targets)):
        raise RuntimeError(
            f"movedim: expected as many source dims as destination dims, each once, but got "
            f"{sources} and {targets}"
        )
    order: list[Any] = [None] * x.dim()
    for at, d in zip(targets, sources):
        order[at] = d
    left = (d for d in range(x.dim()) if d not in sources)
    return rule_permute(x, [next(left) if d is None else d for d in order])


def rule_transpose_(x: Any, dim0: int = 0, dim1: int = 1) -> Any:
    return _ops._sparse_become_(x, rule_transpose(x, dim0, dim1))


rule_t_ = rule_transpose_


def rule_permute(x: Any, *order_: Any, dims: Any = None) -> Any:
    dims = order_ if dims is None else (dims,)
    order = list(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else list(dims)
    if len(order) != x.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {x.dim()} is not "
            f"equal to len(dims) = {len(order)}"
        )
    order = [wrapped_dim(d, x.dim()) for d in order]
    indexed = x.sparse_dim()
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if sorted(order[:indexed]) != list(range(indexed)):
        raise RuntimeError(
            "permute: expected no sparse dimension in the place of a dense one, "
            f"but got {order} for {indexed} sparse and {x.dense_dim()} dense dimensions"
        )
    values = values_of(x).permute(0, *[d - indexed + 1 for d in order[indexed:]])
    size = [x.shape[d] for d in order]
    ordered = x.is_coalesced() and order[:indexed] == list(range(indexed))
    return coo(indices_of(x)[order[:indexed]], values, size, ordered)


def rule_unsqueeze(x: Any, dim: int) -> Any:
    dim = wrapped_dim(dim, x.dim() + 1)
    size = [*x.shape[:dim], 1, *x.shape[dim:]]
    indexed = x.sparse_dim()
    if dim > indexed:
        values = values_of(x).unsqueeze(dim - indexed + 1)
        return coo(indices_of(x), values, size)
    indices = indices_of(x)
    row = indices.new_zeros(1, indices.size(1))
    return coo(_ops.cat([indices[:dim], row, indices[dim:]]), values_of(x), size)


def select(x: Any, dim: int, index: int) -> Any:
    """One of the slices along a dimension."""
    dim = wrapped_dim(dim, x.dim())
    length = x.shape[dim]
    if not -length <= index < length:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{dim}"
        )
    index %= length
    indexed = x.sparse_dim()
    size = [*x.shape[:dim], *x.shape[dim + 1 :]]
    if dim >= indexed:
        values = values_of(x).select(dim - indexed + 1, index)
        return coo(indices_of(x), values, size)
    here = (indices_of(x)[dim] == index).nonzero().squeeze(1)
    if indexed == 1:
        return values_of(x)[here].sum(0).to(x.dtype)
    kept = [d for d in range(indexed) if d != dim]
    return coo(indices_of(x)[kept][:, here], values_of(x)[here], size)


@compressed
def rule_select(x: Any, dim: int, index: int) -> Any:
    """One of the slices along a dimension: of a batch of matrices a smaller batch, of a matrix a
    row or a column by coordinates."""
    if x.is_sparse:
        return select(x, dim, index)
    starts, plain, _, size = _construct.parts(x)
    batch, dim = starts.dim() - 1, wrapped_dim(dim, x.dim())
    if not -size[dim] <= index < size[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(size)} at dimension "
            f"{dim}"
        )
    if dim < batch:
        inner = [part.select(dim, index) for part in (starts, plain, x.values())]
        return _ops._sparse_compressed(*inner, (*size[:dim], *size[dim + 1 :]), x.layout)
    if batch:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed "
            "tensors."
        )
    return select(_ops._sparse_to_coo(x), dim, index).coalesce()


@compressed
def rule_select_copy(x: Any, dim: int, index: int) -> Any:
    return rule_select(x, dim, index)


@compressed
def rule___getitem__(x: Any, key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    dim = 0
    for item in keys:
        if isinstance(item, int) and not isinstance(item, bool):
            if not -x.shape[dim] <= item < x.shape[dim]:
                raise IndexError(
                    f"index {item} is out of bounds for dimension {dim} with size {x.shape[dim]}"
                )
            x = x.select(dim, item)
        elif item is None and not is_compressed(x):
            x = x.unsqueeze(dim)
            dim += 1
        elif item == slice(None) and len(keys) > 1:
            dim += 1
        else:
            refuse("index.Tensor" if isinstance(item, _C.Tensor) else "as_strided", (x,), {})
    return x


def rule_index_select(x: Any, dim: int, index: Any) -> Any:
    dim = wrapped_dim(dim, x.dim())
    size = list(x.shape)
    size[dim] = index.numel()
    if dim >= x.sparse_dim():
        values = values_of(x).index_select(dim - x.sparse_dim() + 1, index)
        return coo(indices_of(x), values, size)
    length = x.shape[dim]
    if index.numel() and not -length <= int(index.min()) <= int(index.max()) < length:
        raise IndexError(f"index_select(): index out of range for size {length}")
    index = index.remainder(max(length, 1))
    starts, order = _ops._group_by_index(indices_of(x)[dim], x.shape[dim])
    counts = (starts[1:] - starts[:-1])[index]
    to = _ops.repeat_interleave(counts)
    before = _ops.cumsum(counts, 0) - counts
    at = starts[index][to] + _ops.arange(to.numel(), device=to.device) - before[to]
    chosen = order[at]
    indices = indices_of(x)[:, chosen]
    indices[dim] = to
    return coo(indices, values_of(x)[chosen], size)


def rule_narrow_copy(x: Any, dim: int, start: int, length: int) -> Any:
    if not 0 <= dim < x.dim():
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {x.dim()}.")
    start += x.shape[dim] if start < 0 else 0
    if not (start >= 0 and length >= 0 and start + length <= x.shape[dim]):
        raise RuntimeError(
            f"narrow_copy: start ({start}) + length ({length}) exceeds dimension size "
            f"({x.shape[dim]})"
        )
    size = list(x.shape)
    size[dim] = length
    if dim >= x.sparse_dim():
        values = values_of(x).narrow(dim - x.sparse_dim() + 1, start, length)
        return coo(indices_of(x), values.clone(), size, x.is_coalesced())
    row = indices_of(x)[dim]
    here = ((row >= start) & (row < start + length)).nonzero().squeeze(1)
    indices = indices_of(x)[:, here]
    indices[dim] -= start
    return coo(indices, values_of(x)[here], size, x.is_coalesced())


def rule_cat(tensors: Any, dim: int = 0) -> Any:
    first = tensors[0]
    for at, x in enumerate(tensors):
        if not is_coo(x):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {at}."
            )
    dim, indexed = wrapped_dim(dim, first.dim()), first.sparse_dim()
    for at, x in enumerate(tensors):
        if x.sparse_dim() != indexed or any(
            x.shape[d] != first.shape[d] for d in range(first.dim()) if d != dim
        ):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the "
                f"concatenating dimension), but found shape: {list(x.shape)} at position {at}."
            )
    size = list(first.shape)
    size[dim] = sum(x.shape[dim] for x in tensors)
    parts, values, offset = [], [], 0
    for x in tensors:
        moved = indices_of(x).clone()
        stored = values_of(x)
        if dim < indexed:
            moved[dim] += offset
        else:
            at = dim - indexed + 1
            before = [*stored.shape[:at], offset, *stored.shape[at + 1 :]]
            after = [*stored.shape[:at], size[dim] - offset - x.shape[dim], *stored.shape[at + 1 :]]
            stored = _ops.cat([stored.new_zeros(before), stored, stored.new_zeros(after)], at)
        offset += x.shape[dim]
        parts.append(moved)
        values.append(stored)
    return coo(_ops.cat(parts, 1), _ops.cat(values), size)


def rule_vstack(tensors: Any) -> Any:
    return rule_cat([rule_unsqueeze(x, 0) if x.dim() == 1 else x for x in tensors], 0)


def rule_hstack(tensors: Any) -> Any:
    return rule_cat(tensors, 0 if tensors[0].dim() == 1 else 1)


rule_column_stack = rule_hstack


def rule_unbind(x: Any, dim: int = 0) -> Any:
    count, most = x.shape[wrapped_dim(dim, x.dim())], 1 << 26  # as for dense tensors
    if count > most:
        raise RuntimeError(f"unbind: cannot create {count} tensors, the most is {most}")
    return tuple(select(x, dim, k) for k in range(count))


def rule_reshape(x: Any, *size: Any, **kwargs: Any) -> Any:
    raise RuntimeError("reshape is not implemented for sparse tensors")


rule_flatten = rule_reshape_as = rule_reshape


@compressed
def rule_expand(x: Any, *size: Any, **kwargs: Any) -> Any:
    raise RuntimeError("expand is unsupported for Sparse tensors")


rule_expand_as = rule_broadcast_to = rule_repeat = rule_expand


@compressed
def rule_contiguous(x: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("unsupported memory format option Contiguous")


def rule_stack(tensors: Any, dim: int = 0) -> Any:
    return rule_cat([rule_unsqueeze(x, dim) for x in tensors], dim)


# --- New tensors --------------------------------------------------------------------------------


@compressed
def rule_empty_like(x: Any, **kwargs: Any) -> Any:
    layout = kwargs.get("layout") or x.layout
    if not x.is_sparse and layout is not x.layout:
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is {x.layout} but you "
            f"requested {layout})"
        )
    if not x.is_sparse and layout is x.layout:
        options = {name: kwargs.get(name) for name in ("dtype", "device") if kwargs.get(name)}
        result = with_values(x.detach().clone(), _ops.empty_like(x._values(), **options))
        return result.requires_grad_(bool(kwargs.get("requires_grad")))
    return rule_zeros_like(x, **kwargs)


@compressed
def rule_zeros_like(x: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    layout = kwargs.get("layout") or x.layout
    if layout is not x.layout and layout in (_C.sparse_bsr, _C.sparse_bsc):
        raise RuntimeError(
            f"zeros_like: blocks of {layout} have no size that a tensor of {x.layout} could tell"
        )
    options = {"dtype": dtype or x.dtype, "device": device or x.device}
    given = kwargs.get("memory_format")
    if layout is _C.strided:
        given = None if given is _C.preserve_format else given
        return _ops.empty(x.shape, memory_format=given, **options).zero_()
    if given not in (None, _C.preserve_format):
        raise RuntimeError("memory format option is only supported by strided tensors")
    indexed = x.dim() - x.dense_dim()
    if not x.is_sparse and layout is x.layout:
        starts, plain, values, size = _construct.parts(x)
        batch = starts.shape[:-1]
        starts = _ops.zeros_like(starts, device=options["device"])
        plain = starts.new_empty((*batch, 0))
        values = values.new_empty((*batch, 0, *values.shape[len(batch) + 1 :]), **options)
        result = _ops._sparse_compressed(starts, plain, values, size, layout)
    else:
        indices = _ops.empty((indexed, 0), dtype=_C.int64, device=options["device"])
        values = _ops.empty((0, *x.shape[indexed:]), **options)
        result = coo(indices, values, x.shape, True).to_sparse(layout=layout)
    return result.requires_grad_(bool(kwargs.get("requires_grad")))


def _stored_like(name: str) -> Any:
    """New numbers at the indices of a compressed tensor; by coordinates there is no such thing."""

    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        layout = kwargs.pop("layout", None) or x.layout
        if layout is _C.strided:
            options = {"dtype": x.dtype, "device": x.device} | kwargs
            return getattr(_ops, name)(_ops.empty(x.shape, **options), *args)
        if x.is_sparse or layout is not x.layout:
            return refuse(name, (x,), kwargs)
        values = getattr(_ops, name)(x._values(), *args, **kwargs)
        return with_values(x.detach(), values)

    return function


rule_ones_like = compressed(_stored_like("ones_like"))
rule_full_like = compressed(_stored_like("full_like"))
rule_randn_like = compressed(_stored_like("randn_like"))


def rule_new_zeros(x: Any, *size: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _construct.empty_coo(tuple(shape), dtype or x.dtype, device or x.device)


rule_new_empty = rule_new_zeros


def rule_sparse_resize_(x: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    size = tuple(size)
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    same = sparse_dim == x.sparse_dim() and dense_dim == x.dense_dim()
    if x._nnz() and not (same and all(new >= old for new, old in zip(size, x.shape))):
        raise RuntimeError(
            f"sparse_resize_: a tensor of size {list(x.shape)} that stores elements can only grow, "
            f"with the same numbers of dimensions, but got size {list(size)}, sparse_dim "
            f"{sparse_dim}, dense_dim {dense_dim}"
        )
    if size[sparse_dim:] != tuple(x.shape[x.sparse_dim() :]) and x._nnz():
        # Numbers keep their positions in memory, as in resize_ of a dense tensor.
        old = x._values().reshape(-1)
        values = old.new_zeros(x._nnz(), *size[sparse_dim:])
        values.view(-1)[: old.numel()] = old
        return _ops._sparse_become_(x, coo(x._indices(), values, size, x.is_coalesced()))
    if not x._nnz():
        return rule_sparse_resize_and_clear_(x, size, sparse_dim, dense_dim)
    return _ops._sparse_become_(x, coo(x._indices(), x._values(), size, x.is_coalesced()))


@compressed
def rule_resize_as_sparse_(x: Any, other: Any) -> Any:
    """The size and the indices of another tensor; values that are new are zero."""
    if x.layout is not other.layout:
        raise RuntimeError(
            f"resize_as_sparse_: self and other must have the same layout, but got {x.layout} and "
            f"{other.layout}"
        )
    if x.is_sparse:
        return rule_sparse_resize_(x, other.shape, other.sparse_dim(), other.dense_dim())
    values = _ops.zeros_like(other._values(), dtype=x.dtype)
    return _ops._sparse_become_(x, with_values(other.detach(), values))


def rule_resize_as_(x: Any, other: Any, *, memory_format: Any = None) -> Any:
    return rule_sparse_resize_(x, other.shape, other.sparse_dim(), other.dense_dim())


def rule_sparse_resize_and_clear_(x: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    indices = x._indices().new_empty((sparse_dim, 0))
    values = x._values().new_empty((0, *tuple(size)[sparse_dim:]))
    return _ops._sparse_become_(x, coo(indices, values, size))


@compressed
def rule_resize_(x: Any, *size: Any, memory_format: Any = None) -> Any:
    """Another size for a compressed matrix: rows that are new store nothing, and what stood in rows
    that are gone goes to the last, as far as there is memory."""
    if x.is_sparse:
        return refuse("resize_", (x,), {})
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if len(size) != 2 or x.dim() != 2 or x.layout not in (_C.sparse_csr, _C.sparse_csc):
        raise RuntimeError(
            "torch.resize_: Only batched sparse CSR matrices are supported, here single ones and "
            f"those of CSC, but got size {list(size)} for {x.layout} of size {list(x.shape)}"
        )
    starts, plain, values, old = _construct.parts(x)
    along = 0 if x.layout is _C.sparse_csr else 1
    if size[1 - along] < old[1 - along]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not "
            f"supported. The original number of columns is {old[1 - along]} while the requested "
            f"new number of columns is {size[1 - along]}."
        )
    count, kept = min(plain.numel(), size[0] * size[1]), min(size[along], old[along])
    moved = starts.new_full((size[along] + 1,), count)
    moved[:kept] = starts[:kept].clamp(max=count)
    plain, values = plain[:count], values[:count]
    return _ops._sparse_become_(x, _ops._sparse_compressed(moved, plain, values, size, x.layout))


@compressed
def rule_zeros_out(
    *size: Any, out: Any, dtype: Any = None, layout: Any = None, **kwargs: Any
) -> Any:
    """Nothing stored in a tensor that is given."""
    if dtype not in (None, out.dtype) or layout not in (None, out.layout):
        raise RuntimeError(
            f"zeros: dtype {dtype or out.dtype} and layout {layout or out.layout} do not match "
            f"those of the out parameter ({out.dtype}, {out.layout})"
        )
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    empty = _construct.empty_coo(shape, out.dtype, out.device)
    if not out.is_sparse:
        empty = empty.to_sparse(layout=out.layout)
    return _ops._sparse_become_(out, empty).requires_grad_(bool(kwargs.get("requires_grad")))


rule_empty_out = rule_zeros_out
