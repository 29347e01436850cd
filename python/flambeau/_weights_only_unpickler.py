"""What the names in PyTorch's files stand for: those that every file may use, those that the user
added, and, for files that are trusted, all of this package's.
"""

from __future__ import annotations

import contextlib
import functools
import pickle

import flambeau
from flambeau import _C
from flambeau import storage as _storage
from flambeau._serialization._storage_io import placed, stays_on_cpu, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_ops: Any = _C
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


def _core_type(name: str) -> Any:
    """The class of tensors, by which a plain pickle says what kind of tensor it holds."""
    if name != "Tensor":
        raise pickle.UnpicklingError(f"Weights only load failed. Unsupported class {name!r}.")
    return _Name(flambeau.Tensor)


def _rebuild_from_type(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    from flambeau import _tensor

    kind = new_type.kind if isinstance(new_type, _Name) else new_type
    return _tensor._rebuild_from_type_v2(func, kind, args, state)


@functools.cache
def default_safe_globals() -> dict[str, Any]:
    """By PyTorch's names, what every file may use beside what the core makes itself."""
    from collections import Counter, OrderedDict, defaultdict

    from flambeau import _utils

    safe: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "collections.defaultdict": defaultdict,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch._utils._core_type": _core_type,
        "torch.Tensor": _Name(flambeau.Tensor),
        "torch._tensor.Tensor": _Name(flambeau.Tensor),
        "torch.nn.parameter.Parameter": flambeau.nn.Parameter,
    }
    for kind in (set, frozenset, complex, int, float, str, list, dict, tuple, bytes, bytearray):
        safe[f"builtins.{kind.__name__}"] = kind
    for name in dir(_utils):
        if name.startswith("_rebuild_"):
            safe[f"torch._utils.{name}"] = getattr(_utils, name)
    from flambeau._quantized import _scheme

    for name in ("qint8", "quint8", "qint32", *_scheme.NAMES):
        safe[f"torch.{name}"] = getattr(flambeau, name)
    return safe


def allowed(name: str) -> Any:
    """What a file may use under one of PyTorch's names, or None."""
    ours = replace_root(name, "torch", _PACKAGE)
    for table, key in (
        (default_safe_globals(), name),
        (user_safe_globals, name),
        (user_safe_globals, ours),
    ):
        if key in table:
            return table[key]
    return None


# What the core asks for when a file names what it does not know -----------------------------------


def _find(name: str) -> Any:
    found = allowed(name)
    storage = name.startswith(("torch.", "torch.storage.")) and name.rpartition(".")[2]
    return getattr(_storage, storage) if found is None and storage else found


def _make(name: str, arguments: Any, called: bool) -> Any:
    kind = allowed(name)
    if kind in (int, float, str, bytes, bytearray):
        raise TypeError(f"it calls {name}")
    return kind(*arguments) if called else kind.__new__(kind, *arguments)


def _build(instance: Any, state: Any) -> None:
    """Gives an object its state, as a pickle does."""
    own = getattr(instance, "__setstate__", None)
    if own is not None:
        own(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        instance.__dict__.update(attributes)
    for key, value in (slots or {}).items():
        setattr(instance, key, value)


def _typed_storage(memory: Any, kind: str) -> Any:
    untyped = _storage.UntypedStorage._of(memory)
    return typed(untyped, getattr(_storage, kind))


def load_known(
    file: Any,
    start: int,
    map_location: Any,
    *,
    mapped: int = 0,
    encoding: str = "utf-8",
    skips_data: bool = False,
    big_endian: bool = False,
    script: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
) -> Any:
    """The object in a file that the core reads, of classes and functions that are known.

    Args:
        file: a path or an open file.
        start: where in the file it begins.
        map_location: see `load`.
        mapped: 1 to map storages, 2 to map them so that writes reach the file.
        encoding: of the strings that Python 2 wrote.
        skips_data: whether the contents of storages are left out.
        big_endian: whether files that do not say have numbers in this order.
        script: makes an object of a class of TorchScript's, and gives it its state.
    """
    make, build = script or (_make, _build)

    def place(memory: Any, location: str) -> Any:
        return placed(_storage.UntypedStorage._of(memory), location, map_location)._bytes

    hooks = (_find, make, build, _typed_storage)
    text = {"bytes": "bytes", "latin1": "latin1"}.get(encoding, "utf-8")
    known = lambda name: allowed(name) is not None  # noqa: E731
    flags = (skips_data, big_endian, script is not None)
    stays = stays_on_cpu(map_location)
    try:
        return _ops._load_file(file, start, mapped, place, stays, known, hooks, text, *flags)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        if type(error) is not RuntimeError or ", record " in str(error):
            raise
        raise RuntimeError(f"{error} File {file_name(file)}, record data.pkl") from error
    except Exception as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. File {file_name(file)}, record data.pkl is damaged: "
            f"{type(error).__name__}: {error}"
        ) from error


def file_name(file: Any) -> str:
    """A file as messages call it."""
    return file if isinstance(file, str) else str(getattr(file, "name", "of a buffer"))


def unsafe_globals(data: bytes) -> list[str]:
    """The names in a pickle that may not be loaded with weights_only."""
    return sorted({name for name in _ops._pickle_globals(data) if allowed(name) is None})


# Python's own pickle, for files that are trusted --------------------------------------------------


class _TrustedNames(pickle.Unpickler):
    """Finds PyTorch's names in this package; what an unpickler of the user's falls back on."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and hasattr(_storage, name):
            return getattr(_storage, name)
        return super().find_class(replace_root(module, "torch", _PACKAGE), name)


def make_unpickler(
    pickle_module: Any, file: Any, persistent_load: Callable[[Any], Any], **kwargs: Any
) -> Any:
    """The unpickler of a file: this module's, or for a given pickle module one on top of its own,
    which is asked for every class but those of storages.
    """
    given: Any = (pickle_module or pickle).Unpickler
    # The user's class comes first, and what it leaves to its base comes to this package's names.
    cooperates = issubclass(given, pickle.Unpickler)
    bases = (given, _TrustedNames) if cooperates else (given,)
    if issubclass(_TrustedNames, given):
        bases = (_TrustedNames,)

    class Made(*bases):  # type: ignore[misc]
        def persistent_load(self, saved_id: Any) -> Any:
            return persistent_load(saved_id)

        def find_class(self, module: str, name: str) -> Any:
            of_torch = module == "torch" or module.startswith("torch.")
            if of_torch and (not cooperates or hasattr(_storage, name)):
                return _TrustedNames(file).find_class(module, name)
            return super().find_class(module, name)

    return Made(file, **kwargs)
