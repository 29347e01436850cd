"""Module: the base of every network, holding parameters, buffers and other modules by name."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from flambeau.nn.modules import _hooks
from flambeau.nn.modules._convert import parse_to
from flambeau.nn.modules._hooks import (
    HookMethods,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from flambeau.nn.modules._state import (
    _EXTRA_STATE_KEY_SUFFIX,
    StateMethods,
    _IncompatibleKeys,
)
from flambeau.nn.modules._traversal import TraversalMethods, typename
from flambeau.nn.parameter import Buffer, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Self = TypeVar("Self", bound="Module")

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_IncompatibleKeys",
    "_addindent",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_forward_pre_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_HOOK_REGISTRIES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
# Where members are kept, what one is called, and what may take the place of one.
_REGISTRIES = (
    ("_parameters", "parameter", "torch.nn.Parameter or None"),
    ("_modules", "child module", "torch.nn.Module or None"),
    ("_buffers", "buffer", "torch.nn.Buffer, torch.Tensor or None"),
)


def _register_buffer(module: Module, name: str, value: Buffer) -> None:
    """Registers a buffer with a method that a subclass may have overridden in an older form."""
    if type(module).register_buffer is not Module.register_buffer:
        import inspect

        if "persistent" not in inspect.signature(module.register_buffer).parameters:
            module.register_buffer(name, value)
            return
    module.register_buffer(name, value, getattr(value, "persistent", True))


def _shares_kind(one: Tensor, other: Tensor) -> bool:
    """Whether one's memory can take the place of the other's."""
    return one.is_meta == other.is_meta and one.layout == other.layout


def _addindent(text: str, spaces: int) -> str:
    """Indents every line of ``text`` but the first."""
    return text.replace("\n", "\n" + " " * spaces)


class _CallSignature:
    """What `inspect.signature` reads of a module, whose call is in C."""

    def __get__(self, module: Any, owner: type) -> Any:
        import inspect

        if module is None or owner.__call__ is not Module.__call__:  # type: ignore[operator]
            raise AttributeError("__signature__")
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature(list(map(inspect.Parameter, ("args", "kwargs"), kinds)))


def _is_tensor_like(value: Any) -> bool:
    """Whether it is a tensor, or of a class that answers for ops as one."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


