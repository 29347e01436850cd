"""Functions that pickles name in order to rebuild objects; their names are part of the format.
Beside them those that lay many tensors out as one, which programs take from here too.
"""

from __future__ import annotations

import copyreg
import math
from collections import OrderedDict

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from flambeau import Tensor


# The core's types say that they are in a module called torch, which is not there to be imported:
# plain pickles, and copies, rebuild their objects through functions of this one.


def _rebuild_size(sizes: tuple[int, ...]) -> Any:
    return flambeau.Size(sizes)


def _rebuild_device(name: str) -> Any:
    return flambeau.device(name)


def _core_type(name: str) -> Any:
    return getattr(flambeau, name)


def _rebuild_result(op: str, fields: tuple[Any, ...]) -> Any:
    return flambeau._C._result_types[op](fields)


def _reduce_result(result: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return _rebuild_result, (type(result).__name__, tuple(result))


def _reduce_type(cls: type) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """A class of the core by its name here; a class made from one is found where it was defined."""
    name = cls.__name__
    return (_core_type, (name,)) if getattr(flambeau, name, None) is cls else cls.__qualname__


for _meta in (type(flambeau.Tensor), type(flambeau.Size)):
    copyreg.pickle(_meta, _reduce_type)  # type: ignore[arg-type]
copyreg.pickle(flambeau.Size, lambda size: (_rebuild_size, (tuple(size),)))
copyreg.pickle(flambeau.device, lambda device: (_rebuild_device, (str(device),)))
for _result in flambeau._C._result_types.values():
    copyreg.pickle(_result, _reduce_result)


def _reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and arguments that rebuild a plain tensor of the same data, strides and
    requires_grad.
    """
    if tensor.layout is not flambeau.strided:
        from flambeau.sparse import _construct

        return _rebuild_sparse_tensor, (tensor.layout, _construct.parts(tensor))
    # Hooks belong to the running program, so an empty mapping stands in for them.
    hooks: OrderedDict[int, Any] = OrderedDict()
    size, stride = tuple(tensor.size()), tuple(tensor.stride())
    if flambeau._C._is_wrapped(tensor):
        place = (tensor.storage_offset(), tensor.layout, tensor.device, tensor.requires_grad)
        return _rebuild_wrapper_subclass, (type(tensor), tensor.dtype, size, stride, *place)
    if tensor.is_meta:
        arguments = (tensor.dtype, size, stride, tensor.requires_grad)
        return _rebuild_meta_tensor_no_storage, arguments
    from flambeau.storage import TypedStorage, UntypedStorage, _has_class

    untyped = UntypedStorage._of(tensor)
    where = (tensor.storage_offset(), size, stride, tensor.requires_grad, hooks)
    if not _has_class(tensor.dtype):
        return _rebuild_tensor_v3, (untyped, *where, tensor.dtype)
    storage = TypedStorage(wrap_storage=untyped, dtype=tensor.dtype)
    return _rebuild_tensor_v2, (storage, *where)


def _window(untyped: Any, dtype: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor over a part of a storage."""
    tensor = flambeau.empty(0, dtype=dtype, device=untyped.device)
    memory = untyped._as_dtype(dtype)
    return tensor.set_(memory, memory.storage_offset() + storage_offset, size, stride)


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    return _window(storage._untyped_storage, storage.dtype, storage_offset, size, stride)


def _with_metadata(tensor: Tensor, requires_grad: bool, metadata: Any) -> Tensor:
    """A tensor as it was saved: PyTorch's files hold the numbers that a conjugate or a negative is
    a view of, and say that it is one."""
    if metadata:
        if metadata.get("conj"):
            tensor = tensor.conj().detach()
        if metadata.get("neg"):
            tensor = tensor._neg_view().detach()
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _with_metadata(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    tensor = _window(storage.untyped(), dtype, storage_offset, size, stride)
    return _with_metadata(tensor, requires_grad, metadata)


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Tensor:
    from flambeau.sparse import _construct

    return _construct.rebuild(layout, data)


def _rebuild_qtensor(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    quantizer_params: Any,
    requires_grad: bool,
    backward_hooks: Any,
) -> Tensor:
    from flambeau._quantized._quantizers import INTS, of_parameters
    from flambeau._quantized._tensor import QuantizedTensor

    if storage.dtype not in INTS:
        raise RuntimeError(f"load: a quantized tensor cannot be of {storage.dtype}")
    quantizer = of_parameters(quantizer_params)
    ints = _window(storage._untyped_storage, INTS[storage.dtype], storage_offset, size, stride)
    return QuantizedTensor._over(ints, quantizer)


def _rebuild_nested_tensor(
    buffer: Tensor, sizes: Tensor, strides: Tensor, storage_offsets: Tensor
) -> Tensor:
    parts = list(zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist(), strict=True))
    if sum(math.prod(size) for size, _, _ in parts) > buffer.numel():
        raise RuntimeError("load: a nested tensor has more elements than its buffer")
    components = [buffer.as_strided(size, stride, offset) for size, stride, offset in parts]
    return flambeau.nested.nested_tensor(components, dtype=buffer.dtype, device=buffer.device)


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: bool
) -> Tensor:
    return flambeau.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
    )


