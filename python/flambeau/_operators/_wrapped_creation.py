"""Making tensors that have no values of their own: `Tensor._make_wrapper_subclass`."""

from __future__ import annotations

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def make_wrapper_subclass(
    cls: Any,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    **others: Any,
) -> Any:
    """A tensor of class `cls` that only says what it is; `cls.__torch_dispatch__` answers for it.

    Args:
        cls: a subclass of Tensor that defines `__torch_dispatch__`.
        size, strides, storage_offset: its geometry; rows lie one after the other by default, or as
            `memory_format` says.
        dtype, device: what it says of itself.
        requires_grad: whether it wants a gradient.
        layout, pin_memory, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout: taken
            as PyTorch takes them; what is given here is what the tensor says, and nobody is asked.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            "_make_wrapper_subclass(): argument 'size' (position 2) must be tuple of ints, not "
            f"{type(size).__name__}"
        )
    sizes = tuple(int(n) for n in size)
    if strides is None:
        shown = flambeau.empty(sizes, device="meta")
        if memory_format is not None:
            shown = shown.to(memory_format=memory_format)
        strides = shown.stride()
    made = _C._make_wrapped(
        cls,
        sizes,
        tuple(int(n) for n in strides),
        int(storage_offset or 0),
        dtype or flambeau.get_default_dtype(),
        flambeau.device(device) if device is not None else flambeau.get_default_device(),
    )
    return made.requires_grad_() if requires_grad else made
