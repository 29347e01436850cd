"""How libraries want their operators taken apart when programs are compiled. Nothing is compiled
here, so the rules are kept and never asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

decompositions: dict[Any, Callable[..., Any]] = {}


def register_decomposition(ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that keeps a function as the rule of one operator or of several."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        every = ops if isinstance(ops, (list, tuple)) else [ops]
        decompositions.update(dict.fromkeys(every, function))
        return function

    return keep
