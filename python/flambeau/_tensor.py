"""The part of Tensor that is written in Python: methods that are not hot, attached to the core's
type.

Nothing here replaces a method the core has; `attach` fills in what is missing.
"""

from __future__ import annotations

import functools

import flambeau
from flambeau import _C, _tensor_legacy, _utils
from flambeau._namespace import _statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from flambeau import Tensor


# Subclasses and __torch_function__ ----------------------------------------------------------------
def _convert(value: Any, cls: type) -> Any:
    """`value` with its tensors, in tuples and lists too, made instances of `cls`."""
    if isinstance(value, flambeau.Tensor):
        return value if cls is flambeau.Tensor or isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, (tuple, list)) and value:
        items = [_convert(item, cls) for item in value]
        if all(new is old for new, old in zip(items, value)):
            return value
        # Named results are made from one sequence, as tuples and lists are; named tuples from
        # arguments.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def __torch_function__(
    cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """What subclasses do unless they say otherwise: the operation, with results of the subclass."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with _C.DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    # `x.grad` and `x._base` are tensors in their own right, whatever class x is of.
    if func in _returns_other_tensors():
        return result
    return _convert(result, cls)


_other_tensors: set[Any] = set()


def _returns_other_tensors() -> set[Any]:
    if not _other_tensors:
        for name in ("grad", "_base", "_grad"):
            attribute = getattr(flambeau.Tensor, name, None)
            if attribute is not None:
                _other_tensors.add(attribute.__get__)
    return _other_tensors


# Text ---------------------------------------------------------------------------------------------
def __repr__(self: Tensor, *, tensor_contents: str | None = None) -> str:
    from flambeau import _tensor_str

    if _C._is_wrapped(self):  # there are no values to show
        return f"{type(self).__name__}(..., size={tuple(self.shape)}, dtype={self.dtype})"
    return _tensor_str._str(self, tensor_contents=tensor_contents)


def __format__(self: Tensor, format_spec: str) -> str:
    if self.dim() == 0 and not self.is_meta and type(self) is flambeau.Tensor:
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


def __dir__(self: Tensor) -> list[str]:
    names = set(dir(type(self))) | set(self.__dict__)
    return sorted(name for name in names if not name[0].isdigit())


# Autograd -----------------------------------------------------------------------------------------


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradients of this tensor with respect to the leaves of its graph to the leaves'
    `.grad`.

    Args:
        gradient: the gradient of this tensor itself; may be left out for a single number.
        retain_graph: keeps what the graph saved, for a second pass; by default as `create_graph`.
        create_graph: records the pass itself, so that gradients can be differentiated again.
        inputs: the only tensors whose `.grad` is to be added to; by default all leaves.
    """
    flambeau.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


# Copying and pickling -----------------------------------------------------------------------------


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment. If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage."
        )
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    with flambeau.no_grad(), _C.DisableTorchFunctionSubclass():
        apart = _C._is_wrapped(self) or self.is_conj() or self.is_neg()
        apart = apart or self.layout is not flambeau.strided
        copied = self.detach().clone() if apart else _copy_of_memory(self, memo)
        if type(self) is not type(copied):
            copied = copied.as_subclass(type(self))
    copied.requires_grad_(self.requires_grad)
    memo[id(self)] = copied
    if self.grad is not None:
        copied.grad = self.grad.__deepcopy__(memo)
    for name, value in self.__dict__.items():
        copied.__dict__[name] = deepcopy(value, memo)
    for name, value in _slots_of(self).items():
        setattr(copied, name, deepcopy(value, memo))
    return copied


def _slots_of(tensor: Tensor) -> dict[str, Any]:
    """What a subclass keeps in slots."""
    if type(tensor) is flambeau.Tensor:
        return {}
    import copyreg

    names: list[str] = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def _state_of(tensor: Tensor) -> Any:
    """What is kept of a subclass beside its numbers: what it says itself, or its attributes."""
    own = getattr(type(tensor), "__getstate__", None)
    if own is not None and own is not getattr(flambeau.Tensor, "__getstate__", None):
        return own(tensor)
    slots = _slots_of(tensor)
    return (dict(tensor.__dict__), slots) if slots else dict(tensor.__dict__)


