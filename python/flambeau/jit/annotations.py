"""Annotations of TorchScript: lists of a fixed length, for which one number stands as well."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]


class _BroadcastingListType(type):
    def __getitem__(cls, item: Any) -> Any:
        return item


class BroadcastingList1(metaclass=_BroadcastingListType):
    """BroadcastingList1[int] annotates an int or a list of one."""


class BroadcastingList2(metaclass=_BroadcastingListType):
    """BroadcastingList2[int] annotates an int or a list of two."""


class BroadcastingList3(metaclass=_BroadcastingListType):
    """BroadcastingList3[int] annotates an int or a list of three."""
