"""What programs ask about ONNX; models cannot be exported to it."""

from __future__ import annotations

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False
