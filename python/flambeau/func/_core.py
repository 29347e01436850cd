"""What PyTorch's core tells of the transforms of functions that run, as `torch._C._functorch`."""

from __future__ import annotations

from flambeau import _C
from flambeau._C import is_batchedtensor, maybe_get_level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "maybe_get_bdim"]


is_functorch_wrapped_tensor = is_batchedtensor  # those of gradients are ordinary tensors


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """False: there is no older kind of batched tensors."""
    return False


is_gradtrackingtensor = is_functionaltensor = is_dead_tensor_wrapper = is_legacy_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The tensor of all samples behind that of one."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present!")
    return _C.get_unwrapped(tensor)


def maybe_get_bdim(tensor: Any) -> int:
    """The dimension that counts samples in the tensor behind, or -1."""
    return 0 if maybe_get_level(tensor) > 0 else -1


def maybe_current_level() -> int | None:
    """How many calls of vmap this one runs within; None outside of all."""
    return _C._vmap_level() or None
