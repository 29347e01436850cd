"""Row numbers of a sparse matrix, one for each element, to where each row begins, and back."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._namespace._out import delivered

__all__ = ["_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo"]


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False, out: Tensor | None = None
) -> Tensor:
    """Where each of `size` rows begins, and the end, from sorted row numbers."""
    if input.dim() != 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.dim()} dimensions.")
    dtype = flambeau.int32 if out_int32 else flambeau.int64
    rows = flambeau.arange(size + 1, dtype=input.dtype, device=input.device)
    begins = flambeau.searchsorted(input.contiguous(), rows).to(dtype)
    return delivered(begins, out)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor,
    col_indices: Tensor,
    *,
    out_int32: bool = False,
    transpose: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The (2, n) row and column numbers of elements, from where rows begin and the columns;
    `transpose` puts columns first. Batches put their numbers before both."""
    dtype = flambeau.int32 if out_int32 else flambeau.int64
    batches = crow_indices.reshape(-1, crow_indices.shape[-1])
    count = batches.shape[1] - 1
    number = flambeau.arange(batches.shape[0] * count, dtype=dtype, device=crow_indices.device)
    each = flambeau.repeat_interleave(number, batches.diff(dim=1).reshape(-1))
    rows, columns = each % max(count, 1), col_indices.reshape(-1).to(dtype)
    parts = [columns, rows] if transpose else [rows, columns]
    for size in reversed(crow_indices.shape[:-1]):
        count, each = size, each // max(count, 1)
        parts.insert(0, each % max(count, 1))
    found = flambeau.stack(parts)
    return delivered(found, out)
