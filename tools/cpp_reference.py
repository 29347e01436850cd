"""Writes docs/cpp/reference.md, the names that C++ programs have, from the headers of the build.

    cpp_reference.py            writes the page
    cpp_reference.py --check    fails when the page differs from what it would write

The compiler runs the preprocessor over all headers, so that names made by macros are found as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cpp" / "reference.md"
INCLUDE = ROOT / "python" / "flambeau" / "include"
HEADERS = ("flambeau/frontend.h", "flambeau/api/cuda.h")
OURS = "flambeau::torch"
# Of the library's own use.
HIDDEN = re.compile(
    r"_|.*((?<!Tensor)(?<!Loader)Options|Impl|ImplBase|ParamState|Indices|[a-z]_t)$"
    r"|(Application|BatchSource|DefaultPtrTraits|Field|LinePoint|LineSearch|Op|Resettable)$"
    r"|(RestrictPtrTraits|Workers|fields_of|init_num_threads|of|strong_wolfe|tensors_of)$"
)

INTRODUCTION = """\
# C++ reference

The names of the library, by namespace. (`make stubs` writes this page again, with
`tools/cpp_reference.py`; a test compares it with the headers.) Arguments and defaults are Python's,
and stand in the headers: `flambeau/torch.h` in the package's `include` folder has all ops. An op
`name` has `name_`, which writes in place, and `name_out(out, ...)` where Python has them, and is a
method where it is one in Python; those of `torch::fft`, `torch::linalg` and `torch::special` have
a second name, as `torch::fft_rfft`. Every module `Name` has a class `NameImpl`; one that takes
options has `NameOptions`, and so have optimizers, with a `NameParamState`.
"""


class Declaration(NamedTuple):
    namespace: str
    header: str  # of our own, from the include folder on; empty for others
    text: str  # up to a body or a semicolon
    has_body: bool


def preprocessed() -> str:
    source = "".join(f"#include <{header}>\n" for header in HEADERS)
    command = ["g++", "-std=c++20", "-E", "-x", "c++", "-I", str(INCLUDE), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


TOKEN = re.compile(r'^# \d+ "([^"]*)".*$|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'|[(){};]', re.M)


def declarations(source: str) -> list[Declaration]:
    """What stands in namespaces, without bodies."""
    found: list[Declaration] = []
    namespaces: list[str] = []
    header, text, begin = "", "", 0
    body = parentheses = 0  # how deep in the body of something, and in parentheses of its head
    for token in TOKEN.finditer(source):
        if not body:
            text += source[begin : token.start()]
        begin = token.end()
        kind = token[0][0]
        if kind == "#":
            path = Path(token[1])
            inside = path.is_relative_to(INCLUDE)
            header = str(path.relative_to(INCLUDE / "flambeau")) if inside else ""
        elif body:
            body += (kind == "{") - (kind == "}")
        elif kind in "()" or (parentheses and kind in "{};"):
            parentheses += (kind == "(") - (kind == ")")
            text += kind
        elif kind == "{" and (space := re.search(r"\bnamespace\s*([\w:]*)\s*$", text)):
            namespaces.append(space[1])
            text = ""
        elif kind in "{;":
            namespace = "::".join(namespaces)
            found.append(Declaration(namespace, header, " ".join(text.split()), kind == "{"))
            body, text = int(kind == "{"), ""
        elif kind == "}":
            namespaces.pop()
            text = ""
    return found


def name_of_class(declaration: Declaration) -> str | None:
    without_template = re.sub(r"^template <.*?> (?=class|struct)", "", declaration.text)
    found = re.match(r"(?:class|struct) (\w+)(?:<.*>)?(?: final)?(?: :|$)", without_template)
    return found[1] if found and declaration.has_body else None


def name_of_function(declaration: Declaration) -> str | None:
    text = declaration.text
    if re.match(r"using|typedef|static_assert|class|struct|enum|extern template|friend", text):
        return None
    if "operator" in text or re.search(r"::\w+\(", text.split("(")[0] + "("):
        return None
    depth = 0  # of angle brackets and parentheses: types of results may hold both
    for token in re.finditer(r"->|[<>()=]|\b(\w+) ?(?=\()", text):
        if token[0] == "=" and not depth:
            return None  # a variable
        if token[1]:
            if not depth and token.start() and token[1] not in ("requires", "__attribute__"):
                return token[1]
        elif token[0] in ("<", "("):
            depth += 1
        elif token[0] in (">", ")"):
            depth -= 1
    return None


class Names:
    """Names of classes and functions, by namespace or header, each once and in order."""

    def __init__(self, all_declarations: list[Declaration]) -> None:
        self.classes: dict[str, set[str]] = {}
        self.functions: dict[str, set[str]] = {}
        self.modules: dict[str, list[str]] = {}
        for each in all_declarations:
            if not each.header or not each.namespace.startswith(OURS):
                continue
            space = each.namespace
            if (name := name_of_class(each)) is not None:
                if re.search(r": public [\w:]*ModuleHolder<", each.text):
                    self.modules.setdefault(each.header, []).append(name)
                else:
                    self.classes.setdefault(space, set()).add(name)
            elif (name := name_of_function(each)) is not None:
                self.functions.setdefault(space, set()).add(name)

    def public_classes(self, space: str) -> list[str]:
        return sorted(name for name in self.classes.get(space, ()) if not HIDDEN.match(name))

    def public_functions(self, space: str) -> list[str]:
        names = self.functions.get(space, set())
        forms = {name for name in names if name.endswith("_") and name[:-1] in names}
        forms |= {name for name in names if name.endswith("_out") and name[:-4] in names}
        for inner in ("fft", "linalg", "special"):
            forms |= {f"{inner}_{name}" for name in self.functions[f"{OURS}::{inner}"]}
        return sorted(name for name in names - forms if not HIDDEN.match(name))


def block(names: list[str]) -> str:
    lines = textwrap.wrap(" ".join(names), 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join(["```", *lines, "```"])


SPACES = {
    "": "Tensors",
    "fft": "Fourier transforms",
    "linalg": "Linear algebra",
    "special": "Special functions",
    "indexing": "Indexing",
    "autograd": "Gradients",
    "nn": "Modules",
    "nn::functional": "Layers as functions",
    "nn::init": "Initial values",
    "nn::utils": "Gradients and parameters together",
    "nn::utils::rnn": "Sequences of different lengths",
    "optim": "Optimizers",
    "data": "Data",
    "data::datasets": "Datasets",
    "data::samplers": "Samplers",
    "data::transforms": "Transforms",
    "serialize": "Archives",
    "cuda": "CUDA",
}


def page() -> str:
    names = Names(declarations(preprocessed()))
    parts = [INTRODUCTION]
    for short, title in SPACES.items():
        space = "::".join(filter(None, (OURS, short)))
        parts.append(f"## {title}: `{'::'.join(filter(None, ('torch', short)))}`\n")
        if short == "nn":
            parts.append("| header | modules |\n|---|---|")
            parts[-1] += "".join(
                f"\n| `flambeau/{header}` | {', '.join(sorted(modules))} |"
                for header, modules in sorted(names.modules.items())
            )
            parts.append("\nWhat they stand on, and functions:\n")
        parts += [
            block(each) + "\n"
            for each in (names.public_classes(space), names.public_functions(space))
            if each
        ]
    return "\n".join(parts)


def main() -> int:
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is not what the headers say: run `make stubs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
