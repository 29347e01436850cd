"""Names that PyTorch's `_C` has, that programs use in passing, and that are not the core's: they
are asked for here when `flambeau._C` does not have a name.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import os

from flambeau import _C
from flambeau._namespace._core_modules import CORE_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class DispatchKey(enum.Enum):
    """PyTorch's ways to run an operator, of which those about autocast mean something here."""

    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    Autograd = 4
    AutogradCPU = 5
    AutogradCUDA = 6
    AutocastCPU = 7
    AutocastCUDA = 8
    AutocastXPU = 9
    AutocastMPS = 10
    CompositeImplicitAutograd = 11
    CompositeExplicitAutograd = 12


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, keys: Any) -> None:
        self.keys = frozenset([keys] if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys | other.keys)

    def has(self, key: DispatchKey) -> bool:
        """Whether the key is in the set."""
        return key in self.keys


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:
    """A context without what the keys stand for; autocast is all there is to leave out."""
    import flambeau

    with contextlib.ExitStack() as stack:
        for key, kind in ((DispatchKey.AutocastCPU, "cpu"), (DispatchKey.AutocastCUDA, "cuda")):
            if keys.has(key) and flambeau.is_autocast_enabled(kind):
                stack.enter_context(flambeau.autocast(kind, enabled=False))
        yield


def _get_tracing_state() -> None:
    """None: no call is being recorded."""


def _is_tracing() -> bool:
    """False: no call is being recorded."""
    return False


def _cuda_clearCublasWorkspaces() -> None:
    """Gives back scratch memory of matrix products, which is the allocator's own here."""


def _log_api_usage_once(event: str) -> None:
    """Counts nothing: use is not reported to anybody."""


def _are_functorch_transforms_active() -> bool:
    """False: gradients and maps of functions run the function itself."""
    return False


def _get_accelerator() -> Any:
    """The device of the accelerator there is, or the CPU."""
    import flambeau

    return flambeau.device("cuda" if flambeau.cuda.is_available() else "cpu")


def _get_default_device() -> str:
    """The type of the device that new tensors are made on."""
    import flambeau

    return str(flambeau.get_default_device().type)


def _get_privateuse1_backend_name() -> str:
    """The name of a device type that programs may define; there is none."""
    return "privateuseone"


def _switch(*args: Any) -> bool:
    """A switch of a compiler that is not there: it was off."""
    return False


class PyTorchFileWriter:
    """Writes an archive as `torch.save` does, record by record.

    Args:
        file: a path, or an object that has `write`.
    """

    def __init__(self, file: Any, compute_crc32: bool = True, storage_alignment: int = 64) -> None:
        from flambeau._serialization._archive import ArchiveWriter
        from flambeau.serialization import _archive_name

        self._name = _archive_name(file)
        self._writer = ArchiveWriter(
            file if hasattr(file, "write") else os.fsdecode(file), self._name
        )
        self._written: set[str] = set()

    def archive_name(self) -> str:
        """The folder within the archive."""
        return self._name

    def write_record(self, name: str, data: Any, size: int) -> None:
        """Writes the first bytes of a string, of bytes, of a storage, or at an address."""
        from ctypes import c_ubyte

        from flambeau._serialization._storage_io import memory_of

        if isinstance(data, int):
            data = (c_ubyte * size).from_address(data)
        elif isinstance(data, str):
            data = data.encode()
        elif hasattr(data, "nbytes") and callable(data.nbytes):
            data = memory_of(data if data.device.type == "cpu" else data.cpu())
        self._writer.write(name, memoryview(data).cast("B")[:size])
        self._written.add(name)

    def write_end_of_file(self) -> None:
        """Writes what says that the archive is whole."""
        import sys

        for name, content in (("byteorder", sys.byteorder.encode()), ("version", b"3\n")):
            if name not in self._written:
                self._writer.write(name, content)
        self._writer.close()


class _cpu:
    """Functions of PyTorch's core about the processor."""

    @staticmethod
    def _init_amx() -> bool:
        """Whether matrix tiles can be used: no kernel here does."""
        return False


class _functions:
    """Types of nodes."""

    AccumulateGrad = _C._AccumulateGrad


_TensorMeta = type(_C.Tensor)

_SWITCHES = frozenset(
    """_debug_set_autodiff_subgraph_inlining _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu
    _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled
    _jit_set_nvfuser_guard_mode _jit_set_profiling_executor _jit_set_profiling_mode
    _jit_set_texpr_fuser_enabled _jit_set_bailout_depth _set_warnAlways
    _set_math_sdp_allow_fp16_bf16_reduction""".split()
)


# Classes of TorchScript's graphs, which libraries name in annotations and ask for by isinstance.
_SCRIPT_CLASSES = frozenset(
    """AggregationType AnyType AwaitType Block BoolType ClassType CompilationUnit ComplexType
    DeviceObjType DictType EnumType FloatType FutureType Graph InterfaceType IntType ListType Node
    NoneType NumberType OptionalType PyObjectType RRefType ScriptObject StreamObjType StringType
    SymBoolType SymIntType TensorType TupleType Type UnionType Use Value""".split()
)
_made_classes: dict[str, Any] = {}


def attribute(name: str) -> Any:
    """What `flambeau._C.<name>` gives where the core has no such name."""
    if name in _SWITCHES:
        return _switch
    if name == "_TensorMeta":
        return _TensorMeta
    if name in CORE_MODULES:
        return importlib.import_module(f"flambeau.{CORE_MODULES[name]}")
    if name == "Tag":
        from flambeau.library import Tag

        return Tag
    if name in _SCRIPT_CLASSES:
        if name not in _made_classes:
            from flambeau._absent import absent

            _made_classes[name] = absent(_C.__name__, name, "Flambeau has no TorchScript graphs")
        return _made_classes[name]
    found = None if name == "attribute" else globals().get(name)
    if found is None or getattr(found, "__module__", None) != __name__:
        raise AttributeError(f"module '{_C.__name__}' has no attribute '{name}'")
    return found
