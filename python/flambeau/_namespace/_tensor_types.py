"""The tensor types of old: `torch.FloatTensor([1, 2])`, `isinstance(x, torch.LongTensor)`,
`x.type("torch.FloatTensor")`. Each stands for a dtype on a kind of device.
"""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

_NAMES = {
    "FloatTensor": flambeau.float32,
    "DoubleTensor": flambeau.float64,
    "HalfTensor": flambeau.float16,
    "BFloat16Tensor": flambeau.bfloat16,
    "LongTensor": flambeau.int64,
    "IntTensor": flambeau.int32,
    "ShortTensor": flambeau.int16,
    "CharTensor": flambeau.int8,
    "ByteTensor": flambeau.uint8,
    "BoolTensor": flambeau.bool,
    "ComplexFloatTensor": flambeau.complex64,
    "ComplexDoubleTensor": flambeau.complex128,
    "UInt16Tensor": flambeau.uint16,
    "UInt32Tensor": flambeau.uint32,
    "UInt64Tensor": flambeau.uint64,
}
_BY_DTYPE = {dtype: name for name, dtype in _NAMES.items()}
# Names of types that nobody can construct tensors with.
_BY_DTYPE[flambeau.complex32] = "ComplexHalfTensor"
for _kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"):
    _BY_DTYPE[getattr(flambeau, f"float8_{_kind}")] = f"Float8_{_kind}Tensor"


class tensortype(type):
    """A type that is called for tensors and recognises them, but has no instances of its own."""

    dtype: Any
    is_cuda: bool
    layout: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, flambeau.Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == ("cuda" if cls.is_cuda else "cpu")
        )

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        where = flambeau.device("cuda" if cls.is_cuda else "cpu" if device is None else device)
        if device is not None and where.type != ("cuda" if cls.is_cuda else "cpu"):
            raise RuntimeError(
                f"legacy constructor expects device type: {'cuda' if cls.is_cuda else 'cpu'} but "
                f"device type: {where.type} was passed"
            )
        return construct(args, cls.dtype, where)


def construct(args: tuple[Any, ...], dtype: Any, device: Any) -> Tensor:
    """What the old constructors make: of sizes uninitialised memory, of a sequence its values, of a
    tensor the tensor itself, of nothing an empty tensor.
    """
    if not args:
        return flambeau.empty(0, dtype=dtype, device=device)
    first = args[0]
    if isinstance(first, flambeau.Size) and len(args) == 1:
        return flambeau.empty(first, dtype=dtype, device=device)
    if isinstance(first, int) and not isinstance(first, bool):
        return flambeau.empty(args, dtype=dtype, device=device)
    if len(args) > 1:
        raise TypeError(f"new(): expected sizes or one sequence, but got {len(args)} arguments")
    if isinstance(first, flambeau.Tensor):
        if first.dtype != dtype or first.device.type != device.type:
            raise TypeError(
                f"new(): expected a tensor of {dtype} on {device.type}, but got {first.dtype} on "
                f"{first.device}"
            )
        return first.detach()
    if hasattr(first, "_as_elements"):  # a storage
        return first._as_elements(dtype).detach()
    if isinstance(first, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(first, "__getitem__") or not hasattr(first, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return flambeau.tensor(
        first if hasattr(first, "__array__") else list(first), dtype=dtype, device=device
    )


def _make(name: str, cuda: bool) -> tensortype:
    module = "torch.cuda" if cuda else "torch"
    body = {
        "dtype": _NAMES[name],
        "is_cuda": cuda,
        "layout": flambeau.strided,
        "is_sparse": False,
        "__module__": module,
    }
    return tensortype(name, (), body)


_made: dict[tuple[str, bool], tensortype] = {}


def tensor_type(name: str, cuda: bool = False) -> tensortype:
    """The type called `name`, such as FloatTensor."""
    if name not in _NAMES:
        raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
    if (name, cuda) not in _made:
        _made[name, cuda] = _make(name, cuda)
    return _made[name, cuda]


def type_name(tensor: Tensor) -> str:
    """The name of the type of a tensor, such as torch.FloatTensor."""
    prefix = "torch." if tensor.device.type == "cpu" else f"torch.{tensor.device.type}."
    if tensor.layout is not flambeau.strided:
        if not tensor.is_sparse:
            raise RuntimeError(f"Unimplemented backend SparseCsr{tensor.device.type.upper()}")
        prefix += "sparse."
    return prefix + _BY_DTYPE[tensor.dtype]


def resolve(kind: Any) -> tuple[Any, str | None]:
    """The dtype, and the device where there is one, that a type, a dtype or a name stands for."""
    if isinstance(kind, flambeau.dtype):
        return kind, None
    if isinstance(kind, tensortype):
        return kind.dtype, "cuda" if kind.is_cuda else "cpu"
    if kind is flambeau.Tensor:
        return flambeau.get_default_dtype(), None
    if isinstance(kind, str):
        prefix, _, name = kind.rpartition(".")
        if prefix in ("torch", "torch.cuda") and name in _NAMES:
            return _NAMES[name], "cuda" if prefix == "torch.cuda" else "cpu"
        raise ValueError(f"invalid type: '{kind}'")
    if isinstance(kind, type):
        raise ValueError(f"invalid type: '{kind.__name__}'")
    raise TypeError("type(): dtype must be a type, str, or dtype object")
