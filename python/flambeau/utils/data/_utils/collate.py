"""Collating samples to batches."""

from __future__ import annotations

import re

from flambeau.utils.data import collate as _collate
from flambeau.utils.data.collate import (
    _BAD_TYPE as default_collate_err_msg_format,
)
from flambeau.utils.data.collate import (
    collate,
    collate_float_fn,
    collate_int_fn,
    collate_numpy_array_fn,
    collate_str_fn,
    collate_tensor_fn,
    default_collate,
    default_convert,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_convert",
    "np_str_obj_array_pattern",
]

collate_numpy_scalar_fn = collate_numpy_array_fn
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes of NumPy that are no numbers


def __getattr__(name: str) -> Any:
    if name != "default_collate_fn_map":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    known = _collate.default_collate_fn_map
    try:
        import numpy
    except ImportError:
        return known
    known.setdefault(numpy.ndarray, collate_numpy_array_fn)
    known.setdefault((numpy.bool_, numpy.number, numpy.object_), collate_numpy_scalar_fn)
    return known
