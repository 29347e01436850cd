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


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device can read and write another's memory directly."""
    index, peer = device_index(device), device_index(peer_device)
    index = current_device() if index < 0 else index
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    if not 0 <= peer < device_count():
        raise AssertionError("Invalid peer device id")
    return bool(_C._cuda_can_access_peer(index, peer))


def get_arch_list() -> list[str]:
    """The architectures that the CUDA library was compiled for; none where there is no device."""
    return _C._cuda_architectures().split() if is_available() else []


def get_gencode_flags() -> str:
    """What told nvcc to compile for them."""
    flags = []
    for name in get_arch_list():
        kind, _, number = name.partition("_")
        flags.append(f"-gencode compute=compute_{number},code={kind}_{number}")
    return " ".join(flags)


def ipc_collect() -> None:
    """Lets go of memory that other processes sent and have freed; at once done, as it is copied."""


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What ops do that wait for the device without having been asked to.

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2.
    """
    names = ("default", "warn", "error")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = names.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1 or 2, got {debug_mode}")
    _C._cuda_set_sync_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """What set_sync_debug_mode said, as a number."""
    return int(_C._cuda_sync_mode())


def is_tf32_supported() -> bool:
    """Whether the current device multiplies in TF32."""
    return is_available() and get_device_capability()[0] >= 8


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16; before compute capability 8 it has no
    instructions for it and converts.
    """
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def _exchange_device(device: int) -> int:
    """Makes a device the current one, unless its number is negative; the one before."""
    before = current_device() if device >= 0 else -1
    if device >= 0 and device != before:
        set_device(device)
    return before


def _maybe_exchange_device(device: int) -> int:
    """The same: a device that has not been used costs nothing to make current."""
    return _exchange_device(device)


class _DeviceGuard:
    """A context in which a device is the current one, by its number."""

    def __init__(self, index: int) -> None:
        self.idx, self.prev_idx = index, -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *_: object) -> None:
        _exchange_device(self.prev_idx)
