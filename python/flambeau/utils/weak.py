"""Dictionaries with tensors as keys that do not keep them alive: a tensor is itself, whatever its
values are, so keys are told apart by identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from flambeau import Tensor

__all__ = [
    "TensorWeakRef",
    "WeakIdKeyDictionary",
    "WeakIdRef",
    "WeakRef",
    "WeakTensorKeyDictionary",
]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """A weak reference that equals another to the same object."""

    __slots__ = ("_id",)

    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> WeakIdRef:
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        a = self()
        b = other() if isinstance(other, weakref.ref) else None
        return a is b if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary whose entries go when their keys do."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: dict[Any, Any] = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _ref(self, key: Any) -> Any:
        data = weakref.ref(self)

        def forget(reference: Any) -> None:
            home = data()
            if home is not None:
                home.data.pop(reference, None)

        return self.ref_type(key, forget)

    def __getitem__(self, key: Any) -> Any:
        found = self.data.get(self.ref_type(key), self)
        if found is self:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._ref(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __contains__(self, key: object) -> bool:
        return self.ref_type(key) in self.data

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys, some of which may be gone by the time they are used."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary with the same entries."""
        return WeakIdKeyDictionary(dict(self.items()), self.ref_type)

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        return WeakIdKeyDictionary({k: deepcopy(v, memo) for k, v in self.items()}, self.ref_type)


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a Tensor, got {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
