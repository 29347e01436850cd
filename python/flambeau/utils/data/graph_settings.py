"""What DataLoader tells data pipes: to shuffle, by which numbers, and their shard."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.utils.data.graph import pipes_of

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_settings",
]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switches the shuffling of all pipes on or off; where there is none, one is put on top."""
    if shuffle is None:
        return datapipe
    shufflers = [one for one in pipes_of(datapipe) if hasattr(type(one), "set_shuffle")]
    if shuffle and not shufflers:
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for one in shufflers:
        one.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Gives each pipe that draws numbers a seed of its own from a generator."""
    for one in pipes_of(datapipe):
        if hasattr(type(one), "set_seed"):
            drawn = flambeau.empty((), dtype=flambeau.int64).random_(generator=rng)
            one.set_seed(int(drawn.item()))
    return datapipe


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int) -> Any:
    """Tells pipes that filter for a shard which one this process has."""
    for one in pipes_of(datapipe):
        if hasattr(type(one), "apply_sharding"):
            one.apply_sharding(num_of_instances, instance_id)
    return datapipe
