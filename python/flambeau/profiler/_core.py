"""What PyTorch has in its core of the profiler, as `torch._C._profiler`."""

from __future__ import annotations

from flambeau.profiler.profiler import ProfilerActivity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ProfilerActivity", "_ExperimentalConfig"]


class _ExperimentalConfig:
    """Settings for PyTorch's collectors of events, which are others here: kept, not followed."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)
