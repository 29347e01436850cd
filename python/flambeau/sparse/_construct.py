"""Making sparse tensors: from indices and values, and out of tensors of another layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from flambeau import _C

__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
    "to_sparse",
    "to_sparse_bsc",
    "to_sparse_bsr",
    "to_sparse_csc",
    "to_sparse_csr",
]

_ops: Any = _C
_BLOCKED = (_C.sparse_bsr, _C.sparse_bsc)
_BY_ROWS = (_C.sparse_csr, _C.sparse_bsr)


def _values_of(values: Any, dtype: Any, device: Any) -> Any:
    if not isinstance(values, _C.Tensor):
        return _ops.tensor(values, dtype=dtype, device=device)
    wanted = {"dtype": dtype, "device": device}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    return values.to(**wanted) if wanted else values


def _index_of(index: Any, device: Any) -> Any:
    if not isinstance(index, _C.Tensor):
        index = _ops.tensor(index)
    if index.dtype != _C.int32:
        index = index.long()
    return index.detach().to(device=device)


def _check_indices(indices: Any, size: tuple[int, ...]) -> None:
    if indices.numel() == 0 or indices.is_meta:
        return
    for d, (low, high) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist())):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if high >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                f"index {high}"
            )


def _checked_size(index: Any, stored: Any, size: Any) -> tuple[int, ...]:
    """The size, as large as the indices want it where none is given; raises if parts do not fit."""
    if index.dim() != 2:
        shown = ", ".join(map(str, index.shape))
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: [{shown}]")
    indexed, count = index.shape
    if count != stored.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, "
            f"nnz from values: {stored.shape[0]}"
        )
    if size is None:
        _check_indices(index, (2**62,) * indexed)
        largest = (index.amax(1) + 1).tolist() if count and indexed else [0] * indexed
        size = (*largest, *stored.shape[1:])
    size = tuple(int(length) for length in size)
    if len(size) != indexed + stored.dim() - 1:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {indexed}, dense_dim = {stored.dim() - 1}"
        )
    if size[indexed:] != tuple(stored.shape[1:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *size[indexed:]]}, got "
            f"{list(stored.shape)}"
        )
    _check_indices(index, size)
    return size


def _check_coalesced(indices: Any, size: tuple[int, ...]) -> None:
    place = _ops.zeros(indices.shape[1], dtype=_C.int64, device=indices.device)
    for length, index in zip(size, indices):
        place = place * length + index
    if place.numel() > 1 and not bool((place[1:] > place[:-1]).all()):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )


def empty_coo(size: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor by coordinates of which nothing is stored."""
    kind = _ops.get_default_dtype() if dtype is None else dtype
    stored = _ops.empty(0, dtype=kind, device=device)
    index = _ops.empty((len(size), 0), dtype=_C.int64, device=device)
    return _ops._sparse_coo(index, stored, tuple(size), True)


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    layout: Any = None,
) -> Any:
    """A tensor with ``values`` at the columns of ``indices``, and zero elsewhere."""
    if values is None:
        # Only a size: nothing is stored.
        size = tuple(indices if size is None else size)
        return empty_coo(size, dtype, device).requires_grad_(requires_grad)
    stored = _values_of(values, dtype, device)
    index = _index_of(indices, stored.device).long()
    if index.dim() == 1 and index.numel() == 0:
        index = index.reshape(1, 0)
    if stored.dim() == 0:
        stored = stored.reshape(1)
    size = _checked_size(index, stored, size)
    if is_coalesced:
        _check_coalesced(index, size)
    if requires_grad:
        stored = stored.detach()
    result = _ops._sparse_coo(index, stored, size, bool(is_coalesced))
    return result.requires_grad_() if requires_grad else result


def _demand(holds: Any, rule: str) -> None:
    if not holds.is_meta and not bool(holds.all()):
        raise RuntimeError(f"`{rule}` is not satisfied.")


