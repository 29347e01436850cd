"""make_tensor: random tensors of any dtype in a given range, for tests."""

from __future__ import annotations

import math
import warnings

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


def _bounds(dtype: Any) -> tuple[float, float, float, float]:
    """The default low and high for `dtype`, and the lowest and highest it allows (the last
    exclusive).
    """
    if dtype == flambeau.bool:
        return 0, 2, 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        info = flambeau.finfo(dtype)
        return -9, 9, info.min, info.max
    limits = flambeau.iinfo(dtype)
    # int64 and uint64 cannot be asked for more than a signed 64-bit bound.
    highest = min(limits.max + 1, 2**63 - 1)
    return (0 if limits.min == 0 else -9), 10, limits.min, highest


def _checked_range(low: float | None, high: float | None, dtype: Any) -> tuple[float, float]:
    default_low, default_high, lowest, highest = _bounds(dtype)
    low = default_low if low is None else low
    high = default_high if high is None else high
    # Not by math.isnan: an integer may be too large for a float.
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    fractional = dtype.is_floating_point or dtype.is_complex
    if low == high and fractional:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{lowest}, {highest})"
        )
    low, high = max(low, lowest), min(high, highest)
    return (low, high) if fractional else (math.ceil(low), math.ceil(high))


def _uniform(shape: tuple[int, ...], low: float, high: float, dtype: Any, device: Any) -> Tensor:
    if dtype.itemsize == 1:  # nothing is drawn in eight bits
        return _uniform(shape, low, high, flambeau.float32, device).to(dtype)
    result = flambeau.empty(shape, device=device, dtype=dtype)
    numbers = flambeau.view_as_real(result) if dtype.is_complex else result
    if high - low >= flambeau.finfo(dtype).max:
        # The width of the range is no number of this dtype: draw from half of it.
        numbers.uniform_(low / 2, high / 2).mul_(2)
    else:
        numbers.uniform_(low, high)
    return result


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of the given shape, dtype and device with values drawn uniformly from [low, high).

    Args:
        shape: the sizes, one by one or as one sequence.
        low, high: the range, cut to what dtype can hold. By default [0, 2) for bool, [0, 10) for
            unsigned and [-9, 10) for signed integers, [-9, 9) for floating point and for both parts
            of complex numbers.
        requires_grad: makes the result a leaf that requires gradients.
        noncontiguous: makes a result of more than one element not contiguous.
        exclude_zero: replaces zeros by the smallest positive number of dtype.
        memory_format: the memory format of the result.
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    fractional = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not fractional:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    low, high = _checked_range(low, high, dtype)
    # Every second element of a tensor twice as long is not contiguous.
    spread = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if spread else shape
    if fractional:
        result = _uniform(drawn, low, high, dtype, device)
    else:
        result = flambeau.randint(int(low), int(high), drawn, device=device, dtype=dtype)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = flambeau.finfo(dtype).tiny if fractional else 1
    if requires_grad:
        result.requires_grad_()
    return result
