"""The default random generators: seeding them, and saving and restoring their state."""

from __future__ import annotations

import contextlib

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]

default_generator = _C.default_generator


def set_rng_state(new_state: Tensor) -> None:
    """Sets the state of the CPU's generator to one that get_rng_state gave."""
    default_generator.set_state(new_state)


def get_rng_state() -> Tensor:
    """The state of the CPU's generator, a tensor of bytes."""
    return default_generator.get_state()


def manual_seed(seed: int) -> Any:
    """Seeds the generators of all devices; returns the CPU's.

    Negative seeds stand for 2**64 + seed; what does not fit 64 bits raises an error.
    """
    seed = int(seed)
    if _C._cuda_is_loaded():
        flambeau.cuda.manual_seed_all(seed)
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seeds the generators of all devices with a number that is not deterministic, and returns
    it.
    """
    number = default_generator.seed()
    if _C._cuda_is_loaded():
        flambeau.cuda.manual_seed_all(number)
    return number


def initial_seed() -> int:
    """The number that the CPU's generator was last seeded with."""
    return default_generator.initial_seed()


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Inside it, random numbers are drawn as always; after it, as if none had been drawn.

    Args:
        devices: the CUDA devices whose generators are restored as well as the CPU's; by default
            all.
        enabled: False makes this do nothing.
        device_type: "cuda", or "cpu" for the CPU's generator only.
    """
    if not enabled:
        yield
        return
    kept = [] if device_type == "cpu" else _forked_devices(devices)
    state = get_rng_state()
    device_states = [flambeau.cuda.get_rng_state(device) for device in kept]
    try:
        yield
    finally:
        set_rng_state(state)
        for device, device_state in zip(kept, device_states):
            flambeau.cuda.set_rng_state(device_state, device)


def _forked_devices(devices: Iterable[Any] | None) -> list[Any]:
    if devices is not None:
        return list(devices)
    return list(range(flambeau.cuda.device_count())) if _C._cuda_is_loaded() else []


def thread_safe_generator() -> Any:
    """The generator of the current worker thread of a DataLoader; None, which means the default
    one, everywhere else. Workers here are processes, each with a default generator of its own.
    """
    return None
