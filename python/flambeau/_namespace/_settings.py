"""Settings of the process and small functions of the top-level namespace that are not ops."""

from __future__ import annotations

import builtins
import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "_assert",
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "finfo",
    "get_deterministic_debug_mode",
    "get_device",
    "get_float32_matmul_precision",
    "iinfo",
    "is_complex",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_inference",
    "is_storage",
    "is_tensor",
    "is_warn_always_enabled",
    "numel",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_warn_always",
    "typename",
    "use_deterministic_algorithms",
]


_DEFAULT: Any = object()  # None is no dtype


def _dtype_for(type: Any) -> Any:
    """The dtype that Python's own type of numbers stands for; anything else itself."""
    named = {float: _C.float64, int: _C.int64, bool: _C.bool, complex: _C.complex128}
    return named.get(type, type) if isinstance(type, builtins.type) else type


class finfo:
    """The limits of a floating-point dtype, the default one by default."""

    def __init__(self, type: Any = _DEFAULT) -> None:
        dtype = _C.get_default_dtype() if type is _DEFAULT else _dtype_for(type)
        facts = _C._float_facts(dtype)
        self.bits, self.max, self.min, self.eps, self.tiny, self.resolution = facts
        self.smallest_normal = self.tiny
        self.dtype = str(dtype.to_real()).removeprefix("torch.")

    def __repr__(self) -> str:
        def short(value: float) -> str:
            return f"{value:g}"

        return (
            f"finfo(resolution={short(self.resolution)}, min={short(self.min)}, "
            f"max={short(self.max)}, eps={short(self.eps)}, "
            f"smallest_normal={short(self.smallest_normal)}, tiny={short(self.tiny)}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type: Any) -> None:
        dtype = _dtype_for(type)
        self.bits, self.min, self.max = _C._integer_facts(dtype)
        self.dtype = str(dtype).removeprefix("torch.")

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def is_tensor(obj: object) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, _C.Tensor)


def is_storage(obj: object) -> bool:
    """Whether obj is a storage."""
    from flambeau import storage

    return isinstance(obj, (storage.TypedStorage, storage.UntypedStorage))


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def numel(input: Tensor) -> int:
    """The number of elements."""
    if not isinstance(input, _C.Tensor):
        raise TypeError(
            f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    return input.numel()


def get_device(input: Tensor) -> int:
    """The number of the CUDA device a tensor is on, -1 if it is on the CPU."""
    return input.get_device()


def typename(obj: Any) -> str:
    """The name of a tensor's type ("torch.FloatTensor"), or of any object's class."""
    if isinstance(obj, _C.Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(kind, "__module__", "")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype and device by a tensor type or its name, "torch.cuda.FloatTensor"."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    name = (
        t if isinstance(t, str) else f"{getattr(t, '__module__', '')}.{getattr(t, '__name__', t)}"
    )
    by_name = {"Half": "float16", "Float": "float32", "Double": "float64", "BFloat16": "bfloat16"}
    kind = name.rsplit(".", 1)[-1].removesuffix("Tensor")
    if kind not in by_name:
        raise TypeError(f"only floating-point types are supported as the default type, got {name}")
    on_cuda = ".cuda." in name
    _C.set_default_dtype(getattr(_C, by_name[kind]))
    if on_cuda or _C.get_default_device().type == "cuda":
        _C.set_default_device("cuda" if on_cuda else "cpu")


# Permissions and demands about how results are computed -------------------------------------------
_deterministic = {"mode": 0, "warn_only": 0, "warn_always": 0}
_PRECISIONS = ("highest", "high", "medium")
_matmul_precision = "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Demands results that are the same in every run, which those of ops on the CPU always are.

    On CUDA, writes to what several indices name are then sorted first, and convolutions and
    attention take the algorithms that keep an order. These have no such form and raise, or warn
    with ``warn_only``: the gradients of ``grid_sample`` by its input and of ``ctc_loss``, and
    ``bincount`` with weights.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not "
                f"{type(value).__name__}"
            )
    _deterministic["mode"] = 0 if not mode else 1 if warn_only else 2
    _deterministic["warn_only"] = bool(warn_only)
    _C._set_math_mode("deterministic", bool(mode))
    _C._set_math_mode("deterministic_warn_only", bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether the same results are demanded of every run."""
    return _deterministic["mode"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether an op that gives other results in another run is to warn instead of raising."""
    return bool(_deterministic["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Sets the same by a number or a word: 0 "default", 1 "warn", 2 "error"."""
    words = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    mode = words.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, 2, `default`, `warn` or `error`, but got "
            f"{debug_mode}"
        )
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 where nothing is demanded, 1 to warn, 2 to raise."""
    return _deterministic["mode"]


def set_warn_always(b: bool) -> None:
    """Sets whether a warning that is given once is given every time."""
    _deterministic["warn_always"] = int(b)
    _C._set_warn_always(bool(b))


def is_warn_always_enabled() -> bool:
    """Whether a warning that is given once is given every time."""
    return bool(_deterministic["warn_always"])


def get_float32_matmul_precision() -> str:
    """How exact products of single precision have to be: "highest", "high" or "medium"."""
    return _matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Allows products of single precision to be less exact; they may stay more exact."""
    global _matmul_precision
    if precision not in _PRECISIONS:
        raise RuntimeError(
            f"Float32 matmul precision must be one of {', '.join(_PRECISIONS)}, got {precision}"
        )
    _matmul_precision = precision
    from flambeau.backends import cuda

    cuda.matmul.allow_tf32 = precision != "highest"


def compiled_with_cxx11_abi() -> bool:
    """True: the core's strings are those of C++11."""
    return True


def _assert(condition: Any, message: str) -> Any:
    """Raises AssertionError unless `condition` holds; tracing makes it a part of the graph."""
    from flambeau import Tensor
    from flambeau.overrides import handle_torch_function, has_torch_function

    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message
