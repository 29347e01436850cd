"""A processor runs only instructions that it has: kernels for one set stay in a library of their
own, of which one is loaded, and everything else is built for any x86-64.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

PACKAGE = Path(flambeau.__file__).parent
KERNELS = sorted(PACKAGE.glob("libflambeau_cpu_*.so"))
# Registers that came with AVX-512, and those that came with AVX.
AVX512 = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[1-7]\b")
AVX = re.compile(rf"%ymm|{AVX512.pattern}")


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    environment = {**os.environ, **environment}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def functions_with(registers: re.Pattern[str], library: Path) -> set[str]:
    """The names of all functions in the library whose code names such a register."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(library)]
    found, name = set(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as objdump:
        assert objdump.stdout is not None
        for line in objdump.stdout:
            if line.endswith(">:\n"):
                name = line[line.index("<") + 1 : -3]
            elif registers.search(line):
                found.add(name)
    assert objdump.returncode == 0
    return found


@pytest.mark.parametrize("library", KERNELS, ids=lambda path: path.stem)
def test_only_the_kernels_asked_for_are_loaded(library: Path) -> None:
    isa = library.stem.rpartition("_")[2]
    done = run(
        """
        import re, flambeau as torch
        x = torch.arange(1000.0)
        assert x.tanh().sum().round() == 999 and x.sort()[1].sum() == 499500
        print(*sorted(set(re.findall("libflambeau_cpu_(v.)", open("/proc/self/maps").read()))))
        """.replace("\n        ", "\n"),
        FLAMBEAU_ISA=isa,
    )
    assert done.stdout.split() == [isa], done.stderr


@pytest.mark.parametrize("library", KERNELS, ids=lambda path: path.stem)
def test_loops_and_factors_are_right_in_every_set(library: Path) -> None:
    here = Path(__file__).parent
    files = ["test_streaming_stores.py", "test_simd_loops.py", "test_math_simd.py"]
    files += ["../linalg/test_fft.py", "../linalg/test_linalg.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(here / name) for name in files)],
        env={**os.environ, "FLAMBEAU_ISA": library.stem.rpartition("_")[2]},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_products_of_bfloat16_do_without_instructions_that_onednn_may_not_use() -> None:
    done = run(
        """
        import flambeau as torch
        torch.manual_seed(0)
        a, b = torch.randn(2, 300, 300, dtype=torch.bfloat16)
        assert torch.allclose((a @ b).float(), a.float() @ b.float(), rtol=1e-2, atol=1e-1)
        x, w = a.view(1, 4, 75, 300), b[0, :144].view(4, 4, 3, 3)
        y = torch.nn.functional.conv2d(x, w).float()
        z = torch.nn.functional.conv2d(x.float(), w.float())
        assert torch.allclose(y, z, rtol=1e-2, atol=1e-1)
        """.replace("\n        ", "\n"),
        ONEDNN_MAX_CPU_ISA="AVX2",
    )
    assert done.returncode == 0, done.stderr


def test_there_is_a_library_of_kernels() -> None:
    assert KERNELS


def test_a_processor_without_the_instructions_is_told_at_import() -> None:
    done = run("import flambeau", FLAMBEAU_ISA="v2")
    assert done.returncode != 0
    said = "ImportError: the CPU kernels cannot be loaded: FLAMBEAU_ISA=v2: known are v3 and v4"
    assert said in done.stderr


def test_what_every_processor_runs_uses_no_vector_extension() -> None:
    for library in [PACKAGE / "libflambeau.so", *PACKAGE.glob("_C.*.so")]:
        # Clones that the compiler made for AVX2 are chosen by a question to the processor.
        found = {name for name in functions_with(AVX, library) if ".avx2" not in name}
        assert not found, library.name


def test_kernels_for_avx2_use_no_avx512() -> None:
    for library in KERNELS:
        if "_v3" in library.name:
            assert not functions_with(AVX512, library)
