"""Writes the type stubs of the package from the built library.

    stubs.py            writes python/flambeau/_C.pyi and python/flambeau/__init__.pyi
    stubs.py --check    fails when these files differ from what it would write

Ops come from the registry: their C++ types, and the names and defaults of their signatures. What is
bound by hand (attributes of Tensor, small types) comes from looking at the extension.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "flambeau"
sys.path.insert(0, str(ROOT / "python"))

HEADER = """\
# Written by tools/stubs.py from the built library; `make stubs` writes it again.
# Names with an underscore stand for what torch.int, Tensor.float, ... would hide.
"""

CORE_PREAMBLE = """\
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, overload

_Number = _bool | _int | _float | _complex
_dtype = dtype
_device = device
_layout = layout
_memory_format = memory_format
_Device = device | str | _int
"""

ARGUMENT_TYPES = {
    "tensor": "Tensor",
    "operand": "Tensor | _Number",
    "scalar": "_Number",
    "integer": "_int",
    "real": "_float",
    "boolean": "_bool",
    "ints": "_int | Sequence[_int]",
    "reals": "Sequence[_float]",
    "tensors": "Sequence[Tensor]",
    "dtype": "_dtype",
    "device": "_Device",
    "layout": "_layout",
    "memory_format": "_memory_format",
    "string": "str",
    "generator": "Generator",
}
RESULT_TYPES = {
    "none": "None",
    "tensor": "Tensor",
    "list": "tuple[Tensor, ...]",
    "boolean": "_bool",
    "integer": "_int",
    "real": "_float",
    "scalar": "Any",
    "dtype": "_dtype",
    "text": "str",
}
OPTIONS = (
    "dtype: _dtype | None = ...",
    "layout: _layout | None = ...",
    "device: _Device | None = ...",
    "pin_memory: _bool | None = ...",
    "requires_grad: _bool | None = ...",
)

# Attributes that the extension defines by hand, where more than Any is known.
ATTRIBUTE_TYPES = {
    "shape": "Size",
    "dtype": "_dtype",
    "device": "_device",
    "layout": "_layout",
    "requires_grad": "_bool",
    "is_leaf": "_bool",
    "ndim": "_int",
    "itemsize": "_int",
    "nbytes": "_int",
    "grad": "Tensor | None",
    "data": "Tensor",
    "T": "Tensor",
    "mT": "Tensor",
    "H": "Tensor",
    "mH": "Tensor",
    "is_cuda": "_bool",
    "is_cpu": "_bool",
    "is_meta": "_bool",
}
METHOD_TYPES = {
    "dim": "(self) -> _int",
    "ndimension": "(self) -> _int",
    "numel": "(self) -> _int",
    "nelement": "(self) -> _int",
    "element_size": "(self) -> _int",
    "storage_offset": "(self) -> _int",
    "data_ptr": "(self) -> _int",
    "const_data_ptr": "(self) -> _int",
    "is_floating_point": "(self) -> _bool",
    "is_complex": "(self) -> _bool",
    "requires_grad_": "(self, requires_grad: _bool = ...) -> Tensor",
    "__getattr__": "(self, name: str) -> Any",
    "__len__": "(self) -> _int",
    "__bool__": "(self) -> _bool",
    "__int__": "(self) -> _int",
    "__index__": "(self) -> _int",
    "__float__": "(self) -> _float",
    "__complex__": "(self) -> _complex",
    "__hash__": "(self) -> _int",
    "__iter__": "(self) -> Iterator[Tensor]",
    "__getitem__": "(self, index: Any) -> Tensor",
    "__setitem__": "(self, index: Any, value: Any) -> None",
    "__neg__": "(self) -> Tensor",
    "__pos__": "(self) -> Tensor",
    "__abs__": "(self) -> Tensor",
    "__invert__": "(self) -> Tensor",
}
OPERATOR = re.compile(
    r"__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__"
)
COMPARISON = re.compile(r"__(eq|ne|lt|le|gt|ge)__")


# --- Ops -----------------------------------------------------------------------------------------


def split_arguments(signature: str) -> list[str]:
    """The arguments of "name(a, b=(1, 2), *, c=None) -> ...", with brackets kept together."""
    depth, current, parts = 0, "", []
    for char in signature[signature.index("(") + 1 :]:
        if char == ")" and depth == 0:
            break
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [part for part in [*parts, current.strip()] if part]


def argument_texts(row: dict[str, Any], spread: bool) -> list[str]:
    """The arguments as a stub writes them; `spread` says whether `*size` takes loose integers."""
    kinds = iter(row["arguments"])
    texts: list[str] = []
    keyword_only = False
    for part in split_arguments(row["signature"]):
        if part == "*":
            if not keyword_only:
                texts.append("*")
            keyword_only = True
            continue
        kind = next(kinds)
        if kind == "options":
            texts += [*([] if keyword_only else ["*"]), *OPTIONS]
            keyword_only = True
            continue
        name, equals, default = part.partition("=")
        if name.startswith("*") and spread:
            texts.append(f"{name}: {'Tensor' if kind == 'tensors' else '_int'}")
            keyword_only = True
            continue
        name = name.lstrip("*")
        name = name + "_" if keyword.iskeyword(name) else name
        kind_type = ARGUMENT_TYPES[kind.rstrip("?")]
        if kind == "tensors" and row["name"].startswith("_"):
            kind_type = "Sequence[Tensor | None]"  # optimizers: a parameter may have no state yet
        if kind.endswith("?") or default == "None":
            kind_type += " | None"
        if not equals and not keyword_only:
            # What comes before a required argument cannot be left out by position.
            texts = [text.removesuffix(" = ...") for text in texts]
        texts.append(f"{name}: {kind_type}" + (" = ..." if equals else ""))
    return texts


def result_text(row: dict[str, Any]) -> str:
    if row["returns"] != "tuple":
        return RESULT_TYPES[row["returns"]]
    named = re.search(r"-> \((.*)\)", row["signature"])
    if named is None:
        return "tuple[Tensor, ...]"
    return f"tuple[{', '.join(['Tensor'] * len(named[1].split(',')))}]"


def row_definitions(row: dict[str, Any], method: bool) -> list[str]:
    """The `(...) -> ...` of every way to call one registered function."""
    loose = any(
        part.startswith("*") and part[1:2].isalpha() for part in split_arguments(row["signature"])
    )
    definitions = []
    for spread in (True, False) if loose else (False,):
        texts = argument_texts(row, spread)
        if method:
            texts[0] = "self"
        elif row["returns"] in ("tensor", "tuple") and not row["view"]:
            if not any(text.startswith("*") for text in texts):
                texts.append("*")
            result = result_text(row)
            texts.append(f"out: {result} | None = ...")
        definitions.append(f"({', '.join(texts)}) -> {result_text(row)}")
    return definitions


def function_lines(name: str, definitions: list[str], indent: str) -> list[str]:
    unique = list(dict.fromkeys(definitions))
    lines = []
    for definition in unique:
        if len(unique) > 1:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {name}{definition}: ...")
    return lines


def op_definitions(registry: list[dict[str, Any]], method: bool) -> dict[str, list[str]]:
    """All overloads by name, of functions or of methods."""
    found: dict[str, list[str]] = {}
    for row in registry:
        if not row["method" if method else "function"]:
            continue
        found.setdefault(row["name"], []).extend(row_definitions(row, method))
        if row["inplace"]:
            found.setdefault(row["name"] + "_", []).extend(row_definitions(row, method))
    return {name: texts for name, texts in found.items() if not keyword.iskeyword(name)}


# --- What is bound by hand -----------------------------------------------------------------------


def member_lines(name: str, value: Any) -> list[str]:
    if (
        inspect.isgetsetdescriptor(value)
        or inspect.ismemberdescriptor(value)
        or isinstance(value, property)
    ):
        return [f"    {name}: {ATTRIBUTE_TYPES.get(name, 'Any')}"]
    if OPERATOR.fullmatch(name):
        return [f"    def {name}(self, other: Any) -> Tensor: ..."]
    if COMPARISON.fullmatch(name):
        return [f"    def {name}(self, other: Any) -> Tensor: ...  # type: ignore[override]"]
    if name in METHOD_TYPES:
        return [f"    def {name}{METHOD_TYPES[name]}: ..."]
    if isinstance(value, staticmethod):
        return ["    @staticmethod", f"    def {name}(*args: Any, **kwargs: Any) -> Any: ..."]
    if callable(value) or isinstance(value, classmethod):
        return [f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."]
    return [f"    {name}: Any"]


# Protocols that a type checker should see; the other special names differ between Pythons.
PROTOCOLS = re.compile(
    r"__(enter|exit|call|contains|delitem|reversed|rdiv|array|dlpack|dlpack_device)__"
)


def is_shown(member: str) -> bool:
    if not re.fullmatch(r"__\w+__", member):
        return True
    patterns = (OPERATOR, COMPARISON, PROTOCOLS)
    return member in METHOD_TYPES or any(pattern.fullmatch(member) for pattern in patterns)


def class_lines(name: str, value: type, methods: dict[str, list[str]]) -> list[str]:
    base = "(tuple[_int, ...])" if issubclass(value, tuple) else ""
    if issubclass(value, BaseException):
        return [f"class {name}(RuntimeError): ..."]
    lines = [
        f"class {name}{base}:",
        "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...",
    ]
    if issubclass(value, tuple):
        return lines + member_lines("numel", value.numel)  # type: ignore[attr-defined]
    op_type = type(vars(value)["add"]) if methods else None
    for member in sorted(set(vars(value)) | set(methods)):
        if member in methods and type(vars(value).get(member)) is op_type:
            lines += function_lines(member, methods[member], "    ")
        elif is_shown(member):
            lines += member_lines(member, vars(value)[member])
    if methods:  # Tensor: attributes that programs add to it
        lines.append("    def __getattr__(self, name: str) -> Any: ...")
    return lines


def core_stub() -> str:
    from flambeau import _C

    registry = _C._op_registry()
    functions = op_definitions(registry, method=False)
    methods = op_definitions(registry, method=True)
    lines = [HEADER + CORE_PREAMBLE]
    for name, value in sorted(vars(_C).items()):
        if re.fullmatch(r"__\w+__", name) or name == "TensorBase":
            continue
        if inspect.isclass(value):
            members = methods if name == "Tensor" else {}
            lines += ["", *class_lines(name, value, members)]
        elif name in functions:
            lines += function_lines(name, functions[name], "")
        elif callable(value):
            lines.append(f"def {name}(*args: Any, **kwargs: Any) -> Any: ...")
        elif type(value).__module__ in ("torch", "flambeau", "flambeau._C"):
            lines.append(f"{name}: {'float' if isinstance(value, float) else 'str'}")
        else:
            lines.append(f"{name}: Any")
    lines.append("TensorBase = Tensor")
    return "\n".join(lines) + "\n"


# --- The package ---------------------------------------------------------------------------------


def comes_from_package(value: Any) -> bool:
    """Whether a module of the package defines it under its own name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    inside = module is not None and module.__name__.startswith("flambeau.")
    return inside and getattr(module, getattr(value, "__name__", ""), None) is value


