"""One entry an op: its calls, its dtypes and what NumPy answers, in a file a family."""

from . import (  # noqa: F401  (importing a family declares its entries)
    binary,
    comparison,
    creation,
    indexing,
    joining,
    layers,
    matmul,
    nn,
    random,
    reductions,
    shape,
    sorting,
    spatial,
    storage,
    unary,
    views,
)
from .spec import ENTRIES, Call, Op

__all__ = ["ENTRIES", "Call", "Op"]
