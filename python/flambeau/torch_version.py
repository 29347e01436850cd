"""The version programs see: that of PyTorch's API which Flambeau speaks, and its own behind it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TorchVersion"]


def _release(version: Any) -> tuple[int, ...]:
    """The numbers at the head of a version: of "2.15.0+flambeau" (2, 15, 0)."""
    if isinstance(version, (tuple, list)):
        return tuple(int(part) for part in version)
    numbers = []
    for part in str(version).partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    if not numbers:
        raise ValueError(f"Invalid version: '{version}'")
    return tuple(numbers)


def _pair(left: Any, right: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    a, b = _release(left), _release(right)
    length = max(len(a), len(b))
    return a + (0,) * (length - len(a)), b + (0,) * (length - len(b))


class TorchVersion(str):
    """A version as a string that compares by its numbers, with strings and with tuples."""

    def __lt__(self, other: Any) -> bool:
        left, right = _pair(self, other)
        return left < right

    def __le__(self, other: Any) -> bool:
        left, right = _pair(self, other)
        return left <= right

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            if str.__eq__(self, other):
                return True
            if not other[:1].isdigit() or "+" in other:
                return False
        elif not isinstance(other, (tuple, list)):
            return NotImplemented
        left, right = _pair(self, other)
        return left == right

    __hash__ = str.__hash__


__version__ = TorchVersion("2.15.0+flambeau.0.1.0")
