"""Making sparse tensors: from indices and values, and out of dense tensors."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau.sparse._layouts import CooTensor, CsrTensor

__all__ = ["sparse_coo_tensor", "sparse_csr_tensor", "sparse_mask", "to_sparse", "to_sparse_csr"]

_ops: Any = _C


def _values_of(values: Any, dtype: Any, device: Any) -> Any:
    if not isinstance(values, _C.Tensor):
        return _ops.tensor(values, dtype=dtype, device=device)
    wanted = {"dtype": dtype, "device": device}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    return values.to(**wanted) if wanted else values


def _index_of(index: Any, device: Any) -> Any:
    if not isinstance(index, _C.Tensor):
        index = _ops.tensor(index)
    if index.numel() == 0:
        index = index.long()
    return index.detach().to(device=device, dtype=_C.int64)


def _check_indices(indices: Any, size: tuple[int, ...]) -> None:
    if indices.shape[1] == 0 or indices.is_meta:
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
        largest = (index.amax(1) + 1).tolist() if count else [0] * indexed
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
        kind = _ops.get_default_dtype() if dtype is None else dtype
        stored = _ops.empty(0, dtype=kind, device=device)
        index = _ops.empty((len(size), 0), dtype=_C.int64, device=device)
        return CooTensor.make(index, stored.requires_grad_(requires_grad), size)
    stored = _values_of(values, dtype, device)
    index = _index_of(indices, stored.device)
    if index.dim() == 1 and index.numel() == 0:
        index = index.reshape(1, 0)
    if stored.dim() == 0:
        stored = stored.expand(index.shape[-1])
    size = _checked_size(index, stored, size)
    if requires_grad:
        stored = stored.detach().requires_grad_()
    return CooTensor.make(index, stored, size, bool(is_coalesced))


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    layout: Any = None,
) -> Any:
    """A matrix by compressed rows: those of row r stand from crow[r] to crow[r + 1]."""
    stored = _values_of(values, dtype, device)
    crow, col = _index_of(crow_indices, stored.device), _index_of(col_indices, stored.device)
    if crow.dim() != 1 or col.dim() != 1 or stored.dim() != 1:
        raise RuntimeError(
            "sparse_csr_tensor: crow_indices, col_indices and values must be vectors, but got "
            f"{crow.dim()}, {col.dim()} and {stored.dim()} dimensions"
        )
    if col.shape != stored.shape:
        raise RuntimeError(
            "number of elements in col_indices and values must be the same, but got "
            f"{col.numel()} and {stored.numel()}"
        )
    if crow.numel() == 0:
        raise RuntimeError("sparse_csr_tensor: crow_indices must have at least one element")
    if int(crow[-1]) != col.numel():
        raise RuntimeError("`crow_indices[..., -1] == nnz` is not satisfied.")
    if size is None:
        size = (crow.numel() - 1, int(col.max()) + 1 if col.numel() else 0)
    size = tuple(int(length) for length in size)
    if len(size) != 2 or crow.numel() != size[0] + 1:
        raise RuntimeError(
            f"crow_indices.shape[-1] must be equal to nrows + 1 ({size[0] + 1}), but got "
            f"{crow.numel()}"
        )
    rows = _ops._csr_rows(crow, col.numel())  # raises unless they ascend
    _check_indices(_ops.stack([rows, col]), size)
    if requires_grad:
        stored = stored.detach().requires_grad_()
    return CsrTensor.make(crow, col, stored, size)


def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Any = None, **_: Any) -> Any:
    """The elements that are not zero, by coordinates or in another sparse layout."""
    if layout is _C.sparse_csr:
        return to_sparse_csr(self)
    indexed = self.dim() if sparse_dim is None else sparse_dim
    if not (0 <= indexed <= self.dim() and (indexed > 0 or self.dim() == 0)):
        raise RuntimeError(f"to_sparse: sparse_dim must be in (0, {self.dim()}], but got {indexed}")
    stored = self.detach() != 0
    if indexed < self.dim():
        stored = stored.flatten(indexed).any(-1)
    indices = stored.nonzero().t().contiguous()
    return CooTensor.make(indices, self[tuple(indices)], self.shape, True)


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    """The elements that are not zero, by compressed rows."""
    if self.dim() != 2:
        raise RuntimeError(
            "to_sparse_csr: only tensors of two dimensions can be converted, but got "
            f"{self.dim()} dimensions"
        )
    return to_sparse(self).to_sparse_csr()


def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements of a dense tensor at the places of a sparse one."""
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.shape)} but mask has size {list(mask.shape)}"
        )
    places = mask.to_sparse_coo()
    result = places._with_values(self[tuple(places._indices_)])
    return result if mask.is_sparse else result.to_sparse_csr()