def _copy_of_memory(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """A tensor of the same strides on a copy of the storage; tensors that share memory still share
    it.
    """
    if tensor.is_meta:
        return flambeau.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
        )
    from flambeau.storage import UntypedStorage

    copied = UntypedStorage._of(tensor).__deepcopy__(memo)
    return _utils._window(
        copied, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()
    )


def __reduce_ex__(self: Tensor, protocol: int) -> Any:
    func, args = _utils._reduce_tensor(
        self if _C._is_wrapped(self) else self.resolve_conj().resolve_neg()
    )
    if type(self) is flambeau.Tensor and not self.__dict__:
        return (func, args)
    return (_rebuild_from_type_v2, (func, type(self), args, _state_of(self)))


def _rebuild_from_type_v2(func: Callable[..., Any], new_type: type, args: Any, state: Any) -> Any:
    tensor = func(*args)
    if type(tensor) is not new_type and not tensor.is_quantized:
        tensor = tensor.as_subclass(new_type)
    if new_type.__setstate__ is not flambeau.Tensor.__setstate__:  # type: ignore[attr-defined]
        tensor.__setstate__(state)
    elif state:
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        tensor.__dict__.update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(tensor, name, value)
    return tensor


def __setstate__(self: Tensor, state: Any) -> None:
    self.__dict__.update(state)


# Storages -----------------------------------------------------------------------------------------


def untyped_storage(self: Tensor) -> Any:
    """The memory under this tensor, as bytes."""
    from flambeau.storage import UntypedStorage

    return UntypedStorage._of(self)


def storage(self: Tensor) -> Any:
    """The memory under this tensor, as an array of its dtype."""
    from flambeau.storage import TypedStorage

    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


def storage_type(self: Tensor) -> Any:
    """The class of this tensor's storage."""
    from flambeau import storage as classes

    return getattr(classes, classes._class_name(self.dtype))


