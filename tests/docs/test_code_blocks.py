"""The Python code blocks of README and docs run, and print what they claim.

Blocks of one page share their names, from top to bottom. A block with `>>>` prompts is checked like
a doctest; any other ```python block just has to run.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


class Block(NamedTuple):
    line: int
    code: str


def python_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
    blocks = [Block(text.count("\n", 0, match.start(1)), match[1]) for match in found]
    # A block that names a file in its first line is text to put there, not code to run.
    return [block for block in blocks if not re.match(r"# [\w/]+\.py\n", block.code)]


def run_prompts(block: Block, page: Path, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.code, names, page.name, str(page), block.line)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)
    names.update(test.globs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    names: dict[str, object] = {"__name__": "documentation"}
    for block in python_blocks(page):
        if ">>>" in block.code:
            run_prompts(block, page, names)
        else:
            padded = "\n" * block.line + block.code  # so that a traceback shows the page's line
            exec(compile(padded, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    """Paths in backticks and relative links lead somewhere."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    folders = r"flambeau|python|tests|docs|examples|benchmarks|tools|cmake"
    named = re.findall(rf"`((?:{folders})/[\w./]*)`", text)
    linked = [
        str((page.parent / link).resolve().relative_to(ROOT))
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    ]
    places = [ROOT, ROOT / "python" / "flambeau" / "include"]  # where the build prints a header
    missing = [n for n in named + linked if not any((place / n).exists() for place in places)]
    assert not missing


def test_code_that_the_tour_quotes_is_the_sources() -> None:
    """A block of C++ that opens with a file's name stands in that file, word for word."""
    text = (ROOT / "docs" / "tour.md").read_text()
    quotes = re.findall(r"^```cpp\n// (\S+)\n(.*?)^```$", text, re.M | re.S)
    assert quotes
    for name, quoted in quotes:
        source = " ".join((ROOT / name).read_text().split())
        assert " ".join(quoted.split()) in source, f"{name} no longer says:\n{quoted}"
