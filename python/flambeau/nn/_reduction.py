"""The ``reduction`` argument of losses: its values, and the two older arguments it replaced."""

from __future__ import annotations

import warnings

_CODES = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number that loss ops take for a reduction."""
    code = _CODES.get(reduction)
    if code is not None:
        return code
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=3,
        )
        return 1
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the deprecated arguments ``size_average`` and ``reduce`` mean."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            "size_average and reduce args will be deprecated, "
            f"please use reduction='{reduction}' instead.",
            stacklevel=4,
        )
    return reduction


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The same as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def effective_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """``reduction``, unless one of the two arguments that it replaced is given."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce)