def _ascend_within(starts: Any, plain: Any) -> Any:
    """Of each index but the first, whether it is above the last one or begins a row."""
    count = plain.shape[-1]
    begins = _ops.zeros((*plain.shape[:-1], count + 1), dtype=_C.bool, device=plain.device)
    begins = begins.scatter(-1, starts.long(), True)
    return (plain[..., 1:] > plain[..., :-1]) | begins[..., 1:count]


def _check_compressed(
    starts: Any, plain: Any, size: tuple[int, ...], by: str, strict: bool
) -> None:
    """Raises unless the indices of a compressed tensor fit together and into its size; strictly,
    unless those of a row are also sorted and distinct."""
    count, length = size if by == "row" else size[::-1]
    other = "col" if by == "row" else "row"
    name = f"c{by}_indices"
    if starts.shape[-1] != count + 1:
        raise RuntimeError(
            f"{name}.shape[-1] must be equal to the number of {by}s + 1 (={count + 1}), but got "
            f"{starts.shape[-1]}"
        )
    _demand(starts[..., 0] == 0, f"{name}[..., 0] == 0")
    _demand(starts[..., -1] == plain.shape[-1], f"{name}[..., -1] == nnz")
    each = starts.diff(dim=-1)
    _demand(each >= 0, f"0 <= {name}[..., 1:] - {name}[..., :-1] <= n{other}s")
    _demand((plain >= 0) & (plain < length), f"0 <= {other}_indices < n{other}s")
    if strict:
        _demand(
            _ascend_within(starts, plain),
            f"{other}_indices[..., {name}[..., i - 1]:{name}[..., i]] for all i = 1, ..., n{by}s "
            "are sorted and distinct along the last dimension values",
        )


