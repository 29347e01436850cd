"""Does exactly what docs/adding_an_op.md tells a reader to do, and runs the op's tests.

The blocks of that page that open with a file's name are appended to that file in a copy of the
sources, which is built beside the development build. The compiler cache makes this a matter of the
few units that a new row changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build" / "adding_an_op"
FOLDERS = ("flambeau", "python", "cmake", "tools/header", "tests/ops")
FILES = ("CMakeLists.txt", "CMakePresets.json", "pyproject.toml", "tests/conftest.py")
BLOCK = re.compile(r"^```(?:cpp|python)\n(?://|#) ([\w/]+\.(?:def|py))\n(.*?)^```$", re.M | re.S)

# What the op has that nobody wrote for it.
FORMS = """
import flambeau as torch
x = torch.tensor([[0.5], [1.0], [2.0]])
wanted = torch.versine(x)
assert torch.equal(torch.versine(x, out=torch.empty(0)), wanted)
assert torch.equal(x.clone().versine_(), wanted)
jagged = torch.nested.nested_tensor([x[:1], x[1:]], layout=torch.jagged)
assert torch.equal(jagged.versine().values(), wanted) and print("jagged") is None
class Foreign(torch.Tensor):
    pass
assert type(x.as_subclass(Foreign).versine()) is Foreign and print("foreign") is None
masked = torch.masked.masked_tensor(x, x < 2)
assert torch.equal(masked.versine().get_data(), wanted) and print("masked") is None
assert torch.equal(torch.vmap(torch.versine)(x), wanted) and print("vmap") is None
with torch.autocast("cpu", torch.bfloat16):
    low = torch.versine(x.bfloat16() @ torch.ones(1, 1))
assert low.dtype is torch.bfloat16 and print("autocast") is None
"""
FORM_NAMES = ["jagged", "foreign", "masked", "vmap", "autocast"]


def sources() -> dict[Path, bytes]:
    """Every file that building and testing an op needs, by its path from the root."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [ROOT / name for name in FILES]
    made = {ROOT / "python" / "flambeau" / name for name in ("include", "share")}
    kept = [
        path
        for path in paths
        if path.suffix not in (".so", ".pyc") and made.isdisjoint(path.parents)
    ]
    return {path.relative_to(ROOT): path.read_bytes() for path in kept}


def write_copy(files: dict[Path, bytes]) -> None:
    """Makes COPY hold these files; those that are equal keep their time, so nothing is rebuilt."""
    COPY.mkdir(parents=True, exist_ok=True)
    for old in [path for path in COPY.rglob("*") if path.is_file()]:
        name = old.relative_to(COPY)
        built = old.suffix in (".so", ".pyc") or "include" in name.parts
        if name.parts[0] in ("flambeau", "python", "tests") and name not in files and not built:
            old.unlink()
    for name, content in files.items():
        target = COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)


def run(*command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(COPY / "python")}
    result = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.slow
def test_a_row_and_a_sample_make_an_op() -> None:
    page = (ROOT / "docs" / "adding_an_op.md").read_text()
    added = BLOCK.findall(page)
    assert [name for name, _ in added] == [
        "flambeau/kernels/unary.def",
        "tests/ops/samples/unary.py",
    ]

    files = sources()
    for name, text in added:
        files[Path(name)] += b"\n" + text.encode()
    write_copy(files)

    build = COPY / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = [
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DFLAMBEAU_TESTS=OFF",
        "-DFLAMBEAU_ISAS=v3",
    ]
    run("cmake", "--preset", "dev", "-B", str(build), *generator, *options)
    run("cmake", "--build", str(build), "-j", str(os.cpu_count()))

    answer = run(sys.executable, "-c", "import flambeau as f; print(f.tensor([0.0]).versine_())")
    assert answer.strip() == "tensor([0.])"
    header = (COPY / "python" / "flambeau" / "include" / "flambeau" / "torch.h").read_text()
    for form in ("Tensor versine(", "Tensor& versine_(", "Tensor& versine_out("):
        assert f"\n{form}" in header, form
    assert "  Tensor versine() const" in header
    assert run(sys.executable, "-c", FORMS).split() == FORM_NAMES
    report = run(sys.executable, "-m", "pytest", "-q", "tests/ops", "-k", "versine")
    passed = re.search(r"(\d+) passed", report)
    assert passed and int(passed[1]) >= 5, report
