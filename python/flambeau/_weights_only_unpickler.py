"""The unpickler behind `load`: PyTorch's names are found in this package, and, for weights_only,
only names from a list of safe ones and those that the user added.
"""

from __future__ import annotations

import contextlib
import functools
import pickle

import flambeau
from flambeau import storage as _storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_PACKAGE = __name__.partition(".")[0]


def replace_root(module: str, old: str, new: str) -> str:
    """`module` with its first part `old` replaced by `new`."""
    return new + module[len(old) :] if module == old or module.startswith(old + ".") else module


user_safe_globals: dict[str, Any] = {}


def _entry(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError(f"Expected a (callable, str) pair, but got {item!r}")
        return item[1], item[0]
    return f"{item.__module__}.{item.__qualname__}", item


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allows classes and functions, or (object, "full.name") pairs, in `load(...,
    weights_only=True)`.
    """
    user_safe_globals.update(map(_entry, safe_globals))


def get_safe_globals() -> list[Any]:
    """What add_safe_globals added; with its name, what has another one."""
    return [
        item if _entry(item)[0] == name else (item, name)
        for name, item in user_safe_globals.items()
    ]


def clear_safe_globals() -> None:
    """Forgets what add_safe_globals added."""
    user_safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Adds safe globals for the length of a block."""
    before = dict(user_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        user_safe_globals.clear()
        user_safe_globals.update(before)


class _Name:
    """Stands for a class that a file may name but not call: to call it could take any amount of
    memory.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind


def storage_class(kind: Any) -> Any:
    """The storage class that a file named."""
    found = kind.kind if isinstance(kind, _Name) else kind
    if not (isinstance(found, type) and issubclass(found, _STORAGES)):
        raise pickle.UnpicklingError(f"a storage was expected to be of a storage class, not {kind}")
    return found


_STORAGES = (_storage.UntypedStorage, _storage.TypedStorage)


def _core_type(name: str) -> Any:
    """The class of tensors, by which a plain pickle says what kind of tensor it holds."""
    if name != "Tensor":
        raise pickle.UnpicklingError(f"Weights only load failed. Unsupported class {name!r}.")
    return _Name(flambeau.Tensor)


def _rebuild_from_type(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    from flambeau import _tensor

    kind = new_type.kind if isinstance(new_type, _Name) else new_type
    return _tensor._rebuild_from_type_v2(func, kind, args, state)


def _encode(text: str, encoding: str = "utf-8", errors: str = "strict") -> bytes:
    """What pickles of protocol 2 make bytes with."""
    if not isinstance(text, str) or encoding not in ("latin1", "utf-8", "ascii"):
        raise pickle.UnpicklingError(f"_codecs.encode: got {type(text)} and encoding {encoding!r}")
    return text.encode(encoding, errors)


def _bytes(content: Any = b"", *encoding: str) -> bytes:
    """bytes, but not of a number, which would be a length."""
    if not isinstance(content, (bytes, bytearray, str, list, tuple)):
        raise pickle.UnpicklingError(f"bytes: expected content, got {type(content)}")
    return bytes(content, *encoding) if isinstance(content, str) else bytes(content)


def _bytearray(content: Any = b"", *encoding: str) -> bytearray:
    return bytearray(_bytes(content, *encoding))


@functools.cache
def default_safe_globals() -> dict[str, Any]:
    """By PyTorch's names, what every file may use."""
    from collections import Counter, OrderedDict, defaultdict

    from flambeau import _utils

    safe: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "collections.defaultdict": defaultdict,
        "_codecs.encode": _encode,
        "torch.serialization._get_layout": flambeau.serialization._get_layout,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch._utils._core_type": _core_type,
        "torch.Size": flambeau.Size,
        "torch.device": flambeau.device,
        "torch.Tensor": _Name(flambeau.Tensor),
        "torch._tensor.Tensor": _Name(flambeau.Tensor),
        "torch.nn.parameter.Parameter": flambeau.nn.Parameter,
        "torch.storage.UntypedStorage": _Name(_storage.UntypedStorage),
        "torch.storage.TypedStorage": _Name(_storage.TypedStorage),
    }
    for module in ("builtins", "__builtin__"):
        for kind in (set, frozenset, complex, int, float, str, list, dict, tuple):
            safe[f"{module}.{kind.__name__}"] = kind
        safe[f"{module}.bytes"] = _bytes
        safe[f"{module}.bytearray"] = _bytearray
    for name in dir(_utils):
        if name.startswith("_rebuild_"):
            safe[f"torch._utils.{name}"] = getattr(_utils, name)
    for name in dir(flambeau):
        value = getattr(flambeau, name, None)
        if isinstance(value, (flambeau.dtype, flambeau.memory_format)):
            safe[f"torch.{name}"] = value
    from flambeau._quantized import _scheme

    for name in ("qint8", "quint8", "qint32", *_scheme.NAMES):
        safe[f"torch.{name}"] = getattr(flambeau, name)
    for name in _storage._CLASS_NAMES.values():
        safe[f"torch.{name}"] = _Name(getattr(_storage, name))
    return safe


_REFUSED = (
    "Weights only load failed. The file asks for an object that is not known to be safe: "
    "Unsupported global: GLOBAL {name} was not an allowed global by default. Please use "
    "`torch.serialization.add_safe_globals([{short}])` or the "
    "`torch.serialization.safe_globals([{short}])` context manager to allowlist this global if you "
    "trust this class/function. Loading with `weights_only=False` allows all, and lets the file "
    "run any code: do it only if you trust where the file comes from."
)


# Modules of which nothing is loaded, whatever the program says is safe.
_NEVER_SAFE = ("sys", "os", "posix", "nt")


class Unpickler(pickle.Unpickler):
    """Finds PyTorch's names in this package, and storages by their ids."""

    def __init__(
        self, file: Any, persistent_load: Callable[[Any], Any], weights_only: bool, **kwargs: Any
    ) -> None:
        super().__init__(file, **kwargs)
        self._persistent_load = persistent_load
        self._safe = default_safe_globals() if weights_only else None

    def persistent_load(self, saved_id: Any) -> Any:
        return self._persistent_load(saved_id)

    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if self._safe is not None and module == "__builtin__" else module
        full = f"{module}.{name}"
        if self._safe is None:
            if module in ("torch", "torch.storage") and hasattr(_storage, name):
                return getattr(_storage, name)
            return super().find_class(replace_root(module, "torch", _PACKAGE), name)
        if module in _NEVER_SAFE:
            raise pickle.UnpicklingError(
                f"Weights only load failed. Trying to load unsupported GLOBAL {full} whose module "
                f"{module} is blocked."
            )
        ours = f"{replace_root(module, 'torch', _PACKAGE)}.{name}"
        # A program that pickles by itself, without `save`, writes the names of this package.
        theirs = f"{replace_root(module, _PACKAGE, 'torch')}.{name}"
        for table, key in (
            (self._safe, full),
            (self._safe, theirs),
            (user_safe_globals, full),
            (user_safe_globals, ours),
        ):
            if key in table:
                return table[key]
        raise pickle.UnpicklingError(_REFUSED.format(name=full, short=name))


class _TrustedNames(pickle.Unpickler):
    """Finds PyTorch's names in this package; what an unpickler of the user's falls back on."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and hasattr(_storage, name):
            return getattr(_storage, name)
        return super().find_class(replace_root(module, "torch", _PACKAGE), name)


def make_unpickler(
    pickle_module: Any,
    file: Any,
    persistent_load: Callable[[Any], Any],
    weights_only: bool,
    **kwargs: Any,
) -> Any:
    """The unpickler of a file: this module's, or for a given pickle module one on top of its own,
    which is asked for every class but those of storages.
    """
    if pickle_module is None or issubclass(Unpickler, pickle_module.Unpickler):
        return Unpickler(file, persistent_load, weights_only, **kwargs)
    given: Any = pickle_module.Unpickler
    # The user's class comes first, and what it leaves to its base comes to this package's names.
    cooperates = issubclass(given, pickle.Unpickler)

    class Made(*((given, _TrustedNames) if cooperates else (given,))):  # type: ignore[misc]
        def persistent_load(self, saved_id: Any) -> Any:
            return persistent_load(saved_id)

        def find_class(self, module: str, name: str) -> Any:
            of_torch = module == "torch" or module.startswith("torch.")
            if of_torch and (not cooperates or hasattr(_storage, name)):
                return _TrustedNames(file).find_class(module, name)
            return super().find_class(module, name)

    return Made(file, **kwargs)


_MEMO_OPCODES = ("PUT", "BINPUT", "LONG_BINPUT")


def check_opcodes(data: Any) -> None:
    """Raises for a pickle, given as bytes or as an open file, that would take memory out of
    proportion: the memo is a table that grows to the largest number used.
    """
    import pickletools

    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in _MEMO_OPCODES and int(argument) > count:
            raise pickle.UnpicklingError(f"the memo is asked for place {argument} of {count}")


def guarded(load: Callable[[], Any]) -> Any:
    """Loads what is not trusted: every failure is an UnpicklingError or a RuntimeError."""
    try:
        return load()
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        raise
    except Exception as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. The file is damaged: {type(error).__name__}: {error}"
        ) from error


def guarded_load(unpickler: pickle.Unpickler, data: bytes | None) -> Any:
    """Loads a pickle, whose bytes are given if it is not trusted."""
    if data is None:
        return unpickler.load()

    def load() -> Any:
        check_opcodes(data)
        return unpickler.load()

    return guarded(load)


def unsafe_globals(data: bytes) -> list[str]:
    """The names in a pickle that may not be loaded with weights_only."""
    import pickletools

    safe = default_safe_globals()
    strings: list[str] = []
    found: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"):
            strings.append(str(argument))
        if opcode.name == "GLOBAL":
            found.append(str(argument).replace(" ", "."))
        elif opcode.name == "STACK_GLOBAL":
            found.append(".".join(strings[-2:]))
    unsafe = set()
    for name in found:
        ours = replace_root(name, "torch", _PACKAGE)
        if name not in safe and name not in user_safe_globals and ours not in user_safe_globals:
            unsafe.add(replace_root(name, "__builtin__", "builtins"))
    return sorted(unsafe)
