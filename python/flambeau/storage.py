"""Storages: the memory under tensors, as bytes (UntypedStorage) or as a flat array of one dtype
(TypedStorage and its classes by dtype, FloatStorage and so on).

A storage is held by a flat tensor of bytes over all of it. The typed classes are what PyTorch's
files name, and what older programs get from `tensor.storage()`.
"""

from __future__ import annotations

import copyreg
import operator
import os
import sys
import weakref

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


# What Python is told of an object's own size, beside its memory: PyTorch's figures, for summaries
# of models add them up and print the sum.
_UNTYPED_BYTES, _TYPED_BYTES = 40, 32

# The storages that somebody holds, by what tells their memory from other memory.
_living: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()
files: dict[int, str] = {}  # where memory that is a file begins, and the file's name


def _check_has_values(storage: Any) -> None:
    if storage.device.type == "meta":
        raise NotImplementedError("Not available for 'meta' device type")


def _part_of_buffer(data: memoryview, size: int, count: int, offset: int) -> memoryview:
    """The bytes of ``count`` elements of this size, or of all that follow the offset."""
    if not 0 <= offset <= len(data):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({len(data)}) , but "
            f"got {offset}"
        )
    rest = len(data) - offset
    if count < 0:
        if rest % size:
            raise ValueError(f"buffer size ({rest}) must be a multiple of element size ({size})")
        return data[offset:]
    if rest < count * size:
        raise ValueError(
            f"buffer has only {rest // size} elements after offset {offset}, but specified a size "
            f"of {count}"
        )
    return data[offset : offset + count * size]


class _StorageBase:
    """The base of storages of bytes, as libraries ask for them by isinstance."""

    __slots__ = ()


StorageBase = _StorageBase


