"""The printed C++ header has every form of an op that Python has."""

from __future__ import annotations

import re
from pathlib import Path

import flambeau as torch
from flambeau import _C

HEADER = Path(torch.__file__).parent / "include" / "flambeau" / "torch.h"
# Where ops stand that C++ programs write in ways of their own (the flag cpp_by_hand).
BY_HAND = Path(__file__).parents[3] / "flambeau" / "api"
# C++ keeps these names for itself.
TYPES = ("bool", "char", "double", "float", "int", "long", "short")


def declared() -> tuple[set[str], set[str]]:
    """The functions and the methods of the header."""
    text = HEADER.read_text()
    for name in ("factories.h", "functions.h", "tensor.h", "tensor_base.h"):
        text += (BY_HAND / name).read_text()
    result = r"(?:\[\[nodiscard\]\] )?(?:inline )?[\w:<>&, ]+[ &]"
    functions = re.findall(rf"^{result}(\w+)\(", text, re.M)
    methods = re.findall(rf"^  {result}(\w+)\(", text, re.M)
    return set(functions), set(methods)


def takes_out(name: str) -> bool:
    """Whether the function knows an argument called out; it gets no others."""
    try:
        _C._ops[name](out=torch.empty(0))
    except TypeError as error:
        return "unexpected keyword argument 'out'" not in str(error)
    except RuntimeError:
        pass
    return True


def test_functions_of_python_are_functions_of_cpp() -> None:
    functions, _ = declared()
    assert len(_C._ops) > 700
    assert not sorted(set(_C._ops) - functions)


def test_methods_of_python_are_methods_of_cpp() -> None:
    _, methods = declared()
    builtin = type(torch.Tensor.add)
    python = {name for name in dir(torch.Tensor) if type(getattr(torch.Tensor, name)) is builtin}
    assert len(python) > 400
    renamed = {f"to_{name}" if name in TYPES else name for name in python}
    assert not sorted(renamed - methods)


def test_what_takes_out_in_python_has_an_out_form_in_cpp() -> None:
    functions, _ = declared()
    python = {f"{name}_out" for name in _C._ops if name[-1] != "_" and takes_out(name)}
    assert len(python) > 400
    assert not sorted(python - functions)
    assert not sorted({name for name in functions if name.endswith("_out")} - python - set(_C._ops))
