"""Samples of what moves, resizes and reads storage."""

from __future__ import annotations

import numpy as np

from .spec import call, op, t

op(
    "item",
    call(t()),
    call(t(1, 1)),
    ref=lambda x: x.reshape(()).item(),
    dtypes="bif",
    result="any",
    forms="method-only data-dependent",
    grad=False,
    empty="it wants one element",
)
op(
    "cpu",
    call(t(2, 3)),
    call(t()),
    call(t(0, 2)),
    ref=np.copy,
    forms="method-only data-dependent",
    covers="cuda",
)
op(
    "resize_",
    call(t(2, 3), 3, 2),
    call(t(2, 3), (2, 2)),
    call(t(2), 0),
    call(t(), 1),
    call(t(0), 0),
    ref=lambda x, *size: (
        np.resize(x, size if isinstance(size[0], int) else size[0])
        if x.size and 0 not in np.atleast_1d(size)
        else np.zeros(0)
    ),
    forms="mutating method-only rigid",
    grad=False,
)
op(
    "resize_as_",
    call(t(2, 3), t(3, 2)),
    call(t(), t()),
    call(t(0), t(0)),
    ref=lambda x, y: x.reshape(y.shape),
    forms="mutating method-only rigid",
    grad=False,
)
op(
    "set_",
    call(t(2), t(2, 3)),
    call(t(), t()),
    call(t(0), t(0)),
    ref=lambda x, y: y,
    forms="mutating method-only rigid",
    grad=False,
)
