"""Exchanging what two tensors are, so that everything that refers to one finds the other."""

from __future__ import annotations

import copyreg
from typing import Any

from flambeau import _C

__all__ = ["swap_tensors"]


def _slots(tensor: Any) -> set[str]:
    """The slots that the class of a tensor adds to those of Tensor."""
    return set(copyreg._slotnames(type(tensor)))  # type: ignore[attr-defined]


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchanges two tensors: memory, history, class and attributes.

    Neither may have weak references, which would not notice, nor slots that the other lacks.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"swap_tensors(): {name} must be a Tensor, not {type(tensor).__name__}")
        if _C._has_weak_references(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if _slots(t1) != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    if t1 is t2:
        return
    slots = {name for name in _slots(t1) if hasattr(t1, name) or hasattr(t2, name)}
    kept = [{name: getattr(t, name) for name in slots if hasattr(t, name)} for t in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for tensor, values in ((t1, kept[1]), (t2, kept[0])):
        for name in slots:
            if name in values:
                setattr(tensor, name, values[name])
            elif hasattr(tensor, name):
                delattr(tensor, name)
    _C._swap_tensors(t1, t2)
