"""TorchScript's files, read for what they hold beside programs: modules with their parameters,
buffers and attributes, whose state_dict() a module written in Python can take.

The file is an archive like `save`'s. Its pickle names classes under `__torch__`, of which the text
under `code/` says what is a module, a parameter, a buffer; nothing of that text is run.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

from flambeau import nn, serialization
from flambeau._serialization._archive import ArchiveReader
from flambeau._serialization._storage_io import callers_errors
from flambeau._weights_only_unpickler import load_known
from flambeau.jit import ScriptModule

_CLASS = re.compile(
    r"^class (\w+)\(Module\):\n  __parameters__ = \[(.*?)\]\n  __buffers__ = \[(.*?)\]", re.M
)
_NAME = re.compile(r'"([^"]*)"')


class RecursiveScriptModule(ScriptModule):
    """A module that was read from a TorchScript file: all but its program."""

    original_name: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses: the program stands in the file, in TorchScript's language."""
        raise RuntimeError(
            f"{self.original_name}.forward: Flambeau reads the parameters of TorchScript files and "
            "does not run their programs; build the module in Python and give its load_state_dict "
            "this one's state_dict()"
        )

    def extra_repr(self) -> str:
        """What the class was called when it was compiled."""
        return f"original_name={self.original_name}"


class _Saved:
    """An object of the file, as a bag of attributes."""

    class_name = ""


def _make(name: str, arguments: Any, called: bool) -> Any:
    return type(name.rpartition(".")[2], (_Saved,), {"class_name": name})()


def _build(saved: Any, state: Any) -> None:
    vars(saved).update(state)


def _classes(reader: ArchiveReader) -> dict[str, tuple[list[str], list[str]]]:
    """The names of parameters and of buffers of each class of modules."""
    found = {}
    for path in reader.records("code/"):
        if path.endswith(".py"):
            module = path[len("code/") : -len(".py")].replace("/", ".")
            for name, parameters, buffers in _CLASS.findall(reader.read(path).decode()):
                members = _NAME.findall(parameters), _NAME.findall(buffers)
                found[f"{module}.{name}"] = members
    return found


class _Builder:
    """Makes modules of what was read, each once."""

    def __init__(self, classes: dict[str, tuple[list[str], list[str]]]) -> None:
        self.classes = classes
        self.made: dict[int, RecursiveScriptModule] = {}

    def module(self, saved: _Saved) -> RecursiveScriptModule:
        if id(saved) in self.made:
            return self.made[id(saved)]
        made = self.made[id(saved)] = RecursiveScriptModule()
        made.original_name = type(saved).__name__
        parameters, buffers = self.classes[saved.class_name]
        values = vars(saved)
        for name in parameters:
            value = values[name]
            made.register_parameter(
                name, value if value is None else nn.Parameter(value, value.requires_grad)
            )
        for name in buffers:
            made.register_buffer(name, values[name])
        for name, value in values.items():
            if isinstance(value, _Saved) and value.class_name in self.classes:
                made.add_module(name, self.module(value))
            elif name == "training" or not hasattr(made, name):
                setattr(made, name, value)
        return made


def load(f: Any, map_location: Any, extra_files: dict[str, Any] | None) -> RecursiveScriptModule:
    """The module of a TorchScript file."""
    with callers_errors(), serialization._opened(f) as file:
        start = file.tell()
        reader = ArchiveReader(file, start)
        if not reader.has("constants.pkl"):
            raise RuntimeError(
                "PytorchStreamReader failed locating file constants.pkl: file not found"
            )
        try:
            for name in extra_files or ():
                extra_files[name] = reader.read(f"extra/{name}").decode()  # type: ignore[index]
            return _module(reader, file, start, map_location)
        except (RuntimeError, pickle.UnpicklingError):
            raise
        except Exception as error:
            raise RuntimeError(f"torch.jit.load: the file is damaged: {error!r}") from error


def _module(
    reader: ArchiveReader, file: Any, start: int, map_location: Any
) -> RecursiveScriptModule:
    root = load_known(file, start, map_location, script=(_make, _build))
    classes = _classes(reader)
    if not isinstance(root, _Saved) or root.class_name not in classes:
        raise RuntimeError("torch.jit.load: the file holds no module")
    return _Builder(classes).module(root)
