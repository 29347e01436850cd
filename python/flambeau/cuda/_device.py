"""CUDA devices: how many there are, which is current, what they are called."""

from __future__ import annotations

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from flambeau import Tensor


def device_index(given: Any) -> int:
    """The index that a device, a string or an int names; -1, the current one, if it names none."""
    if given is None:
        return -1
    if isinstance(given, int):
        return given
    wanted = flambeau.device(given)
    if wanted.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {wanted}")
    return -1 if wanted.index is None else int(wanted.index)


def is_available() -> bool:
    """Whether there is a CUDA device, a driver for it, and the library that uses them."""
    return device_count() > 0


def device_count() -> int:
    """The number of CUDA devices; 0 without a driver."""
    return int(_C._cuda_device_count())


def is_initialized() -> bool:
    """Whether the CUDA library has been loaded: it is on the first use of a device."""
    return bool(_C._cuda_is_loaded()) and is_available()


def init() -> None:
    """Loads the CUDA library, which happens by itself on the first use of a device."""
    current_device()


def current_device() -> int:
    """The index of the device that "cuda" stands for in this thread."""
    return int(_C._cuda_current_device())


def set_device(device: Any) -> None:
    """Makes a device current in this thread; a negative index changes nothing."""
    index = device_index(device)
    if index >= 0:
        _C._cuda_set_device(index)


def synchronize(device: Any = None) -> None:
    """Waits until the device has done all that it was given."""
    _C._cuda_synchronize(device_index(device))


class device:
    """A context in which another device is current.

    Args:
        device: the device, or its index. A negative index changes nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):
    """A context in which the device of a tensor is current; on other tensors it does nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _CudaDeviceProperties:
    """What a device is: its name, compute capability, memory and multiprocessors."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a CUDA device has no property {name!r}")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """The properties of a device, by default the current one."""
    return _CudaDeviceProperties(_C._cuda_properties(device_index(device)))


def get_device_name(device: Any = None) -> str:
    """The name of a device, by default the current one."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and minor number of a device's compute capability."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16; before compute capability 8 it has no
    instructions for it and converts.
    """
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8