class UntypedStorage(StorageBase):
    """Memory on one device, shared with the tensors over it.

    Args:
        args: a number of bytes, or a sequence of their values; nothing for an empty storage.
        device: where to make it.
    """

    __slots__ = ("__weakref__", "_known", "_window")
    dtype = flambeau.uint8
    _window: Tensor  # over the memory
    _known: int  # the bytes that the memory had when the window was made

    def __init__(self, *args: Any, device: Any = None) -> None:
        content = args[0] if args else 0
        if isinstance(content, int):
            self._bytes = flambeau.empty(content, dtype=flambeau.uint8, device=device or "cpu")
        else:
            self._bytes = flambeau.tensor(list(content), dtype=flambeau.uint8, device=device)
        _living[self._cdata] = self

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        """The memory under `tensor`: one object while anybody holds it."""
        window = _C._storage_bytes(tensor)
        known = _living.get(_C._storage_facts(window)[0])
        if type(known) is cls:
            return known
        storage = cls.__new__(cls)
        storage._bytes = window
        _living[storage._cdata] = storage
        return storage

    @property
    def _bytes(self) -> Tensor:
        """The memory as numbers, all of it also after a tensor over it has grown."""
        if _C._storage_facts(self._window)[1] != self._known:
            self._bytes = _C._storage_bytes(self._window)
        return self._window

    @_bytes.setter
    def _bytes(self, window: Tensor) -> None:
        self._window, self._known = window, _C._storage_facts(window)[1]

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Memory that is a file; with `shared`, what is written goes to it."""
        size = nbytes or os.path.getsize(filename)
        return cls._of(flambeau.from_file(str(filename), shared, size, dtype=flambeau.uint8))

    def _as_dtype(self, dtype: Any) -> Tensor:
        """A flat tensor of `dtype` over as many whole elements as there are."""
        size = self.nbytes() // dtype.itemsize * dtype.itemsize
        # Of quantized dtypes the integers, as which they lie in memory.
        return self._bytes[:size].view(getattr(dtype, "ints", dtype))

    def _as_elements(self, dtype: Any) -> Tensor:
        """What `torch.tensor` makes of this memory."""
        return self._as_dtype(dtype or flambeau.int64)

    @property
    def filename(self) -> str | None:
        """The file that this memory is, if it is one."""
        return files.get(self.data_ptr())

    def byteswap(self, dtype: Any) -> None:
        """Turns the order of the bytes of each element of `dtype` round."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        whole = self._bytes[: self.nbytes() // width * width].view(-1, width)
        whole.copy_(whole.flip(1))

    @property
    def device(self) -> Any:
        return self._bytes.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_hpu(self) -> bool:
        return self.device.type == "hpu"

    @property
    def _cdata(self) -> int:
        """A number that no other memory has."""
        return _C._storage_facts(self._window)[0]

    def get_device(self) -> int:
        return self._bytes.get_device()

    def is_pinned(self, device: Any = None) -> bool:
        """Whether this is page-locked memory of the host."""
        return self._bytes.is_pinned()

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """A copy in page-locked memory of the host; itself if it is there already."""
        if self.is_cuda:
            raise TypeError(
                f"cannot pin '{self.device.type}' memory: only CPU memory can be pinned"
            )
        return self if self.is_pinned() else UntypedStorage._of(self._bytes.pin_memory())

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._bytes.numel()

    size = nbytes
    __len__ = nbytes

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        return self._bytes.data_ptr()

    def resizable(self) -> bool:
        """Whether `resize_` can give it another size: memory of others keeps its own."""
        return _C._storage_facts(self._window)[2]

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        *,
        dtype: Any = None,
    ) -> UntypedStorage:
        """A storage with a copy of the bytes of an object that exposes a buffer: of ``count``
        elements from a byte on, swapped where their bytes stand in the other order."""
        size = 1 if dtype is None else dtype.itemsize
        data = bytearray(_part_of_buffer(memoryview(buffer).cast("B"), size, count, offset))
        if byte_order is None and size > 1:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        memory = flambeau.empty(len(data), dtype=flambeau.uint8)
        if data:
            memory.copy_(flambeau.frombuffer(data, dtype=flambeau.uint8))
        if byte_order not in (None, "native", sys.byteorder):
            word = size // 2 if dtype.is_complex else size
            memory = memory.view(-1, word).flip(1).reshape(-1)
        return cls._of(memory)

    def __sizeof__(self) -> int:
        return _UNTYPED_BYTES + self.nbytes()

    def untyped(self) -> UntypedStorage:
        return self

    def tolist(self) -> list[int]:
        return self._bytes.tolist()

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        _check_has_values(self)
        found = self._bytes[index]
        if not isinstance(index, slice):
            return found.item()
        return type(self)._of(found.clone())

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_has_values(self)
        self._bytes[index] = value

    def fill_(self, value: int) -> UntypedStorage:
        self._bytes.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Copies the bytes of another storage of the same size."""
        self._bytes.copy_(source.untyped()._bytes, non_blocking)
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Gives the memory another size, for all who share it. What lies in both sizes is kept."""
        if not isinstance(size, int):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        if not -(2**63) <= size < 2**63:
            raise ValueError("Overflow when unpacking long long")
        _C._storage_resize(self._window, size)
        self._bytes = _C._storage_bytes(self._window)
        return self

    def clone(self) -> UntypedStorage:
        """A copy of the memory."""
        return type(self)._of(self._bytes.clone())

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """This storage if it is on `device`, else a copy there."""
        moved = self._bytes.to(device=device, non_blocking=non_blocking)
        return self if moved is self._bytes else type(self)._of(moved)

    def cpu(self) -> UntypedStorage:
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def share_memory_(self) -> UntypedStorage:
        """Moves the memory to where other processes can map it, for tensors made of this storage
        from here on.
        """
        self._bytes.share_memory_()
        _living[self._cdata] = self
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes."""
        return self._bytes.is_shared()

    def __repr__(self) -> str:
        values = "\n ".join(map(str, self))
        return (
            f" {values}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UntypedStorage)
            and self._cdata == other._cdata
            and self.data_ptr() == other.data_ptr()
            and self.nbytes() == other.nbytes()
        )

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        # By address: the object itself may live for this call alone.
        key = ("storage", self._cdata, self.data_ptr(), self.nbytes())
        if key not in memo:
            memo[key] = self.clone()
        return memo[key]


class TypedStorage:
    """A flat array of `dtype` over an UntypedStorage, which it shares with tensors.

    Args:
        args: a number of elements, or a sequence of values; nothing for an empty storage.
        wrap_storage: the memory, instead.
        dtype: the type of the elements, the default dtype by default.
        device: where to make new memory.
    """

    dtype: Any = None

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> None:
        self.dtype = type(self).dtype or dtype or flambeau.get_default_dtype()
        if wrap_storage is not None:
            if args:
                raise RuntimeError(
                    "TypedStorage: no positional arguments can be given when using 'wrap_storage'"
                )
            self._untyped_storage = wrap_storage
        elif args and not hasattr(args[0], "__index__"):
            tensor = flambeau.tensor(list(args[0]), dtype=self.dtype, device=device)
            self._untyped_storage = UntypedStorage._of(tensor)
        else:
            count = operator.index(args[0]) if args else 0
            size = count * self.dtype.itemsize
            self._untyped_storage = UntypedStorage(size, device=device or "cpu")

    def _tensor(self) -> Tensor:
        """A flat tensor over the same memory."""
        return self._untyped_storage._as_dtype(self.dtype)

    def _as_elements(self, dtype: Any) -> Tensor:
        """What `torch.tensor` makes of this memory, which has a dtype already."""
        check_same_dtype(self, dtype or self.dtype)
        return self._tensor()

    @property
    def device(self) -> Any:
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def is_pinned(self, device: Any = None) -> bool:
        """Whether this is page-locked memory of the host."""
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """A copy in page-locked memory of the host; itself if it is there already."""
        pinned = self._untyped_storage.pin_memory(device)
        return TypedStorage(wrap_storage=pinned, dtype=self.dtype)

    def untyped(self) -> Any:
        """The memory."""
        return self._untyped_storage

    def size(self) -> int:
        """The number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    _size = size
    __len__ = size

    def _pickle_storage_type(self) -> str:
        """The name of the class under which files keep this storage."""
        return _class_name(self.dtype)

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def resizable(self) -> bool:
        return self._untyped_storage.resizable()

    @classmethod
    def from_buffer(cls, buffer: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> TypedStorage:
        """A storage with a copy of the elements of an object that exposes a buffer."""
        dtype = cls.dtype or dtype or flambeau.get_default_dtype()
        memory = UntypedStorage.from_buffer(buffer, *args, dtype=dtype, **kwargs)
        return cls(wrap_storage=memory, dtype=dtype)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage over a file, which is written to if it is shared."""
        dtype = cls.dtype or flambeau.get_default_dtype()
        memory = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return cls(wrap_storage=memory, dtype=dtype)

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def __sizeof__(self) -> int:
        return _TYPED_BYTES + self.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def tolist(self) -> list[Any]:
        return self._tensor().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        _check_has_values(self)
        if isinstance(index, slice):
            return type(self)(self.tolist()[index], dtype=self.dtype)
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_has_values(self)
        self._tensor()[index] = value

    def fill_(self, value: Any) -> TypedStorage:
        self._tensor().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Copies the elements of another storage, converting them."""
        values = source._tensor() if isinstance(source, TypedStorage) else source
        self._tensor().copy_(values, non_blocking)
        return self

    def resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def share_memory_(self) -> TypedStorage:
        """Moves the memory to where other processes can map it."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes."""
        return self._untyped_storage.is_shared()

    def _wrap(self, storage: Any) -> TypedStorage:
        return type(self)(wrap_storage=storage, dtype=self.dtype)

    def clone(self) -> TypedStorage:
        """A copy of the memory."""
        return self._wrap(self._untyped_storage.clone())

    def cpu(self) -> TypedStorage:
        return self._wrap(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        return self._wrap(self._untyped_storage.cuda(device, non_blocking))

    def _converted(self, dtype: Any) -> TypedStorage:
        return TypedStorage(wrap_storage=UntypedStorage._of(self._tensor().to(dtype)), dtype=dtype)

    def type(self, dtype: Any = None) -> Any:
        """The name of this storage's class, or a copy of another dtype."""
        if dtype is None:
            return f"torch.{_class_name(self.dtype)}"
        return self._converted(dtype.dtype if hasattr(dtype, "dtype") else dtype)

    def __repr__(self) -> str:
        values = "\n ".join(str(value) for value in self)
        return (
            f" {values}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of "
            f"size {self.size()}]"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and self.dtype == other.dtype
            and self.data_ptr() == other.data_ptr()
            and self.size() == other.size()
        )

    __hash__ = object.__hash__

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return self._wrap(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self) -> Any:
        return _reduce_through_save(self)

    def pickle_storage_type(self) -> str:
        """The name of the class that stands for this dtype in files."""
        return _class_name(self.dtype)


def _reduce_through_save(storage: Any) -> Any:
    import io

    from flambeau.serialization import save

    buffer = io.BytesIO()
    save(storage, buffer)
    return (_load_from_bytes, (buffer.getvalue(),))


def _load_from_bytes(data: bytes) -> Any:
    import io

    from flambeau.serialization import load

    # Reached through `pickle`, which runs code of the file already.
    return load(io.BytesIO(data), weights_only=False)


_CLASS_NAMES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
    "qint8": "QInt8Storage",
    "quint8": "QUInt8Storage",
    "qint32": "QInt32Storage",
}


def _class_name(dtype: Any) -> str:
    """The name of the storage class of `dtype`; newer dtypes have none and are saved by other
    means.
    """
    return _CLASS_NAMES.get(str(dtype).rpartition(".")[2], "UntypedStorage")


def check_same_dtype(storage: Any, dtype: Any) -> None:
    """Raises where a storage of another dtype would be read as this one."""
    if isinstance(storage, TypedStorage) and storage.dtype != dtype:
        wanted, got = (_class_name(d).removesuffix("Storage") for d in (dtype, storage.dtype))
        raise RuntimeError(
            f"Expected a Storage of type {wanted} or an UntypedStorage, but got type {got} for "
            "argument 1 'storage'"
        )


def _has_class(dtype: Any) -> bool:
    return str(dtype).rpartition(".")[2] in _CLASS_NAMES


# Storages in a plain pickle carry a small file of their own, as in PyTorch.
copyreg.pickle(UntypedStorage, _reduce_through_save)

for _dtype_name, _name in _CLASS_NAMES.items():
    _dtype = getattr(flambeau, _dtype_name)
    _class = type(
        _name,
        (TypedStorage,),
        {
            "dtype": _dtype,
            "__module__": "flambeau",
            "__doc__": TypedStorage.__doc__,
        },
    )
    globals()[_name] = _class
    __all__.append(_name)
    if _dtype_name.startswith("q"):
        continue  # a scale is needed to become quantized
    # storage.float(), storage.complex_double() and so on: a copy of another dtype.
    _word = _name.removesuffix("Storage").replace("Complex", "complex_").lower()
    setattr(TypedStorage, _word, lambda self, dtype=_dtype: self._converted(dtype))

Storage = globals()["FloatStorage"]  # what storages were when there was one kind of them
__all__.append("Storage")
