"""Helpers that extension packages take from PyTorch's insides."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau

__all__ = ["alert_not_deterministic", "make_contiguous_strides_for", "suggest_memory_format"]


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


def suggest_memory_format(x: flambeau.Tensor) -> flambeau.memory_format:
    """The format that results of ops on x have: channels last where x has its channels last."""
    last = {4: flambeau.channels_last, 5: flambeau.channels_last_3d}.get(x.dim())
    if last is None or x.is_contiguous() or not x.is_contiguous(memory_format=last):
        return flambeau.contiguous_format
    return last


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor; with `row_major` off, of matrices column by column."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) > 1:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)
