"""The C++ programs of README and docs/cpp compile, each in one call of the compiler, and print what
the page says below them. (tests/cpp/installed does more with that of docs/cpp.md.)"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.utils import cpp_extension

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/cpp/*.md"))]
PROGRAM = re.compile(r"^```cpp\n(.*?)^```$(?:\n*^```text\n(.*?)^```$)?", re.M | re.S)
PROGRAMS = {
    f"{page.stem}-{number}": found.groups()
    for page in PAGES
    for number, found in enumerate(PROGRAM.finditer(page.read_text()))
}
pytestmark = pytest.mark.slow  # it compiles


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    program, says = PROGRAMS[name]
    source = tmp_path / "program.cpp"
    source.write_text(program)
    path = cpp_extension.load(
        name,
        str(source),
        extra_cflags=["-O0", "-Wall", "-Wextra", "-Werror"],
        build_directory=str(tmp_path),
        is_standalone=True,
    )
    ran = subprocess.run([path], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == says


def test_every_area_has_a_program() -> None:
    pages = {name.rsplit("-", 1)[0] for name in PROGRAMS}
    assert pages == {page.stem for page in PAGES} - {"reference"}


def test_the_reference_has_the_names_of_the_headers() -> None:
    command = [sys.executable, str(ROOT / "tools" / "cpp_reference.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
