"""Tensors sorted for ops that take lists of them, as optimizers of other libraries ask for it."""

from __future__ import annotations

from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Kinds of devices with `_foreach_` kernels."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Kinds of devices with optimizers of one kernel."""
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of equal length, cut into lists whose tensors share device and dtype.

    Args:
        tensorlistlist: the lists; the first says where an index belongs.
        with_indices: whether to tell the indices that each group has.

    Returns:
        for each (device, dtype) the lists, and the indices or an empty list.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for index, row in enumerate(zip(*tensorlistlist, strict=True)):
        if (first := row[0]) is None:
            raise RuntimeError("_group_tensors_by_device_and_dtype: the first list has a None")
        key = (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in row], []))
        for chosen, tensor in zip(lists, row, strict=True):
            chosen.append(tensor)
        if with_indices:
            indices.append(index)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    """Whether a device has `_foreach_` kernels, or a loop that serves as well."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Tensor], device: Any) -> bool:
    """Whether the device has `_foreach_` kernels for all of these."""
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) is Tensor for tensor in tensors
    )
