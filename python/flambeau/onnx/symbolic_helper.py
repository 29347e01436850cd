"""Decorators of functions that export operators to ONNX; they are never called."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: Any) -> Callable[[Any], Any]:
    """A decorator that gives back the function."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that gives back the function."""
    return lambda function: function
