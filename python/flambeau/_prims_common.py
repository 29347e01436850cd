"""Helpers that extension packages take from PyTorch's insides."""

from __future__ import annotations

import flambeau

__all__ = ["alert_not_deterministic"]


def alert_not_deterministic(caller: str) -> None:
    """Raises or warns, if the program asked for that, since `caller` has no deterministic form."""
    if not flambeau.are_deterministic_algorithms_enabled():
        return
    message = (
        f"{caller} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'."
    )
    if flambeau.is_deterministic_algorithms_warn_only_enabled():
        import warnings

        warnings.warn(message, stacklevel=2)
    else:
        raise RuntimeError(message)
