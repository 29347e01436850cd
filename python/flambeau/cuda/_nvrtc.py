"""Kernels that a program brings as text: compiled by NVRTC, loaded and started by the driver."""

from __future__ import annotations

import ctypes
import re

import flambeau
from flambeau import _C
from flambeau.cuda import _libraries
from flambeau.cuda._device import get_device_capability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_modules: dict[tuple[int, bytes], Any] = {}  # by device and image; loaded for good
_contexts: dict[int, Any] = {}


def _driver() -> Any:
    _C._cuda_current_device()  # loads the CUDA library, or says why it cannot be
    return _libraries.open_library("libcuda.so.1")


def _check(library: Any, code: int, what: str) -> None:
    if code == 0:
        return
    text = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(text))
    raise RuntimeError(f"{what}: CUDA error: {(text.value or b'unknown').decode()}")


def compile_source(source: str, options: Sequence[str]) -> bytes:
    """The machine code of a source, or a RuntimeError with what the compiler says about it."""
    try:
        library = _libraries.open_library("libnvrtc.so.13")
    except OSError as error:
        raise RuntimeError(
            "kernels cannot be compiled: NVRTC (libnvrtc.so.13, of the toolkit or of the wheel "
            f"nvidia-cuda-nvrtc) is not there: {error}"
        ) from error
    program = ctypes.c_void_p()
    code = source.encode()
    failed = library.nvrtcCreateProgram(ctypes.byref(program), code, b"kernel.cu", 0, None, None)
    if failed:
        raise RuntimeError(f"NVRTC cannot read the source: error {failed}")
    try:
        flags = [option.encode() for option in options]
        array = (ctypes.c_char_p * len(flags))(*flags)
        failed = library.nvrtcCompileProgram(program, len(flags), array)
        size = ctypes.c_size_t()
        if failed:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"Kernel compilation failed:\n{log.value.decode()}")
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, image)
        return image.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def architecture() -> str:
    """The current device's, as the compiler names it."""
    major, minor = get_device_capability()
    return f"sm_{major}{minor}"


class Kernel:
    """A function of an image, for whichever device is current when it is called.

    Tensors among the arguments are addresses; ints and floats are those of 32 bits, and anything
    of ctypes is what it is.
    """

    def __init__(self, image: bytes, name: str) -> None:
        self._image, self._name = image, name

    def _function(self, library: Any, device: int) -> Any:
        if device not in _contexts:
            context = ctypes.c_void_p()
            handle = ctypes.c_int()
            _check(library, library.cuDeviceGet(ctypes.byref(handle), device), self._name)
            code = library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
            _check(library, code, self._name)
            _contexts[device] = context
        _check(library, library.cuCtxSetCurrent(_contexts[device]), self._name)
        key = (device, self._image)
        if key not in _modules:
            module = ctypes.c_void_p()
            code = library.cuModuleLoadData(ctypes.byref(module), self._image)
            _check(library, code, self._name)
            _modules[key] = module
        function = ctypes.c_void_p()
        code = library.cuModuleGetFunction(
            ctypes.byref(function), _modules[key], self._name.encode()
        )
        _check(library, code, self._name)
        return function

    def __call__(
        self,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        args: Sequence[Any] | None = None,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        library, values = _driver(), [_argument(self._name, arg) for arg in args or ()]
        function = self._function(library, int(_C._cuda_current_device()))
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        handle = _C._cuda_current_stream(-1)[2] if stream is None else stream.cuda_stream
        code = library.cuLaunchKernel(
            function, *grid, *block, ctypes.c_uint(shared_mem), ctypes.c_void_p(handle), pointers,
            None,
        )  # fmt: skip
        _check(library, code, self._name)


def _argument(name: str, value: Any) -> Any:
    if isinstance(value, flambeau.Tensor):
        if not value.is_cuda and not (value.device.type == "cpu" and value.is_pinned()):
            raise ValueError(
                f"{name}: All tensor arguments must be CUDA tensors or pinned CPU tensors"
            )
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, int):
        return ctypes.c_int(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    if isinstance(value, ctypes._SimpleCData):
        return value
    raise TypeError(f"{name}: Unsupported argument type: {type(value)}")


def _compile_kernel(
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: Sequence[str] | None = None,
    nvcc_options: Sequence[str] | None = None,
) -> Kernel:
    """A kernel by its name in a source, to be called with grid, block and args."""
    if not kernel_source.strip():
        raise ValueError("Kernel source code cannot be empty")
    if not re.search(rf"\b{re.escape(kernel_name)}\b", kernel_source):
        raise ValueError(f"there is no {kernel_name} in the kernel's source")
    if 'extern "C"' not in kernel_source:
        kernel_source = f'extern "C" {kernel_source}'
    options = [f"--gpu-architecture=sm_{compute_capability or architecture()[3:]}"]
    options += [f"-I{folder}" for folder in cuda_include_dirs or ()]
    return Kernel(compile_source(kernel_source, [*options, *(nvcc_options or ())]), kernel_name)
