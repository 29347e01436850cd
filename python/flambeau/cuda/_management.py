"""What the driver's management library (NVML) knows about devices: load, heat, power, programs.

The library comes with the driver and is opened when it is first asked.
"""

from __future__ import annotations

import ctypes

from flambeau.cuda._device import current_device, device_index, get_device_properties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "clock_rate",
    "device_memory_used",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]

_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
_TEMPERATURE_OF_GPU, _CLOCK_OF_MULTIPROCESSORS = 0, 1


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


_library: Any = None


def _nvml() -> Any:
    """The library, opened once."""
    global _library
    if _library is None:
        try:
            found = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise RuntimeError(
                "the driver's management library libnvidia-ml.so.1 cannot be loaded: "
                f"{error}. It is part of the NVIDIA driver"
            ) from None
        found.nvmlErrorString.restype = ctypes.c_char_p
        _check(found, found.nvmlInit_v2())
        _library = found
    return _library


def _check(library: Any, code: int) -> None:
    if code != _SUCCESS:
        raise RuntimeError(f"NVML: {library.nvmlErrorString(code).decode()}")


def _handle(device: Any) -> Any:
    """NVML's handle of a device. It numbers devices as the machine does, so we go by identity."""
    index = device_index(device)
    index = current_device() if index < 0 else index
    name = f"GPU-{get_device_properties(index).uuid}".encode()
    handle = ctypes.c_void_p()
    _check(_nvml(), _nvml().nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)))
    return handle


def _number(device: Any, function: str, *args: int) -> int:
    value = ctypes.c_uint()
    handle = _handle(device)
    _check(_nvml(), getattr(_nvml(), function)(handle, *args, ctypes.byref(value)))
    return int(value.value)


def utilization(device: Any = None) -> int:
    """The percentage of the last second in which a kernel was running."""
    rates = _Utilization()
    _check(_nvml(), _nvml().nvmlDeviceGetUtilizationRates(_handle(device), ctypes.byref(rates)))
    return int(rates.gpu)


def memory_usage(device: Any = None) -> int:
    """The percentage of the last second in which memory was read or written."""
    rates = _Utilization()
    _check(_nvml(), _nvml().nvmlDeviceGetUtilizationRates(_handle(device), ctypes.byref(rates)))
    return int(rates.memory)


def device_memory_used(device: Any = None) -> int:
    """The bytes of a device's memory that all programs together hold."""
    memory = _Memory()
    _check(_nvml(), _nvml().nvmlDeviceGetMemoryInfo(_handle(device), ctypes.byref(memory)))
    return int(memory.used)


def temperature(device: Any = None) -> int:
    """A device's temperature in degrees Celsius."""
    return _number(device, "nvmlDeviceGetTemperature", _TEMPERATURE_OF_GPU)


def power_draw(device: Any = None) -> int:
    """The power that a device takes, in milliwatts."""
    return _number(device, "nvmlDeviceGetPowerUsage")


def clock_rate(device: Any = None) -> int:
    """The clock of a device's multiprocessors in megahertz."""
    return _number(device, "nvmlDeviceGetClockInfo", _CLOCK_OF_MULTIPROCESSORS)


def processes(device: int) -> list[tuple[int, int]]:
    """The programs that compute on a device: their process ids and the bytes they hold."""
    handle = _handle(device)
    count = ctypes.c_uint(64)
    found = (_Process * count.value)()
    code = _nvml().nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)
    if code == _INSUFFICIENT_SIZE:
        found = (_Process * count.value)()
        code = _nvml().nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)
    _check(_nvml(), code)
    return [(entry.pid, entry.used) for entry in found[: count.value]]
