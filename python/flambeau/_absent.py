"""Names of PyTorch that Flambeau does not have and that libraries only mention: they can be
imported, subclassed and asked for with isinstance, and using one raises an error that says what is
missing. So can whole modules, where `torch` means Flambeau: see `python -m flambeau`.
"""

from __future__ import annotations

import abc
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROCESSES = "Flambeau does not split models or tensors over processes"
_COMPILER = "Flambeau has no compiler of programs"
_QUANTIZER = "Flambeau has quantized tensors, but does not turn models into quantized ones"

# Modules, with all that lie below them, of which nothing is there but the name.
_MODULES = {
    "distributed._composable": _PROCESSES,
    "distributed._composable_state": _PROCESSES,
    "distributed._functional_collectives": _PROCESSES,
    "distributed._shard": _PROCESSES,
    "distributed._tensor": _PROCESSES,
    "distributed.algorithms": _PROCESSES,
    "distributed.autograd": _PROCESSES,
    "distributed.checkpoint": _PROCESSES,
    "distributed.device_mesh": _PROCESSES,
    "distributed.elastic.utils": _PROCESSES,
    "distributed.fsdp": _PROCESSES,
    "distributed.launcher": _PROCESSES,
    "distributed.nn": _PROCESSES,
    "distributed.optim": _PROCESSES,
    "distributed.pipelining": _PROCESSES,
    "distributed.rpc": _PROCESSES,
    "distributed.run": _PROCESSES,
    "distributed.tensor": _PROCESSES,
    "distributed.utils": _PROCESSES,
    "_dynamo.backends": _COMPILER,
    "_dynamo.testing": _COMPILER,
    "_export": _COMPILER,
    "_functorch.aot_autograd": _COMPILER,
    "_functorch.compilers": _COMPILER,
    "_functorch.config": _COMPILER,
    "_functorch.partitioners": _COMPILER,
    "_higher_order_ops": _COMPILER,
    "_inductor": _COMPILER,
    "_subclasses": "Flambeau has no fake tensors; use the meta device",
    "ao.quantization.fx": _QUANTIZER,
    "export": _COMPILER,
    "fx.experimental": _COMPILER,
    "fx.passes.infra": _COMPILER,
    "fx.traceback": _COMPILER,
    "profiler._memory_profiler": "the profiler keeps no history of memory",
    "package": "Flambeau does not pack programs into files",
    "numa": "Flambeau does not bind processes to parts of the machine",
    "quantization": _QUANTIZER,
    "onnx._internal": "Flambeau does not export models to ONNX",
    "sparse._triton_ops": _COMPILER,
    "sparse._triton_ops_meta": _COMPILER,
    "utils._sympy": _COMPILER,
    "utils.hipify": "there are no kernels for AMD's devices",
    "utils.mobile_optimizer": _COMPILER,
}

# Names by whose presence libraries tell whether a module can be used.
_ASKED_FOR = {("flambeau.distributed.rpc", "api")}


class _WithMembers(abc.ABCMeta):
    """The class of absent classes of absent modules: they have whatever members are mentioned,
    such as the values of an enumeration among the defaults of a function.
    """

    def __getattr__(cls, name: str) -> Any:
        why = cls.__dict__.get("_absent")
        hidden = name.startswith("_") and not name.isupper()  # _HYBRID is one of an enumeration's
        if why is None or hidden:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        setattr(cls, name, absent(f"{cls.__module__}.{cls.__name__}", name, why))
        return cls.__dict__[name]


def absent(module: str, name: str, why: str) -> Any:
    """A class of that name which has no instances: making one raises NotImplementedError.

    Args:
        module: the `__name__` of the module that has the name.
        name: the name.
        why: the end of the sentence "torch.x.name: ...".
    """
    home = module.partition(".")[2]
    path = f"torch.{home}.{name}" if home else f"torch.{name}"

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{path}: {why}")

    kind: Any = _WithMembers if is_absent(module) else type
    made = kind(name, (), {"__new__": __new__, "__doc__": f"Not available: {why}.", "_absent": why})
    made.__module__ = module
    return made


