"""Samples of the functions that put tensors together."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, op, t

Array = Any


def block_diag(*blocks: Array) -> Array:
    blocks = tuple(np.atleast_2d(b) for b in blocks)
    result = np.zeros(
        (sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)), np.result_type(*blocks)
    )
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


op(
    "cat concat concatenate",
    call([t(2, 3), t(1, 3)]),
    call((t(2, 3), t(2, 2)), 1),
    call([t(2, 3), t(2, 3), t(2, 3)], dim=-1),
    call([t(3)]),
    call([t(0, 3), t(2, 3)]),
    call([t(0), t(2, 3)], ref_=lambda x, dim=0: x[1]),
    call([t(2, dtype="float32"), t(3, dtype="float64")], dtypes_="float64"),
    ref=lambda x, dim=0: np.concatenate(x, dim),
    forms="out",
    zero_dim="it joins along a dimension",
)
op(
    "stack",
    call([t(2, 3), t(2, 3)]),
    call((t(2, 3), t(2, 3)), 1),
    call([t(3), t(3)], dim=-1),
    call([t(), t()]),
    call([t(0, 2), t(0, 2)]),
    ref=lambda x, dim=0: np.stack(x, dim),
    forms="out",
)
op(
    "hstack",
    call([t(2, 3), t(2, 1)]),
    call([t(2), t(3)]),
    call([t(), t()]),
    call([t(0), t(2)]),
    ref=np.hstack,
    forms="out",
)
op(
    "vstack row_stack",
    call([t(2, 3), t(1, 3)]),
    call([t(3), t(3)]),
    call([t(), t()]),
    call([t(0, 2), t(1, 2)]),
    ref=np.vstack,
    forms="out",
)
op(
    "dstack",
    call([t(2, 3), t(2, 3)]),
    call([t(3), t(3)]),
    call([t(), t()]),
    call([t(0, 2), t(0, 2)]),
    ref=np.dstack,
    forms="out",
)
op(
    "column_stack",
    call([t(3), t(3, 2)]),
    call([t(2, 3), t(2, 1)]),
    call([t(), t()], ref_=lambda x: np.array([[x[0], x[1]]])),
    call([t(0), t(0, 2)]),
    ref=np.column_stack,
    forms="out",
)
op("block_diag", call(t(2, 3), t(1, 2)), call(t(), t(2)), call(t(0, 2), t(1, 1)), ref=block_diag)
