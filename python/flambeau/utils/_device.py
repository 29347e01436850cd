"""The device of new tensors, as a context and as a decorator."""

from __future__ import annotations

import functools

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__: list[str] = []


class DeviceContext:
    """Within it tensors are made on a device, as within `with device:`."""

    def __init__(self, device: Any) -> None:
        self.device = flambeau.device(device)

    def __enter__(self) -> None:
        self.device.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self.device.__exit__(*exception)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function that is to make its tensors on a device."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with flambeau.device(device):
                return func(*args, **kwargs)

        return decorated

    return decorator
