"""One entry an op: its calls, its dtypes and what NumPy answers, in a file a family."""

from . import (  # noqa: F401  (importing a family declares its entries)
    binary,
    comparison,
    creation,
    fft,
    functional,
    images,
    indexing,
    joining,
    layers,
    linalg,
    losses,
    margins,
    matmul,
    nn,
    random,
    recurrent,
    reductions,
    shape,
    sorting,
    spatial,
    special,
    statistics,
    storage,
    unary,
    views,
)
from .spec import ENTRIES, Call, Op

# Entries that may be ahead of their ops: their samples are run as soon as the op is there.
# Any other entry without an op fails the tests.
AHEAD = frozenset(
    [
        "bartlett_window",
        "blackman_window",
        "combinations",
        "complex",
        "diff",
        "dist",
        "hamming_window",
        "hann_window",
        "is_same_size",
        "is_signed",
        "isin",
        "linalg_cross",
        "linalg_vector_norm",
        "polar",
        "trace",
        "vander",
    ]
)

__all__ = ["AHEAD", "ENTRIES", "Call", "Op"]
