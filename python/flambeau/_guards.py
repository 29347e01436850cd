"""What programs ask PyTorch's compiler about the tracing that is going on: there is none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TracingContext:
    """What a compiler knows while it traces a function."""

    @staticmethod
    def try_get() -> None:
        """None: nothing is being traced."""


class CompileContext:
    """What a compiler knows while it compiles a function."""

    @staticmethod
    def try_get() -> None:
        """None: nothing is being compiled."""

    @staticmethod
    def current_compile_id() -> None:
        """None: nothing is being compiled."""


def active_fake_mode() -> None:
    """None: there are no fake tensors."""


def detect_fake_mode(inputs: Any = None) -> None:
    """None: there are no fake tensors."""
