"""CUDA's own libraries, for the few calls that programs make to them directly.

They come from the toolkit or from NVIDIA's wheels (``pip install flambeau[cuda]``).
"""

from __future__ import annotations

import ctypes
import enum
import os
import sys

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where NVIDIA's wheels put their libraries, below a folder that Python imports from.
_WHEEL_FOLDERS = ("nvidia/cu13/lib", "nvidia/cudnn/lib", "nvidia/nccl/lib", "nvidia/cusparselt/lib")

_opened: dict[str, Any] = {}


def wheel_folders() -> list[str]:
    """The folders of NVIDIA's wheels that there may be."""
    return [os.path.join(path, folder) for path in sys.path if path for folder in _WHEEL_FOLDERS]


def open_library(name: str) -> Any:
    """A shared library by its name: loaded already, known to the system, or of a wheel."""
    if name not in _opened:
        failure: OSError | None = None
        for path in (name, *(os.path.join(folder, name) for folder in wheel_folders())):
            try:
                _opened[name] = ctypes.CDLL(path)
                break
            except OSError as error:
                failure = failure or error
        else:
            raise failure or OSError(name)
    return _opened[name]


class cudaStatus(enum.IntEnum):
    """Answers of the runtime library that programs look for."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class CudaError(RuntimeError):
    """An answer of the runtime library that is no success."""

    def __init__(self, code: int) -> None:
        text = _runtime().cudaGetErrorString
        text.restype = ctypes.c_char_p
        super().__init__(f"{text(int(code)).decode()} ({code})")


class DeferredCudaCallError(Exception):
    """A call that was put off until the first use of a device has failed."""


def check_error(res: int) -> None:
    """Raises CudaError unless an answer of the runtime library is success."""
    if int(res) != cudaStatus.SUCCESS:
        raise CudaError(res)


def _runtime() -> Any:
    _C._cuda_current_device()  # loads the library, or says why it cannot be
    return open_library("libcudart.so.13")


def runtime_version() -> str:
    """The version of the runtime library, as "13.0"."""
    number = ctypes.c_int()
    check_error(_runtime().cudaRuntimeGetVersion(ctypes.byref(number)))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


class _Cudart:
    """The calls of the runtime library that programs make."""

    cudaError = cudaStatus

    def cudaProfilerStart(self) -> int:
        return int(_runtime().cudaProfilerStart())

    def cudaProfilerStop(self) -> int:
        return int(_runtime().cudaProfilerStop())

    def cudaGetErrorString(self, code: int) -> str:
        text = _runtime().cudaGetErrorString
        text.restype = ctypes.c_char_p
        return str(text(int(code)).decode())

    def cudaHostRegister(self, pointer: int, size: int, flags: int) -> int:
        call = _runtime().cudaHostRegister
        return int(call(ctypes.c_void_p(pointer), ctypes.c_size_t(size), ctypes.c_uint(flags)))

    def cudaHostUnregister(self, pointer: int) -> int:
        return int(_runtime().cudaHostUnregister(ctypes.c_void_p(pointer)))

    def cudaStreamCreate(self, pointer: int) -> int:
        return int(_runtime().cudaStreamCreate(ctypes.c_void_p(pointer)))

    def cudaStreamDestroy(self, stream: int) -> int:
        return int(_runtime().cudaStreamDestroy(ctypes.c_void_p(stream)))

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        free, total = _C._cuda_memory_info(device)
        return free, total


def cudart() -> _Cudart:
    """The runtime library."""
    _runtime()
    return _Cudart()


_handles: dict[tuple[str, int], Any] = {}


def _handle(file: str, create: str, set_stream: str) -> int:
    """A library's handle for the current device, set to the current stream."""
    device = int(_C._cuda_current_device())
    library = open_library(file)
    if (file, device) not in _handles:
        handle = ctypes.c_void_p()
        if getattr(library, create)(ctypes.byref(handle)) != 0:
            raise RuntimeError(f"{create} makes no handle")
        _handles[file, device] = handle
    stream = _C._cuda_current_stream(-1)[2]
    getattr(library, set_stream)(_handles[file, device], ctypes.c_void_p(stream))
    return int(_handles[file, device].value or 0)


def current_blas_handle() -> int:
    """A cuBLAS handle for the current device and stream, for other libraries."""
    return _handle("libcublas.so.13", "cublasCreate_v2", "cublasSetStream_v2")


def current_solver_handle() -> int:
    """A cuSOLVER handle for the current device and stream, for other libraries."""
    return _handle("libcusolver.so.12", "cusolverDnCreate", "cusolverDnSetStream")