class Module(HookMethods, StateMethods, TraversalMethods, _C._ModuleBase):
    """Base of all networks: assign parameters and modules to it, and define ``forward``.

    Finding a parameter, buffer or submodule by attribute, and calling a module, are in C
    (``_ModuleBase``), for they happen on every forward.

    >>> class Model(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = Linear(20, 5)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    # Set to have __init__ pass its arguments on along the method resolution order.
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None
    __signature__ = _CallSignature()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Written past __setattr__, which itself needs these to be there.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _missing_forward(self, *input: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _missing_forward

    # Registration

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but not a parameter; saved only if ``persistent``."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = self._run_registration_hooks("_buffers", name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter, or a name for one that is not there (None)."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
            param = self._run_registration_hooks("_parameters", name, param)
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child module under ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if isinstance(name, str) and "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        self._check_new_name("module", name, self._modules)
        self._modules[name] = self._run_registration_hooks("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as add_module."""
        self.add_module(name, module)

    def _run_registration_hooks(self, registry: str, name: str, value: Any) -> Any:
        """What the global hooks for new members of a registry make of ``value``."""
        for hook in _hooks._registration_hooks[registry].values():
            replaced = hook(self, name, value)
            value = value if replaced is None else replaced
        return value

    def _check_new_name(self, kind: str, name: Any, registry: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        members = self.__dict__
        if isinstance(value, Tensor):
            if isinstance(value, Parameter):
                if "_parameters" not in members:
                    raise AttributeError("cannot assign parameters before Module.__init__() call")
                self._forget(name, keep="_parameters")
                self.register_parameter(name, value)
                return
            if isinstance(value, Buffer):
                # An attribute that is neither is in the way: registering says so.
                if "_buffers" in members and name not in members:
                    self._forget(name, keep="_buffers")
                _register_buffer(self, name, value)
                return
        elif isinstance(value, Module):
            if "_modules" not in members:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            members["_modules"][name] = self._run_registration_hooks("_modules", name, value)
            return
        for registry, kind, wanted in _REGISTRIES:
            registered = members.get(registry)
            if registered is not None and name in registered:
                if value is not None and not (registry == "_buffers" and _is_tensor_like(value)):
                    raise TypeError(
                        f"cannot assign '{typename(value)}' as {kind} '{name}' ({wanted} expected)"
                    )
                registered[name] = self._run_registration_hooks(registry, name, value)
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def _forget(self, name: str, keep: str) -> None:
        """Removes ``name`` from everywhere but registry ``keep``, to be registered there."""
        members = self.__dict__
        members.pop(name, None)
        for registry, _, _ in _REGISTRIES:
            if registry != keep:
                members[registry].pop(name, None)
        if keep != "_buffers":
            members["_non_persistent_buffers_set"].discard(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Modules pickled by older versions lack the registries that came later.
        for registry in _HOOK_REGISTRIES:
            if registry not in self.__dict__:
                self.__dict__[registry] = OrderedDict()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __dir__(self) -> list[str]:
        names = itertools.chain(
            dir(type(self)), self.__dict__, self._parameters, self._modules, self._buffers
        )
        # Names of the children of a Sequential are not attributes one can write.
        return sorted({name for name in names if not name[0].isdigit()})

    # Conversion

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replaces every tensor by ``fn`` of it; parameters stay the same objects if they can."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        overwrites = get_overwrite_module_params_on_conversion()
        for name, param in self._parameters.items():
            if param is None:
                continue
            with flambeau.no_grad():
                converted = fn(param)
            # What a wrapper has inside belongs to the object.
            if get_swap_module_params_on_conversion() or flambeau._C._is_wrapped(converted):
                kept, grad = Parameter(converted, param.requires_grad), param.grad
                with flambeau.no_grad():
                    kept.grad = None if grad is None else fn(grad)
                flambeau.utils.swap_tensors(param, kept)
                continue
            if _shares_kind(converted, param) and not overwrites:
                param.data = converted
                kept = param
            else:
                kept = Parameter(converted, param.requires_grad)
                self._parameters[name] = kept
            if param.grad is not None:
                with flambeau.no_grad():
                    converted_grad = fn(param.grad)
                if kept is param and _shares_kind(converted_grad, param.grad):
                    param.grad.data = converted_grad
                else:
                    kept.grad = converted_grad.requires_grad_(param.grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Calls ``fn`` on every module below this one, children first, and on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device or (floating point ones) to a dtype.

        Forms: ``to(device=None, dtype=None, non_blocking=False)``, ``to(dtype)``,
        ``to(tensor)``, ``to(memory_format=...)``.
        """
        device, dtype, non_blocking, memory_format = parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device, wanted, non_blocking, memory_format=memory_format)
            if tensor.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
                    "module from meta to a different device."
                )
            return tensor.to(device, wanted, non_blocking)

        return self._apply(convert)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Moves to ``device`` without copying: the values are left uninitialized."""
        return self._apply(lambda t: flambeau.empty_like(t, device=device), recurse=recurse)

    def cuda(self: Self, device: Any = None) -> Self:
        """Moves all parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self: Self, device: Any = None) -> Self:
        """Moves all parameters and buffers to an XPU."""
        return self.to("xpu" if device is None else f"xpu:{device}")

    def ipu(self: Self, device: Any = None) -> Self:
        """Moves all parameters and buffers to an IPU."""
        return self.to("ipu" if device is None else f"ipu:{device}")

    def mtia(self: Self, device: Any = None) -> Self:
        """Moves all parameters and buffers to an MTIA device."""
        return self.to("mtia" if device is None else f"mtia:{device}")

    def cpu(self: Self) -> Self:
        """Moves all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self: Self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def _to_floating(self: Self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: Self) -> Self:
        """Casts floating point parameters and buffers to float32."""
        return self._to_floating(flambeau.float32)

    def double(self: Self) -> Self:
        """Casts floating point parameters and buffers to float64."""
        return self._to_floating(flambeau.float64)

    def half(self: Self) -> Self:
        """Casts floating point parameters and buffers to float16."""
        return self._to_floating(flambeau.float16)

    def bfloat16(self: Self) -> Self:
        """Casts floating point parameters and buffers to bfloat16."""
        return self._to_floating(flambeau.bfloat16)

    def share_memory(self: Self) -> Self:
        """Moves parameters and buffers to memory that other processes can map."""
        return self._apply(lambda t: t.share_memory_())

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode here and in all children."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode here and in all children."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Says for all parameters whether autograd should record operations on them."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Has later calls of this module go through ``flambeau.compile``."""
        self._compiled_call_impl = flambeau.compile(  # type: ignore[attr-defined]
            self._call_impl, *args, **kwargs
        )

    def _replicate_for_data_parallel(self: Self) -> Self:
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica.__dict__["_is_replica"] = True
        return replica

    # Printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What to print of this module besides its name and children; override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()
        ]
        name = self._get_name()
        if not child_lines and len(extra_lines) <= 1:
            return f"{name}({extra})"
        return f"{name}(\n  " + "\n  ".join(extra_lines + child_lines) + "\n)"


class _HookRegistries(ModuleType):
    """Lets ``nn.modules.module._global_forward_hooks = OrderedDict()`` reset the global hooks.

    Test suites do that after each test. The registries are shared with the C++ side of a call,
    so they take over the contents of what is assigned and stay the objects they are.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        registry = getattr(_hooks, name, None) if name.startswith("_global_") else None
        if not isinstance(registry, OrderedDict):
            super().__setattr__(name, value)
            return
        contents = list(value.items())
        registry.clear()
        registry.update(contents)


sys.modules[__name__].__class__ = _HookRegistries
