"""Contexts that set several settings of a backend for a while."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextlib.contextmanager
def changed(settings: Any, **values: Any) -> Iterator[None]:
    """Sets attributes of `settings`, those whose value is not None, and puts the old ones back."""
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(settings, name) for name in given}
    for name, value in given.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
