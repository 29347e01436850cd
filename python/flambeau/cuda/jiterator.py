"""Elementwise functions that a program brings as C++ text, compiled when they are first called."""

from __future__ import annotations

import ctypes
import re

import flambeau
from flambeau.cuda import _nvrtc
from flambeau.cuda._device import device as device_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor

__all__ = ["create_jit_fn", "create_multi_output_jit_fn"]

_BLOCK = 256
_MOST_INPUTS, _MOST_OUTPUTS = 8, 8

# By dtype: how elements are stored, what the function computes with, and the same for ctypes.
_TYPES: dict[Any, tuple[str, str, Any]] = {
    flambeau.float32: ("float", "float", ctypes.c_float),
    flambeau.float64: ("double", "double", ctypes.c_double),
    flambeau.float16: ("Half", "float", ctypes.c_float),
    flambeau.bfloat16: ("BFloat16", "float", ctypes.c_float),
    flambeau.int64: ("long long", "long long", ctypes.c_longlong),
    flambeau.int32: ("int", "int", ctypes.c_int),
    flambeau.int16: ("short", "short", ctypes.c_short),
    flambeau.int8: ("signed char", "signed char", ctypes.c_byte),
    flambeau.uint8: ("unsigned char", "unsigned char", ctypes.c_ubyte),
    flambeau.bool: ("bool", "bool", ctypes.c_bool),
}

# Types of 16 bits that turn into floats and back, without any header.
_PRELUDE = """
struct Half {
  unsigned short bits;
  Half() = default;
  Half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
};
struct BFloat16 {
  unsigned short bits;
  BFloat16() = default;
  BFloat16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};
"""


def _entry(code: str) -> str:
    """The name of the last template function in the code."""
    pattern = r"template\s*<\s*(?:typename|class)\s+\w+\s*>\s*[\w:]+\s+(\w+)\s*\("
    names = re.findall(pattern, code)
    if not names:
        raise ValueError(
            "create_jit_fn: expected a function template such as "
            f"'template <typename T> T f(T x) {{ return x; }}', got: {code!r}"
        )
    return str(names[-1])


def _source(code: str, name: str, stored: str, computed: str, counts: tuple[int, int, int]) -> str:
    """A kernel that calls the function for every element of so many inputs and outputs."""
    n_inputs, n_numbers, n_outputs = counts
    parameters = [f"const {stored}* in{k}" for k in range(n_inputs)]
    parameters += [f"{computed} number{k}" for k in range(n_numbers)]
    parameters += [f"{stored}* out{k}" for k in range(max(n_outputs, 1))]
    values = [f"static_cast<{computed}>(in{k}[i])" for k in range(n_inputs)]
    values += [f"number{k}" for k in range(n_numbers)]
    if n_outputs:
        results = [f"result{k}" for k in range(n_outputs)]
        body = f"{computed} {', '.join(results)};\n  {name}<{computed}>"
        body += f"({', '.join([*values, *results])});\n"
        body += "".join(
            f"  out{k}[i] = static_cast<{stored}>(result{k});\n" for k in range(n_outputs)
        )
    else:
        body = f"out0[i] = static_cast<{stored}>({name}<{computed}>({', '.join(values)}));\n"
    return f"""{_PRELUDE}{code}
extern "C" __global__ void flambeau_jit({", ".join(parameters)}, long long count) {{
  const long long i = static_cast<long long>(blockIdx.x) * {_BLOCK} + threadIdx.x;
  if (i >= count) return;
  {body}}}
"""


class _JittedFunction:
    """A function of tensors and of the numbers that it was made with."""

    def __init__(self, code_string: str, n_outputs: int, numbers: dict[str, Any]) -> None:
        self.code_string, self.kwargs_dict = code_string, numbers
        self.kernel_name = _entry(code_string)
        self._n_outputs = n_outputs  # 0: one, that the function returns
        self._kernels: dict[Any, _nvrtc.Kernel] = {}

    def __call__(self, *tensors: Tensor, **kwargs: Any) -> Any:
        _check_inputs(tensors)
        for name in kwargs:
            if name not in self.kwargs_dict:
                raise KeyError(f"{name} is not defined in function definition")
        numbers = [kwargs.get(name, given) for name, given in self.kwargs_dict.items()]
        dtype = _common_dtype(tensors)
        if dtype not in _TYPES:
            raise NotImplementedError(f"jiterator: not implemented for {dtype}")
        shape = flambeau.broadcast_shapes(*(tensor.shape for tensor in tensors))
        inputs = [x.detach().to(dtype).expand(shape).contiguous() for x in tensors]
        device = tensors[0].device
        outputs = [
            flambeau.empty(shape, dtype=dtype, device=device)
            for _ in range(max(self._n_outputs, 1))
        ]
        count = outputs[0].numel()
        if count:
            scalar = _TYPES[dtype][2]
            with device_context(device):
                self._kernel(dtype, len(inputs))(
                    ((count + _BLOCK - 1) // _BLOCK, 1, 1), (_BLOCK, 1, 1),
                    [*inputs, *map(scalar, numbers), *outputs, ctypes.c_longlong(count)],
                )  # fmt: skip
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def _kernel(self, dtype: Any, n_inputs: int) -> _nvrtc.Kernel:
        architecture = _nvrtc.architecture()
        key = (dtype, n_inputs, architecture)
        if key not in self._kernels:
            stored, computed, _ = _TYPES[dtype]
            counts = (n_inputs, len(self.kwargs_dict), self._n_outputs)
            source = _source(self.code_string, self.kernel_name, stored, computed, counts)
            options = ["-default-device", "--std=c++17", f"--gpu-architecture={architecture}"]
            image = _nvrtc.compile_source(source, options)
            self._kernels[key] = _nvrtc.Kernel(image, "flambeau_jit")
        return self._kernels[key]


def _common_dtype(tensors: tuple[Tensor, ...]) -> Any:
    # Tensors without dimensions have a say only where there are no others.
    voices = [tensor for tensor in tensors if tensor.dim()] or list(tensors)
    dtype = voices[0].dtype
    for tensor in voices[1:]:
        dtype = flambeau.promote_types(dtype, tensor.dtype)
    return dtype


def _check_inputs(tensors: tuple[Any, ...]) -> None:
    if not 0 < len(tensors) <= _MOST_INPUTS:
        raise RuntimeError(f"jiterator: expected 1 to {_MOST_INPUTS} tensors, got {len(tensors)}")
    for tensor in tensors:
        if not flambeau.is_tensor(tensor) or not tensor.is_cuda:
            raise RuntimeError("jiterator: all inputs must be tensors on a CUDA device")
        if tensor.device != tensors[0].device:
            raise RuntimeError(
                f"jiterator: all inputs must be on one device, got {tensors[0].device} and "
                f"{tensor.device}"
            )


def create_jit_fn(code_string: str, **kwargs: Any) -> Callable[..., Any]:
    """A function of tensors, elementwise, from a C++ template for one element.

    Args:
        code_string: function templates over one type; the last is called for every element, with
            the elements of the inputs and then the numbers.
        kwargs: the numbers, by name, with their defaults.
    """
    return _JittedFunction(code_string, 0, kwargs)


def create_multi_output_jit_fn(
    code_string: str, num_outputs: int, **kwargs: Any
) -> Callable[..., Any]:
    """The same with several results, which the function takes as references at the end."""
    if not 0 < num_outputs <= _MOST_OUTPUTS:
        raise RuntimeError(f"jiterator: expected 1 to {_MOST_OUTPUTS} outputs, got {num_outputs}")
    return _JittedFunction(code_string, num_outputs, kwargs)