def _check_shapes(starts: Any, plain: Any, stored: Any, layout: Any) -> None:
    """Raises unless batches of indices and values have the same shape and number."""
    batch, inner = starts.dim() - 1, 3 if layout in _BLOCKED else 1
    fits = starts.dim() == plain.dim() >= 1 and stored.dim() >= batch + inner
    if not fits or starts.shape[-1] == 0 or starts.shape[:-1] != plain.shape[:-1]:
        raise RuntimeError(
            f"sparse tensor of layout {layout}: compressed_indices of shape {tuple(starts.shape)}, "
            f"plain_indices of shape {tuple(plain.shape)} and values of shape "
            f"{tuple(stored.shape)} do not fit together"
        )
    if plain.shape != stored.shape[: batch + 1]:
        names = ("col", "row") if layout in _BY_ROWS else ("row", "col")
        raise RuntimeError(
            f"number of elements in {names[0]}_indices and values must be the same, but got "
            f"{tuple(plain.shape)} and {tuple(stored.shape[: batch + 1])}"
        )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A matrix by compressed rows or columns: the elements of the k-th stand from
    ``compressed_indices[k]`` to ``compressed_indices[k + 1]``."""
    if layout is None or layout in (_C.strided, _C.sparse_coo):
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}"
        )
    stored = _values_of(values, dtype, device)
    starts = _index_of(compressed_indices, stored.device)
    plain = _index_of(plain_indices, stored.device)
    _check_shapes(starts, plain, stored, layout)
    by, batch = "row" if layout in _BY_ROWS else "col", tuple(starts.shape[:-1])
    rest = tuple(stored.shape[len(batch) + 1 :])
    (height, width), dense = (rest[:2], rest[2:]) if layout in _BLOCKED else ((1, 1), rest)
    if size is None:
        counts = (starts.shape[-1] - 1, int(plain.max()) + 1 if plain.numel() else 0)
        counts = counts if by == "row" else counts[::-1]
        size = (*batch, counts[0] * height, counts[1] * width, *dense)
    size = tuple(int(length) for length in size)
    rows, columns = size[len(batch) : len(batch) + 2] if len(size) >= len(batch) + 2 else (-1, -1)
    if size != (*batch, rows, columns, *dense) or rows % height or columns % width:
        raise RuntimeError(f"values of shape {tuple(stored.shape)} do not fit into size {size}")
    if check_invariants is None:
        from flambeau.sparse import check_sparse_tensor_invariants

        check_invariants = check_sparse_tensor_invariants.is_enabled()
    _check_compressed(starts, plain, (rows // height, columns // width), by, check_invariants)
    if requires_grad:
        stored = stored.detach()
    result = _ops._sparse_compressed(starts, plain, stored, size, layout)
    return result.requires_grad_() if requires_grad else result


def _validate_sparse_coo_tensor_args(
    indices: Any, values: Any, size: Any, is_coalesced: bool | None = None
) -> None:
    """Raises unless a tensor by coordinates can be made of these parts."""
    sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any, layout: Any
) -> None:
    """Raises unless a compressed tensor can be made of these parts."""
    sparse_compressed_tensor(compressed_indices, plain_indices, values, size, layout=layout)


def _compressed_maker(layout: Any, starts: str, plain: str) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        for given, general in ((starts, "compressed_indices"), (plain, "plain_indices")):
            if given in kwargs:
                kwargs[general] = kwargs.pop(given)
        return sparse_compressed_tensor(*args, **{**kwargs, "layout": layout})

    make.__name__ = make.__qualname__ = str(layout).removeprefix("torch.") + "_tensor"
    make.__doc__ = f"A matrix in layout {layout} of {starts}, {plain} and values."
    return make


sparse_csr_tensor = _compressed_maker(_C.sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = _compressed_maker(_C.sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = _compressed_maker(_C.sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = _compressed_maker(_C.sparse_bsc, "ccol_indices", "row_indices")


def _dense_to_coo(self: Any, sparse_dim: int | None) -> Any:
    indexed = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= indexed <= self.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.dim()}] range, but "
            f"{indexed} is given"
        )
    if indexed == 0 and self.dim() > 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    stored = self.detach() != 0
    if indexed < self.dim():
        stored = stored.flatten(indexed).any(-1)
    indices = stored.nonzero().t().contiguous()
    # A single element is copied as well: what is stored is apart from what it came from.
    values = self[tuple(indices)] if indexed else self.reshape(1)[: indices.shape[1]].clone()
    return _ops._sparse_coo(indices, values, self.shape, True)


def to_sparse(
    self: Any,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """The elements that are not zero, by coordinates or in another sparse layout."""
    if isinstance(sparse_dim, type(_C.strided)):
        sparse_dim, layout = None, sparse_dim
    if layout is None or layout is _C.sparse_coo:
        if blocksize is not None:
            _block_of(blocksize, "dense_to_sparse")
            raise RuntimeError(
                "dense_to_sparse: conversion to Sparse with blocksize argument given is not "
                "supported"
            )
        if self.layout is _C.strided:
            return _dense_to_coo(self, sparse_dim)
        if sparse_dim is not None and sparse_dim != self.sparse_dim():
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return _ops._sparse_to_coo(self)
    if layout is _C.strided:
        return self.to_dense()
    if layout in _BLOCKED:
        return _to_blocks(self, blocksize, layout, dense_dim or 0)
    if self.layout is layout:
        return self
    if self.dim() < 2:
        raise RuntimeError(
            f"to_sparse: a tensor of {self.dim()} dimensions cannot be converted to {layout}"
        )
    if self.layout is not _C.strided:
        if batch_rank(self) > 0:
            return map_matrices(self, lambda x: _ops._sparse_compress(x, layout))
        return _ops._sparse_compress(self, layout)
    if self.dim() - (dense_dim or 0) > 2:
        return _compressed_batches(self, layout, dense_dim or 0)
    return _ops._sparse_compress(_dense_to_coo(self, 2), layout)


def _compressed_batches(self: Any, layout: Any, dense_dim: int) -> Any:
    """Matrices of which each stores equally many elements, as one tensor."""
    inner = self.shape[self.dim() - dense_dim - 2 :]
    batch = self.shape[: self.dim() - dense_dim - 2]
    matrices = self.reshape(math.prod(batch), *inner)
    return _batch_of([_ops._sparse_compress(_dense_to_coo(x, 2), layout) for x in matrices], batch)


def _batch_of(matrices: list[Any], batch: Any) -> Any:
    """Compressed matrices as one tensor with the dimensions of ``batch`` in front."""
    if not matrices:
        raise RuntimeError("to_sparse: Expected product of batch dimensions to be non-zero.")
    if len({x._nnz() for x in matrices}) != 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    starts, plain = zip(*(parts(x)[:2] for x in matrices))
    values = [x.values() for x in matrices]
    stacked = [_ops.stack(list(items)) for items in (starts, plain, values)]
    shaped = [x.reshape(*batch, *x.shape[1:]) for x in stacked]
    size = (*batch, *matrices[0].shape)
    return _ops._sparse_compressed(*shaped, size, matrices[0].layout)


def index_dtype(self: Any) -> Any:
    """The dtype of the indices: int64 unless a compressed tensor was made with int32."""
    return _C.int64 if self.layout in (_C.strided, _C.sparse_coo) else parts(self)[0].dtype


def batch_rank(self: Any) -> int:
    """How many dimensions stand before the matrices of a tensor; those by coordinates have none."""
    return 0 if self.is_sparse else parts(self)[0].dim() - 1


def map_matrices(self: Any, change: Callable[[Any], Any]) -> Any:
    """A batch of compressed matrices, each of them changed."""
    starts, plain, _, size = parts(self)
    rank = starts.dim() - 1
    count = math.prod(size[:rank])
    flat = [x.reshape(count, *x.shape[rank:]) for x in (starts, plain, self.values())]
    inner, layout = size[rank:], self.layout
    single = [change(_ops._sparse_compressed(*three, inner, layout)) for three in zip(*flat)]
    return _batch_of(single, size[:rank])


def _to_blocks(self: Any, blocksize: Any, layout: Any, dense_dim: int) -> Any:
    """Blocks that are not zero as a whole, by compressed rows or columns of blocks."""
    kind = str(layout).removeprefix("torch.sparse_")
    if blocksize is None:
        raise RuntimeError(
            f"dense_to_sparse: conversion from Strided to Sparse{kind.capitalize()} without "
            "blocksize argument given is not supported"
        )
    height, width = _block_of(blocksize, f"dense_to_sparse_{kind}")
    dense = self.to_dense()
    first = dense.dim() - dense_dim - 2
    if first < 0:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dense.dim()}, "
            f"{dense.dim() - 1}], but got {-dense_dim - 2})"
        )
    batch, (rows, columns) = dense.shape[:first], dense.shape[first : first + 2]
    if height <= 0 or width <= 0 or rows % height or columns % width:
        raise RuntimeError(
            f"dense_to_sparse_{kind}: tensor sparse size ({rows},{columns}) must be divisible by "
            f"given blocksize ({height},{width})"
        )
    grid = (rows // height, height, columns // width, width, *dense.shape[first + 2 :])
    outer = _C.sparse_csr if layout in _BY_ROWS else _C.sparse_csc
    index = index_dtype(self)
    matrices = []
    for blocks in dense.reshape(math.prod(batch), *grid):
        pattern = _ops._sparse_compress(_dense_to_coo(blocks.transpose(1, 2), 2), outer)
        starts, plain = (x.to(index) for x in parts(pattern)[:2])
        size = self.shape[first:]
        matrices.append(_ops._sparse_compressed(starts, plain, pattern.values(), size, layout))
    return _batch_of(matrices, batch)


def _block_of(blocksize: Any, name: str) -> tuple[int, int]:
    if isinstance(blocksize, int):
        return blocksize, blocksize
    if len(blocksize) != 2:
        raise RuntimeError(
            f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
        )
    return blocksize[0], blocksize[1]


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    """The elements that are not zero, by compressed rows."""
    return to_sparse(self, layout=_C.sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Any:
    """The elements that are not zero, by compressed columns."""
    return to_sparse(self, layout=_C.sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks that are not zero, by compressed rows of blocks."""
    return to_sparse(self, layout=_C.sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks that are not zero, by compressed columns of blocks."""
    return to_sparse(self, layout=_C.sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def _blocks_at(self: Any, mask: Any) -> Any:
    """The blocks of a tensor at the indices of those that another stores."""
    starts, plain, blocks, size = parts(mask)
    batch = starts.dim() - 1
    height, width = blocks.shape[batch + 1 : batch + 3]
    count = math.prod(size[:batch])
    rows, columns = size[batch] // height, size[batch + 1] // width
    grid = self.to_dense().reshape(count, rows, height, columns, width, *size[batch + 2 :])
    by_rows = mask.layout in _BY_ROWS
    stored = []
    for image, start, place in zip(
        grid.transpose(2, 3),
        starts.reshape(count, -1),
        plain.reshape(count, plain.shape[-1]),
    ):
        outer = _ops.repeat_interleave((start[1:] - start[:-1]).long())
        stored.append(image[outer, place.long()] if by_rows else image[place.long(), outer])
    values = _ops.stack(stored).reshape(blocks.shape) if stored else blocks.to(self.dtype)
    return _ops._sparse_compressed(starts, plain, values, size, mask.layout)


def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements of a tensor at the indices of a sparse one."""
    if self is mask and mask.layout is not _C.strided:
        return self
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.shape)} but mask has size {list(mask.shape)}"
        )
    if mask.layout is _C.strided:
        raise RuntimeError("sparse_mask(): mask must be sparse, but got layout torch.strided")
    if mask.layout in _BLOCKED:
        return _blocks_at(self, mask)
    pattern = _ops._sparse_to_coo(mask.detach())
    values = _ops._sparse_values_at(self, pattern._indices())
    result = _ops._sparse_coo(pattern._indices(), values, self.shape, pattern.is_coalesced())
    if mask.is_sparse:
        return result
    index = _C.int64 if self.layout is _C.strided else index_dtype(mask)
    return _ops._sparse_compress(result, mask.layout, index)


