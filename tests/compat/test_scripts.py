"""Programs written by hand, statement by statement the same under Flambeau and under PyTorch.

The files in tests/compat/scripts hold them; `# %%` starts a new program. Where a statement holds a
list of expressions, each is compared as a variable of its own, so that one report shows all that
differ.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compare import Comparison

SCRIPTS = Path(__file__).parent / "scripts"


def statements(source: str) -> list[str]:
    """The statements of a program; `x = [a, b]` becomes `x_0 = a`, `x_1 = b`."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) and node.value.elts:
            (target,) = node.targets
            assert isinstance(target, ast.Name)
            found += [f"{target.id}_{k} = {ast.unparse(e)}" for k, e in enumerate(node.value.elts)]
            found.append(ast.unparse(node))
        else:
            found.append(ast.unparse(node))
    return found


def programs() -> list[tuple[str, list[str]]]:
    return [
        (f"{path.stem}-{number}", statements(source))
        for path in sorted(SCRIPTS.glob("*.py"))
        for number, source in enumerate(path.read_text().split("# %%\n"))
    ]


PROGRAMS = programs()


@pytest.mark.parametrize("program", [p for _, p in PROGRAMS], ids=[name for name, _ in PROGRAMS])
def test_script_agrees_with_pytorch(program: list[str], comparison: Comparison) -> None:
    found = comparison.differences(program)
    assert not found, "\n".join(found)
