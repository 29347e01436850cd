"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._operators._kinds import kind_named

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _MarkedTensorType(type(Tensor)):  # type: ignore[misc]
    """Makes ``isinstance`` accept tensors of other subclasses that carry the class's mark."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return isinstance(instance, Tensor) and getattr(instance, cls._mark, False) is True


class _ParameterMeta(_MarkedTensorType):
    _mark = "_is_param"


class _BufferMeta(_MarkedTensorType):
    _mark = "_is_buffer"


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a parameter of the module it is assigned to.

    Shares memory with ``data``. A tensor of a subclass of Tensor keeps its class and is marked.
    """

    requires_grad: bool

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        # Keep the class of a custom tensor: detach() must give that class back.
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} "
                "requires that detach() returns an instance of the same type, but return "
                f"type {type(tensor).__name__} was found instead. To use the type as a "
                "Parameter, please correct the detach() semantics defined by "
                "its __torch_dispatch__() implementation."
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(
            self.data.clone(memory_format=flambeau.preserve_format), self.requires_grad
        )
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        from flambeau._utils import _rebuild_parameter, _rebuild_parameter_with_state

        state = self.__dict__ or None
        # Hooks belong to the running program, so an empty mapping stands in for them.
        if state is None:
            return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())
        return (
            _rebuild_parameter_with_state,
            (self.data, self.requires_grad, OrderedDict(), state),
        )

    __torch_function__ = _C._disabled_torch_function_impl


# The core knows this type, and spares its tensors the search for overrides.
Tensor._set_parameter_type(Parameter)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is a buffer of the module it is assigned to, saved if ``persistent``."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = flambeau.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor

    __torch_function__ = _C._disabled_torch_function_impl


def _allowed_before_shape(name: str) -> bool:
    """Whether that may be done with a parameter that has no shape yet: conversions, copies, and
    questions about the tensor itself."""
    kind = kind_named(name)
    return kind.has("converts") or name in ("copy_", "__hash__") or name in _QUESTIONS


_QUESTIONS = ("size", "is_complex", "is_floating_point", "get_device")


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; ``materialize`` gives it one, and its true class."""

    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives the tensor its shape, with arbitrary values."""
        own: Any = self
        data = own.data
        own.data = flambeau.empty(
            shape,
            device=data.device if device is None else device,
            dtype=data.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        own: Any = self
        make: Any = type(self)
        copied = make(own.requires_grad, own.data.device, own.data.dtype)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        own: Any = self
        return type(self), (own.requires_grad,)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Attributes are read through methods of their descriptors.
        reads = getattr(func, "__name__", "") in ("__get__", "__set__")
        if reads or _allowed_before_shape(getattr(func, "__name__", "")):
            with _C.DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
            if reads or type(result) is not Tensor:
                return result
            # Of another dtype or on another device it has no shape either.
            return cls(args[0].requires_grad, result.device, result.dtype)  # type: ignore[call-arg]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            "`torch.nn.parameter.UninitializedParameter` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling torch "
            "functions"
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[override]
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = flambeau.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)


class _MaterializedBuffer(Tensor):
    """What an UninitializedBuffer becomes: an object cannot take on the class Tensor itself."""

    __torch_function__ = _C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[override]
    """A buffer whose shape is not known yet."""

    cls_to_become = _MaterializedBuffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:  # fmt: skip
        data = flambeau.empty(0, device=device, dtype=dtype)
        made = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Tells whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
