"""The random generators of CUDA devices."""

from __future__ import annotations

from flambeau import _C
from flambeau.cuda._device import current_device, device_count, device_index, is_available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from flambeau import Tensor

# A generator starts from the seed of the CPU's, so what torch.manual_seed said before the device
# was first used counts.
_generators: dict[int, Any] = {}


def default_generator(device: Any = None) -> Any:
    """The generator that ops on a device use when they are given none."""
    index = device_index(device)
    index = current_device() if index < 0 else index
    if index not in _generators:
        _generators[index] = _C._cuda_default_generator(index)
    return _generators[index]


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device. Without a device this does nothing."""
    if is_available():
        default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    if is_available():
        for index in range(device_count()):
            default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the generator of the current device with a number nobody can predict."""
    if is_available():
        default_generator().seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one number nobody can predict."""
    if is_available():
        manual_seed_all(default_generator(0).seed())


def initial_seed() -> int:
    """The number that the generator of the current device was last seeded with."""
    return int(default_generator().initial_seed())


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a device's generator, a tensor of bytes on the CPU."""
    return default_generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Sets the state of a device's generator to one that get_rng_state gave."""
    default_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Sets the states of the generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _get_generator(device: Any) -> Any:
    """A device's default generator."""
    return default_generator(device)


def _get_rng_state_offset(device: Any = "cuda") -> int:
    """How far into its stream a device's default generator is."""
    return int(default_generator(device).get_offset())


def _set_rng_state_offset(offset: int, device: Any = "cuda") -> None:
    """Moves a device's default generator to a place in its stream."""
    default_generator(device).set_offset(offset)