def _why(full: str) -> str | None:
    own = full.partition(".")[2]
    return next((_MODULES[k] for k in _MODULES if own == k or own.startswith(f"{k}.")), None)


def is_absent(full: str) -> bool:
    """Whether a module (flambeau.x.y) is one of which there is only the name."""
    return _why(full) is not None


def absent_module(full: str) -> types.ModuleType:
    """A module whose names are all absent."""
    why = _why(full) or "Flambeau does not have this module"
    module = types.ModuleType(full, f"Not available: {why}.")
    made: dict[str, Any] = {}

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or (full, name) in _ASKED_FOR:
            raise AttributeError(f"module '{full}' has no attribute '{name}'")
        return made.setdefault(name, absent(full, name, why))

    # Asked whether it can be used, a module answers, where all else of it raises.
    made["is_available"] = lambda: False
    module.__path__ = []
    module.__dict__["__getattr__"] = __getattr__
    return module


def refusing(module: str, names: str, kinds: str, error: type[Exception], why: str) -> Any:
    """The `__getattr__` of a module for a kind of device that there are no kernels for.

    Args:
        module: the `__name__` of the module.
        names: its functions, each of which raises when it is called.
        kinds: its classes, which can be subclassed and have no instances.
        error: what the functions raise.
        why: the end of the sentence "torch.x.name: ...".
    """

    def missing(name: str) -> Any:
        if name in kinds.split():
            return absent(module, name, why)
        if name not in names.split():
            raise AttributeError(f"module '{module}' has no attribute '{name}'")

        def function(*args: Any, **kwargs: Any) -> Any:
            raise error(f"torch.{module.partition('.')[2]}.{name}: {why}")

        function.__name__, function.__module__ = name, module
        return function

    def __getattr__(name: str) -> Any:
        # Whoever replaces a function and puts it back finds the same one.
        return vars(sys.modules[module]).setdefault(name, missing(name))

    return __getattr__


class NamedDType:
    """A dtype that the core does not have. It can be named, compared and a key; ops refuse it.

    Quantized tensors have some of them: their elements lie in memory as integers of a dtype that
    the core has, `ints`.
    """

    def __init__(self, name: str, itemsize: int, ints: Any = None) -> None:
        self.name, self.itemsize, self.ints = name, itemsize, ints
        self.is_floating_point, self.is_complex = name.startswith("float"), "complex" in name
        self.__module__ = "flambeau"  # where pickles find it

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What isinstance sees: a dtype like the others."""
        from flambeau import _C

        return _C.dtype

    @property
    def is_signed(self) -> bool:
        if self.name.startswith("q"):
            raise RuntimeError("isSignedType not supported for quantized types")
        return not self.name.startswith(("uint", "bits"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


_DTYPES = dict.fromkeys(
    """float4_e2m1fn_x2 qint8 quint8 quint4x2 quint2x4 int1 int2 int3 int4 int5 int6 int7 uint1
    uint2 uint3 uint4 uint5 uint6 uint7 bits8""".split(),
    1,
)
_DTYPES.update(bits16=2, bcomplex32=4, qint32=4)
_INTS = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}
_INTS |= {"quint4x2": "uint8", "quint2x4": "uint8"}
_made_dtypes: dict[str, NamedDType] = {}


def dtype(name: str) -> NamedDType | None:
    """The dtype of a name that the core does not have, None if PyTorch has it neither."""
    if name not in _DTYPES:
        return None
    if name not in _made_dtypes:
        from flambeau import _C

        ints = getattr(_C, _INTS[name]) if name in _INTS else None
        _made_dtypes[name] = NamedDType(name, _DTYPES[name], ints)
    return _made_dtypes[name]
