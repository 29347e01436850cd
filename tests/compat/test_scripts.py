"""Programs written by hand, statement by statement the same under Flambeau and under PyTorch.

The files in tests/compat/scripts hold them; `# %%` starts a new program. A list that nothing reads
is a list of questions: each is compared as a variable of its own.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compare import Comparison

SCRIPTS = Path(__file__).parent / "scripts"


def statements(source: str) -> list[str]:
    """The statements of a program; `x = [a, b]` becomes `x_0 = a`, `x_1 = b`."""
    tree = ast.parse(source)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            (target,) = node.targets
            assert isinstance(target, ast.Name)
            if target.id not in used:
                parts = enumerate(node.value.elts)
                found += [f"{target.id}_{k} = {ast.unparse(part)}" for k, part in parts]
                continue
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
