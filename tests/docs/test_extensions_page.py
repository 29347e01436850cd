"""Builds the operator that docs/extensions.md shows. (Its Python runs with that of all pages.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.utils import cpp_extension

PAGE = (Path(__file__).parents[2] / "docs" / "extensions.md").read_text()
pytestmark = pytest.mark.slow  # it compiles


def block(language: str) -> str:
    """The first block of the page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def test_operator_is_called(tmp_path: Path) -> None:
    source = tmp_path / "page.cpp"
    source.write_text(block("cpp"))
    path = cpp_extension.load(
        "page", str(source), build_directory=str(tmp_path), is_python_module=False
    )
    assert path in torch.ops.loaded_libraries
    x = torch.ones(2)
    assert torch.equal(torch.ops.page.scaled(x), x * 2)
    assert torch.equal(torch.ops.page.scaled(x, by=3.0), x * 3)
