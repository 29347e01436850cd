"""Functions and types of PyTorch's core about the graph, as `torch._C._autograd`."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SavedTensor = _C.SavedTensor
_get_sequence_nr = _C._get_sequence_nr


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks on saved tensors are allowed here."""
    return _C._saved_tensors_hooks_get_disabled_error_message() is None


_saved_tensors_hooks_enable = _C._saved_tensors_hooks_enable
_saved_tensors_hooks_disable = _C._saved_tensors_hooks_disable
_push_saved_tensors_default_hooks = _C._push_saved_tensors_default_hooks
_pop_saved_tensors_default_hooks = _C._pop_saved_tensors_default_hooks


def _unsafe_set_version_counter(tensors: Any, versions: Any) -> None:
    """Sets how often tensors have been written to, as if nobody had seen the writes."""
    if not isinstance(tensors, (tuple, list)):
        tensors, versions = (tensors,), (versions,)
    for tensor, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        _C._set_version(tensor, version)