def _accept_storages(core_set: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def set_(self: Tensor, source: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        """Makes this tensor a window on the memory of a tensor or a storage, or an empty one."""
        if source is None:
            return core_set(self)
        if not isinstance(source, flambeau.Tensor) and hasattr(source, "untyped"):
            from flambeau.storage import check_same_dtype

            check_same_dtype(source, self.dtype)
            source = source.untyped()._as_dtype(self.dtype)
        return core_set(self, source, *args, **kwargs)

    return set_


# Conversions --------------------------------------------------------------------------------------


def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """A tensor of the same dtype on the same device: of sizes, of a sequence, or empty."""
    from flambeau._namespace._tensor_types import construct

    if size is not None:
        args = tuple(size)
    if device is not None and args and isinstance(args[0], flambeau.Tensor) and not self.is_sparse:
        raise RuntimeError("Legacy tensor new(tensor, device=device): use torch.as_tensor(...)")
    place = self.device if device is None else flambeau.device(device)
    if self.is_sparse:
        if not args or isinstance(args[0], int):
            return flambeau.empty(
                args or 0, dtype=self.dtype, device=place, layout=flambeau.sparse_coo
            )
        return flambeau.sparse_coo_tensor(*args, dtype=self.dtype, device=place)
    return construct(args, self.dtype, place)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of this tensor's type (torch.FloatTensor), or the tensor converted to another."""
    from flambeau._namespace import _tensor_types

    if dtype is None:
        return _tensor_types.type_name(self)
    new_dtype, device = _tensor_types.resolve(dtype)
    if device is None or device == self.device.type:
        return self.to(new_dtype, non_blocking=non_blocking)
    return self.to(device, new_dtype, non_blocking)


type_.__name__ = "type"


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the other tensor has the same shape."""
    return self.shape == other.shape


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether the other tensor is the same window on the same memory."""
    one, other = (x if x._base is None else x._base for x in (self, tensor))
    return (
        not any(x.is_conj() or x.is_neg() for x in (self, tensor))
        and self.data_ptr() == tensor.data_ptr()
        and (self.data_ptr() != 0 or one is other)
        and (self.dtype, self.shape) == (tensor.dtype, tensor.shape)
        and self.stride() == tensor.stride()
    )


def apply_(self: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by what a Python function of it gives. Slow."""
    return map_(self, None, lambda value, _: function(value))


def map_(self: Tensor, tensor: Tensor | None, function: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element by a Python function of it and of that of another tensor. Slow."""
    if self.requires_grad or (tensor is not None and tensor.requires_grad):
        raise RuntimeError(
            "Can't call apply_() or map_() on Variable that requires grad. Use var.detach() first."
        )
    if tensor is not None and tensor.type() != self.type():
        raise TypeError(f"map_: expected {self.type()} for 'other' (got {tensor.type()})")
    others = [None] * self.numel() if tensor is None else tensor.expand_as(self).flatten().tolist()
    results = [function(one, two) for one, two in zip(self.reshape(-1).tolist(), others)]
    if text := [result for result in results if isinstance(result, (str, bytes))]:
        raise TypeError(f"must be real number, not {type(text[0]).__name__}")
    self.data.copy_(flambeau.tensor(results, dtype=self.dtype).view(self.shape))  # not counted
    return self


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module's load_state_dict puts in the place of this tensor."""
    return other.detach() if assign else self.detach().copy_(other)


# Sequences and NumPy ------------------------------------------------------------------------------


def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def __reversed__(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def __contains__(self: Tensor, element: Any) -> bool:
    if isinstance(element, (flambeau.Tensor, int, float, complex)):
        return bool((self == element).any().item())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def __array__(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    if copy is False and dtype is not None and self.numpy().dtype != dtype:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    array = self.numpy()
    if dtype is not None:
        return array.astype(dtype, copy=bool(copy))
    return array.copy() if copy else array


def __array_wrap__(self: Tensor, array: Any, *args: Any) -> Any:
    if array.dtype == bool:
        # NumPy's comparisons of a tensor give bytes to programs of old.
        array = array.astype("uint8")
    return flambeau.from_numpy(array)


# Arithmetic that Python asks of the right operand -------------------------------------------------


def __rdiv__(self: Tensor, other: Any) -> Tensor:
    return self.reciprocal() * other


# Shapes -------------------------------------------------------------------------------------------


def split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Cuts the tensor along `dim` into chunks of `split_size`, or of the sizes in a list."""
    return flambeau.split(self, split_size, dim)


def unflatten(self: Tensor, dim: int, sizes: Any) -> Tensor:
    """Unfolds dimension `dim` into `sizes`, of which one may be -1."""
    if not isinstance(sizes, flambeau.Size) and not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    return flambeau.unflatten(self, dim, sizes)


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, outermost first.

    With `ambiguity_check`, which may be a list of memory formats, several possible orders raise.
    """
    strides = self.stride()
    if ambiguity_check and _order_is_ambiguous(self, ambiguity_check):
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given "
            "memory formats."
        )
    return tuple(sorted(range(self.dim()), key=lambda dim: -strides[dim]))


def _order_is_ambiguous(tensor: Tensor, formats: Any) -> bool:
    if not isinstance(formats, bool):
        is_list = isinstance(formats, (list, tuple))
        if not is_list or any(not isinstance(each, flambeau.memory_format) for each in formats):
            raise TypeError(
                "The ambiguity_check argument must be a bool or a list of memory formats."
            )
        return sum(tensor.is_contiguous(memory_format=each) for each in formats) != 1
    long = [stride for stride, size in zip(tensor.stride(), tensor.shape) if size > 1]
    return len(set(long)) != len(long) or len(long) != tensor.dim()


def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory to where other processes can map it."""
    from flambeau.multiprocessing import reductions

    return reductions.share_memory_(self)


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes."""
    from flambeau.multiprocessing import reductions

    return reductions.is_shared(self)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked memory of the host, which copies to a GPU without being waited for."""
    return _C._pin_memory(self)


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the elements are in page-locked memory of the host."""
    return bool(_C._is_pinned(self))


def record_stream(self: Tensor, s: Any) -> None:
    """Says that stream s uses the memory too: it is not reused before s is done with it."""
    _C._cuda_record_stream(self, s._raw)


def _from_function(name: str) -> Callable[..., Any]:
    """A method that is a function of a module which is loaded when it is first called."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        import flambeau

        return getattr(flambeau, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    return method


def _to_sparse(name: str) -> Callable[..., Any]:
    """A method that makes a sparse tensor."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from flambeau.sparse import _construct

        return getattr(_construct, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    return method


def _of_sparse(name: str) -> Callable[..., Any]:
    """A method of sparse tensors alone."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from flambeau.sparse import _operations

        return _operations.run(name, (self, *args), kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    return method


def qscheme(self: Any) -> Any:
    """How the integers of a quantized tensor stand for real numbers."""
    from flambeau import _quantized

    return _quantized._qscheme(self)


def to_sparse_coo(self: Any) -> Any:
    """The elements that are not zero, by coordinates."""
    return self.to_sparse()


# NumPy's letters for the dtypes that CUDA arrays of other libraries have.
_ARRAY_TYPES = {
    "bool": "|b1", "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8",
    "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4",
    "float64": "<f8", "bfloat16": "<V2", "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """Where the elements lie in the memory of a GPU, told in the words of Numba's protocol."""
    if not self.is_cuda:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA "
            "data is required use tensor.cuda() to copy tensor to device memory."
        )
    if self.layout is not flambeau.strided:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on sparse type: {self.type()} Use "
            "Tensor.to_dense() to convert to a dense tensor first."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    size = self.element_size()
    strides = None if self.is_contiguous() else tuple(step * size for step in self.stride())
    return {
        "typestr": _ARRAY_TYPES[str(self.dtype).split(".")[-1]],
        "shape": tuple(self.shape),
        "strides": strides,
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 2,
    }


_QUANTIZED_METHODS = (
    "dequantize int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points "
    "q_per_channel_axis"
)
_SPARSE_METHODS = "resize_as_sparse_ sparse_resize_ sparse_resize_and_clear_ smm sspaddmm"

_METHODS: tuple[Callable[..., Any], ...] = (
    __repr__,
    __format__,
    __dir__,
    backward,
    __deepcopy__,
    __reduce_ex__,
    __setstate__,
    new,
    type_,
    qscheme,
    to_sparse_coo,
    *map(_to_sparse, "to_sparse to_sparse_csr to_sparse_csc sparse_mask".split()),
    *map(_to_sparse, ("to_sparse_bsr", "to_sparse_bsc")),
    *map(_of_sparse, _SPARSE_METHODS.split()),
    *map(_from_function, "cholesky eig lstsq lu qr solve symeig stft istft".split()),
    *map(_from_function, _QUANTIZED_METHODS.split()),
    is_same_size,
    is_set_to,
    apply_,
    map_,
    module_load,
    untyped_storage,
    storage,
    storage_type,
    __iter__,
    __reversed__,
    __contains__,
    __array__,
    __array_wrap__,
    __rdiv__,
    split,
    unflatten,
    dim_order,
    is_shared,
    pin_memory,
    is_pinned,
    record_stream,
    share_memory_,
    _statistics.unique,
    _statistics.unique_consecutive,
    *_tensor_legacy.METHODS,
)


def _overridable(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, unless the tensor's class or a mode takes it over."""

    @functools.wraps(method)
    def wrapper(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not _C._has_torch_function((self,)):
            return method(self, *args, **kwargs)
        from flambeau.overrides import handle_torch_function

        return handle_torch_function(wrapper, (self,), self, *args, **kwargs)

    return wrapper


def attach(tensor_type: Any) -> None:
    """Gives the core's Tensor type the methods of this file that it has not got itself."""
    own = tensor_type.__dict__
    for method in _METHODS:
        if method.__name__ not in own:
            # What iterates is taken over where it unbinds.
            overridable = method if method is __iter__ else _overridable(method)
            setattr(tensor_type, method.__name__, overridable)
    tensor_type._typed_storage = storage
    tensor_type.__cuda_array_interface__ = property(_cuda_array_interface)
    tensor_type.set_ = _accept_storages(tensor_type.set_)
    if "__array_priority__" not in own:
        tensor_type.__array_priority__ = 1000  # prefer Tensor over ndarray in mixed arithmetic
    from flambeau._operators._wrapped_creation import make_wrapper_subclass

    tensor_type._make_wrapper_subclass = staticmethod(make_wrapper_subclass)
    if "__torch_function__" not in own:
        tensor_type.__torch_function__ = classmethod(__torch_function__)