# What was rebuilt before its numbers were read, and is yet to be checked.
_unchecked: ContextVar[list[tuple[Any, tuple[Any, ...]]] | None] = ContextVar(
    "_unchecked", default=None
)


@contextmanager
def checked_at_the_end() -> Iterator[None]:
    """Lets `rebuild` take tensors whose numbers come later, and checks them when they have."""
    later: list[tuple[Any, tuple[Any, ...]]] = []
    token = _unchecked.set(later)
    try:
        yield
    finally:
        _unchecked.reset(token)
    for layout, data in later:
        rebuild(layout, data)


def rebuild(layout: Any, data: tuple[Any, ...]) -> Any:
    """A sparse tensor out of what a file holds of it."""
    coo = layout is _C.sparse_coo
    later = _unchecked.get()
    if later is not None:
        later.append((layout, data))
        if not coo:
            return _ops._sparse_compressed(*data, layout)
        indices, values, size, *rest = data
        return _ops._sparse_coo(indices, values, size, bool(rest and rest[0]))
    if coo:
        indices, values, size, *rest = data
        coalesced = bool(rest and rest[0])
        return sparse_coo_tensor(indices, values, size, is_coalesced=coalesced)
    starts, plain, values, size = data
    return sparse_compressed_tensor(starts, plain, values, size, layout=layout)


def parts(self: Any) -> tuple[Any, ...]:
    """What `rebuild` makes this tensor of again."""
    if self.is_sparse:
        return self._indices(), self._values(), self.size(), self.is_coalesced()
    if self.layout in _BY_ROWS:
        return self.crow_indices(), self.col_indices(), self._values(), self.size()
    return self.ccol_indices(), self.row_indices(), self._values(), self.size()