def _rebuild_wrapper_subclass(
    cls: Any,
    dtype: Any,
    size: Any,
    stride: Any,
    storage_offset: int,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Any:
    return flambeau.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls,
        size,
        strides=stride,
        storage_offset=storage_offset,
        layout=layout,
        device=device,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    return flambeau.nn.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Any, requires_grad: bool, backward_hooks: Any, state: Any
) -> Any:
    parameter = flambeau.nn.Parameter(data, requires_grad)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter


class ExceptionWrapper:
    """An exception on its way to another process: its class, and its traceback as text."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import sys
        import traceback

        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> None:
        """Raises an exception of the class, with the traceback in its message."""
        name = self.exc_type.__name__
        message = f"Caught {name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            # KeyError shows the repr of its message, which would hide line breaks.
            raise KeyError(_Text(message))
        try:
            error = self.exc_type(message)
        except Exception:
            # Its class wants other arguments.
            raise RuntimeError(message) from None
        raise error


class _Text(str):
    """A string that shows itself as it is."""

    def __repr__(self) -> str:
        return str(self)


class classproperty:
    """A property of a class, read without an instance."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


def _get_all_device_indices() -> list[int]:
    """The CUDA devices there are."""
    return list(range(flambeau.cuda.device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device; of one without a number, or of None, the current one's."""
    if isinstance(device, str):
        device = flambeau.device(device)
    if isinstance(device, flambeau.device):
        if device.type == "cpu":
            if not allow_cpu:
                raise ValueError(f"Expected a non cpu device, but got: {device}")
            return -1
        device = device.index
    if isinstance(device, int):
        return device
    if not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    return int(flambeau.cuda.current_device())


def _element_size(dtype: Any) -> int:
    """The bytes that an element takes."""
    if not isinstance(dtype, flambeau.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return int(dtype.itemsize)


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Groups of tensors of one type, of as many bytes together as the limit allows."""
    groups: dict[str, list[Tensor]] = {}
    sizes: dict[str, int] = {}
    for tensor in tensors:
        kind = tensor.type()
        size = tensor.numel() * tensor.element_size()
        if sizes.get(kind, 0) > 0 and sizes[kind] + size > size_limit:
            yield groups[kind]
            groups[kind], sizes[kind] = [], 0
        groups.setdefault(kind, []).append(tensor)
        sizes[kind] = sizes.get(kind, 0) + size
    yield from groups.values()


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one dtype, one after the other."""
    if len(tensors) == 1:
        return tensors[0].contiguous().view(-1)
    return flambeau.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Windows on `flat`, one after the other, in the shapes of the tensors."""
    parts = flat[: sum(tensor.numel() for tensor in tensors)].split([t.numel() for t in tensors])
    return tuple(part.view_as(like) for part, like in zip(parts, tensors))


def _get_available_device_type() -> str | None:
    """The type of the accelerator there is."""
    return "cuda" if flambeau.cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """The module about a type of devices."""
    module = getattr(flambeau, device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module.")
    return module


def is_compiling() -> bool:
    """False: this line is being run."""
    return False


def _get_obj_state(obj: Any) -> Any:
    """What a pickle would keep of an object besides its class: attributes, and those of slots."""
    getter = getattr(obj, "__getstate__", None)
    if getter is not None:
        return getter()
    names = copyreg._slotnames(type(obj))  # type: ignore[attr-defined]
    slots = {name: getattr(obj, name) for name in names if hasattr(obj, name)}
    return (obj.__dict__, slots) if slots else obj.__dict__


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Gives an object attributes that `_get_obj_state` read of another."""
    own, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(own or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj
