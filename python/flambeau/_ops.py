"""`flambeau.ops`: the operators that programs register with `flambeau.library`, and those of this
library under PyTorch's name for them, `ops.aten`.

An operator is a schema and a few Python functions: kernels by device type, a function that tells
the shapes of results on the meta device, and a rule for its derivative. Calling it binds the
arguments, picks the kernel by the device of the tensors, and records the rule.
"""

from __future__ import annotations

import os

import flambeau
from flambeau import _C
from flambeau._library._schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# What a kernel registered for one of these keys serves: any device, and its own history.
_COMPOSITE = ("CompositeImplicitAutograd", "")
_ANY_DEVICE = "CompositeExplicitAutograd"


class Operator:
    """What is known about a registered operator; it may be known before it is defined."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.schema: Schema | None = None
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.autocast: dict[str, Any] = {}
        self.disabled: set[str] = set()

    @property
    def name(self) -> str:
        """The name with the overload, as errors tell it: ns::op.default -> ns.op.default."""
        return f"{self.qualname.replace('::', '.')}.default"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.schema is None:
            raise RuntimeError(f"operator {self.qualname} does not exist")
        bound, keywords = self.schema.bind(args, kwargs)
        everything = [*bound, *keywords.values()]
        tensors = list(_tensors(everything))
        device = _device_of(self, tensors)
        if device in self.autocast and flambeau.is_autocast_enabled(device):
            dtype = self.autocast[device]
            bound = [_cast(value, device, dtype) for value in bound]
            keywords = {name: _cast(value, device, dtype) for name, value in keywords.items()}
            with flambeau.autocast(device, enabled=False):
                return self._recorded(device, bound, keywords)
        return self._recorded(device, bound, keywords)

    def _recorded(self, device: str, bound: list[Any], keywords: dict[str, Any]) -> Any:
        """Calls the kernel, and records how to differentiate it where that is wanted."""
        for key in (f"Autograd{device.upper()}", "Autograd", *_COMPOSITE):
            if key in self.kernels:
                return self.kernels[key](*bound, **keywords)
        kernel = self._kernel(device)
        tensors = list(_tensors([*bound, *keywords.values()]))
        if _C._len_torch_dispatch_stack() or any(map(_C._is_dispatched, tensors)):
            kernel = self._asked
        if flambeau.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            from flambeau._library._autograd import differentiable

            return differentiable(self, kernel, bound, keywords)
        return kernel(*bound, **keywords)

    def _asked(self, *args: Any, **kwargs: Any) -> Any:
        """In place of a kernel, what a mode or the class of an argument answers."""
        from flambeau._operators._dispatch import ask

        namespace, _, name = self.qualname.partition("::")
        return ask(getattr(getattr(ops, namespace), name).default, args, kwargs)

    def _kernel(self, device: str) -> Callable[..., Any]:
        if device == "meta":
            for known in (self.fake, self.kernels.get("Meta"), self.kernels.get(_ANY_DEVICE)):
                if known is not None:
                    return known
            if self.schema is not None and self.schema.is_mutable and not self.schema.returns:
                return lambda *args, **kwargs: None  # there is nothing to tell of
            raise NotImplementedError(
                f"{self.name}: no fake implementation was registered, which tells the shapes of "
                "results on the meta device. Use flambeau.library.register_fake."
            )
        for key in (device.upper(), _ANY_DEVICE):
            if key in self.kernels and key not in self.disabled:
                return self.kernels[key]
        raise NotImplementedError(
            f"Could not run '{self.qualname}' with arguments from the '{device.upper()}' backend: "
            f"it has kernels for {sorted(self.kernels) or 'nothing'}."
        )


def _tensors(values: Any) -> Iterator[flambeau.Tensor]:
    """The tensors among arguments, and in lists among them."""
    for value in values:
        if isinstance(value, flambeau.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, flambeau.Tensor))


def _device_of(operator: Operator, tensors: list[flambeau.Tensor]) -> str:
    kinds = [tensor.device.type for tensor in tensors]
    if "meta" in kinds:
        return "meta"
    if kinds:
        return next((kind for kind in kinds if kind != "cpu"), "cpu")
    return "cpu" if "CPU" in operator.kernels or "CUDA" not in operator.kernels else "cuda"


def _cast(value: Any, device: str, dtype: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device, dtype) for item in value)
    if not isinstance(value, flambeau.Tensor) or value.device.type != device:
        return value
    castable = value.is_floating_point() and value.dtype is not flambeau.float64
    return value.to(dtype) if castable else value


class OpOverload:
    """One overload of an operator: ops.ns.name.overload."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._packet, self._overloadname = packet, overload
        self.__name__ = self.__qualname__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__
        self.namespace = packet._namespace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    @property
    def _schema(self) -> Schema:
        return self._packet._schema

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator with all its overloads."""
        return self._packet

    def name(self) -> str:
        """Its name, ns::op, with the overload unless it is the default one."""
        full = self._packet._qualified_op_name
        return full if self._overloadname == "default" else f"{full}.{self._overloadname}"

    def __str__(self) -> str:
        return f"{self._packet}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet!s}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """An operator: ops.ns.name. Its attributes are its overloads."""

    def __init__(self, namespace: str, name: str, function: Callable[..., Any]) -> None:
        self._namespace, self._function = namespace, function
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"flambeau.ops.{namespace}"
        self._overloads: dict[str, OpOverload] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from flambeau.overrides import handle_torch_function, has_torch_function

        given: list[Any] = [*args, *kwargs.values()]
        given += [item for one in given if isinstance(one, (list, tuple)) for item in one]
        if has_torch_function(given):
            return handle_torch_function(self, tuple(given), *args, **kwargs)
        return self._function(*args, **kwargs)

    @property
    def _schema(self) -> Schema:
        schema = getattr(self._function, "schema", None)
        if schema is None:
            raise RuntimeError(f"{self}: this operator of the library has no written schema")
        return schema

    def overloads(self) -> list[str]:
        """The names of the overloads that have been used."""
        return list(self._overloads) or ["default"]

    def __getattr__(self, name: str) -> OpOverload:
        # A copy has no attributes yet when it is first asked for some.
        if name.startswith("__") or "_function" not in self.__dict__:
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{name}'")
        if isinstance(self._function, Operator) and name != "default":
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return self._overloads.setdefault(name, OpOverload(self, name))

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


# Namespaces of what processes exchange, whose names stand in libraries' tables of operators.
_COLLECTIVES = {"_c10d_functional", "c10d_functional", "c10d"}


class _OpNamespace:
    """The operators of one namespace; `aten` holds those of this library."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._registered: dict[str, Operator] = {}

    def __getattr__(self, name: str) -> OpOverloadPacket:
        take_registrations()
        function: Any = self._registered.get(name)
        if function is not None and function.schema is None:
            function = None
        if function is None and self.name == "aten" and not name.startswith("__"):
            from flambeau._operators import _aten_private, _aten_upsample

            function = _private(_aten_private, name) or _private(_aten_upsample, name)
            function = function or _own_function(name) or _missing("aten", name)
        if function is None and self.name in _COLLECTIVES and not name.startswith("__"):
            function = _missing(self.name, name)
        if function is None and self.name == "profiler":
            function = {"_record_function_enter": _enter, "_record_function_exit": _exit}.get(name)
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self.name, name, function)
        setattr(self, name, packet)
        return packet

    def __dir__(self) -> list[str]:
        return [name for name, known in self._registered.items() if known.schema is not None]

    def __repr__(self) -> str:
        return f"<_OpNamespace '{self.name}'>"


def _enter(name: str, args: str | None = None) -> Any:
    """Begins a part of the program that the profiler names; gives what ends it."""
    part = flambeau.profiler.record_function(name, args)
    part.__enter__()
    return part


def _exit(part: Any) -> None:
    """Ends a named part of the program."""
    part.__exit__(None, None, None)


def _private(module: Any, name: str) -> Any:
    """A function of a module of PyTorch's inner ones."""
    found = vars(module).get(name)
    return found if callable(found) and not isinstance(found, type) else None


def _missing(namespace: str, name: str) -> Callable[..., Any]:
    """A function that refuses: libraries name many of PyTorch's inner operators in tables."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"ops.{namespace}.{name}: Flambeau has no operator of this name")

    refuse.is_missing = True  # type: ignore[attr-defined]
    return refuse


def is_missing(function: Callable[..., Any]) -> bool:
    """Whether an operator's function is one that refuses."""
    return getattr(function, "is_missing", False)


def _own_function(name: str) -> Callable[..., Any] | None:
    """The function of this library that computes PyTorch's operator of that name."""
    for home in (flambeau, flambeau.Tensor, flambeau.nn.functional, flambeau.special):
        found = getattr(home, name, None)
        if callable(found) and not isinstance(found, type):
            return found
    for own in (name, f"_{name}"):  # of those that programs do not call
        if own in flambeau._C._ops:
            return flambeau._C._ops[own]  # type: ignore[no-any-return]
    for prefix, home in (("linalg_", flambeau.linalg), ("fft_", flambeau.fft)):
        if name.startswith(prefix) and callable(found := getattr(home, name[len(prefix) :], None)):
            return found
    return None


class _Ops:
    """`flambeau.ops`: its attributes are namespaces of operators."""

    def __init__(self) -> None:
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(f"'ops' has no attribute '{name}'")
        namespace = _OpNamespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path: Any) -> None:
        """Loads a library of operators that were registered in C++ with TORCH_LIBRARY.

        One that was built against PyTorch itself is refused, but for those of torchvision and
        torchaudio: their operators are written here as well, and these are registered instead.
        """
        path = os.fspath(path)
        if os.path.isfile(path) and not _is_of_pytorch(path):
            import ctypes

            ctypes.CDLL(path)
            self.loaded_libraries.add(path)
            take_registrations()
            return
        folder, _, file = path.replace(os.sep, "/").rpartition("/")
        for package, home, start in (
            ("torchvision", "torchvision", "_C"),
            ("torchaudio", "torchaudio/lib", ("_torchaudio", "libtorchaudio")),
        ):
            if folder.endswith(home) and file.startswith(start):
                self.import_module(f"flambeau._library._{package}_ops")
                self.loaded_libraries.add(path)
                return
        raise OSError(
            f"Could not load this library: {path}: it is not there, or compiled against PyTorch's "
            "libraries, which Flambeau does not load: build it against Flambeau (see "
            "flambeau.utils.cpp_extension), or register operators with flambeau.library"
        )

    def import_module(self, module: str) -> None:
        """Imports a module that registers operators."""
        import importlib

        importlib.import_module(module)


class _Classes:
    """`flambeau.classes`: classes that libraries of C++ code register, of which there are none."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"classes.{name}: Flambeau does not load classes compiled against PyTorch's libraries"
        )

    def load_library(self, path: Any) -> None:
        """Refuses, as ops.load_library does."""
        ops.load_library(path)


ops = _Ops()
classes = _Classes()


def _is_of_pytorch(path: str) -> bool:
    """Whether a library needs those of PyTorch."""
    with open(path, "rb") as file:
        text = file.read()
    return b"\0libc10.so\0" in text or b"\0libtorch" in text


_taken = 0  # of what was registered in C++


def take_registrations() -> None:
    """Takes over what libraries of C++ code have registered since the last call."""
    global _taken
    for name, schema, key, kernel in _C._library_registrations(_taken):
        _taken += 1
        known = _known(name)
        if schema:
            from flambeau._library import _schema

            if known.schema is not None:
                raise RuntimeError(f"Tried to register an operator ({name}{schema}) twice")
            known.schema = _schema.parse(name, schema)
        if kernel is not None:
            known.kernels[key or "CompositeImplicitAutograd"] = kernel


def operator(qualname: str) -> Operator:
    """The operator of a name such as ns::op, made when it is first asked for."""
    take_registrations()
    return _known(qualname)


def _known(qualname: str) -> Operator:
    namespace, colons, name = qualname.partition("::")
    if not colons or not namespace or not name:
        raise ValueError(f"Expected the name of an operator as 'namespace::name', got '{qualname}'")
    name = name.partition(".")[0]
    registered = getattr(ops, namespace)._registered
    if name not in registered:
        registered[name] = Operator(f"{namespace}::{name}")
    return registered[name]


def forget(qualname: str) -> None:
    """Removes an operator."""
    namespace, _, name = qualname.partition("::")
    home = getattr(ops, namespace)
    home._registered.pop(name, None)
    home.__dict__.pop(name, None)
