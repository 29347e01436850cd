"""A set that keeps the order in which its elements came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Reversible
from typing import Any, Generic, TypeVar

T = TypeVar("T")

__all__ = ["OrderedSet"]


class OrderedSet(MutableSet[T], Reversible[T], Generic[T]):
    """A set that keeps the order in which its elements came.

    Args:
        iterable: the first elements.
    """

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict: dict[T, None] = dict.fromkeys(iterable or ())

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> OrderedSet[Any]:
        return cls(it)

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self) -> Iterator[T]:
        return iter(self._dict)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    def add(self, elem: T) -> None:
        self._dict[elem] = None

    def discard(self, elem: T) -> None:
        self._dict.pop(elem, None)

    def pop(self) -> T:
        """Takes away the last element."""
        if not self._dict:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def update(self, *others: Iterable[T]) -> None:
        """Adds the elements of others."""
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def copy(self) -> OrderedSet[T]:
        """Another set of the same elements."""
        return OrderedSet(self)

    def union(self, *others: Iterable[T]) -> OrderedSet[T]:
        """A set of these elements and of others."""
        result = self.copy()
        result.update(*others)
        return result

    def difference(self, *others: Iterable[T]) -> OrderedSet[T]:
        """A set of these elements without those of others."""
        gone = {elem for other in others for elem in other}
        return OrderedSet(elem for elem in self if elem not in gone)

    def intersection(self, *others: Iterable[T]) -> OrderedSet[T]:
        """A set of the elements that all others have as well."""
        kept = [set(other) for other in others]
        return OrderedSet(elem for elem in self if all(elem in other for other in kept))

    def issubset(self, other: Iterable[T]) -> bool:
        """Whether the other has all elements."""
        return set(self) <= set(other)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Whether these are all elements of the other, and maybe more."""
        return set(self) >= set(other)