def package_stub() -> str:
    import flambeau
    from flambeau._namespace._tensor_types import _NAMES as tensor_types

    lines = [HEADER + "from typing import Any\n"]
    modules = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules |= {path.stem for path in PACKAGE.glob("*.py")}
    lazy = {*modules, *vars(flambeau)["_HOMES"], "TypedStorage", "UntypedStorage", *tensor_types}
    for name in sorted({*vars(flambeau), *lazy}):
        hidden = name.startswith("_") and name != "__version__"
        if hidden or name == "annotations" or not hasattr(flambeau, name):
            continue
        value = getattr(flambeau, name)
        if isinstance(value, types.ModuleType):
            if value.__name__.startswith("flambeau."):
                parent, _, leaf = value.__name__.rpartition(".")
                lines.append(f"from {parent} import {leaf} as {name}")
        elif value is not None and vars(flambeau._C).get(name) is value:
            lines.append(f"from flambeau._C import {name} as {name}")
        elif comes_from_package(value):
            lines.append(f"from {value.__module__} import {value.__name__} as {name}")
        elif isinstance(value, (float, str)):
            lines.append(f"{name}: {'float' if isinstance(value, float) else 'str'}")
        else:
            lines.append(f"{name}: {value if value is None else 'Any'}")
    return "\n".join(lines) + "\n"


def main() -> int:
    stubs = {PACKAGE / "_C.pyi": core_stub(), PACKAGE / "__init__.pyi": package_stub()}
    if "--check" not in sys.argv[1:]:
        for path, text in stubs.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in stubs.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} differs from the built library: run `make stubs`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
