"""Runs the project's checks of style and structure.

    lint.py [--fix] CHECK...    with CHECK one of format, ruff, mypy, layers, budgets, tidy

Every check runs even when an earlier one failed, so that one run shows all there is to repair.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sources import CPP_SUFFIXES, ROOT, source_files

BUILD = ROOT / "build" / "dev"
BIN = Path(sys.executable).parent

# What clang-tidy cannot read, and why.
TIDY_SKIPS = {
    "flambeau/cpu/isa.cpp": "clang 14 does not know the names of the x86-64 levels",
    "flambeau/nn/layers/conv.cpp": "clang 14 instantiates members whose constraints do not hold",
}
GCC_ONLY = ("-fvect-cost-model=dynamic",)  # flags that clang refuses


def run(*command: str) -> bool:
    return subprocess.run(command, cwd=ROOT).returncode == 0


def check_format(fix: bool) -> bool:
    files = [str(path) for path in source_files(*CPP_SUFFIXES)]
    if not files:
        return True
    return run("clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *files)


def check_ruff(fix: bool) -> bool:
    linted = run(str(BIN / "ruff"), "check", "--quiet", *(["--fix"] if fix else []), ".")
    return (
        run(str(BIN / "ruff"), "format", "--quiet", *([] if fix else ["--check"]), ".") and linted
    )


def check_mypy(fix: bool) -> bool:
    return run(str(BIN / "mypy"))


def check_layers(fix: bool) -> bool:
    return run(sys.executable, "tools/layers.py")


def check_budgets(fix: bool) -> bool:
    return run(sys.executable, "tools/budgets.py", "sizes")


def tidy_units() -> list[str]:
    """The C++ sources of the development build, each once."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = {Path(entry["file"]) for entry in commands if entry["file"].endswith(".cpp")}
    ours = {ROOT / path for path in source_files(".cpp") if str(path) not in TIDY_SKIPS}
    return sorted(str(file) for file in files & ours)


def tidy_key(unit: str, shared: bytes) -> str:
    return hashlib.sha256(shared + unit.encode() + Path(unit).read_bytes()).hexdigest()


def check_tidy(fix: bool) -> bool:
    """clang-tidy over all units whose source, or any header, changed since they were clean."""
    passed = BUILD / "tidy"
    passed.mkdir(exist_ok=True)
    inputs = [ROOT / ".clang-tidy", *(ROOT / path for path in source_files(".h", ".def"))]
    shared = b"".join(path.read_bytes() for path in inputs)
    units = [unit for unit in tidy_units() if not (passed / tidy_key(unit, shared)).exists()]
    commands = (BUILD / "compile_commands.json").read_text()
    for flag in GCC_ONLY:
        commands = commands.replace(f" {flag}", "")
    (passed / "compile_commands.json").write_text(commands)

    def check(unit: str) -> bool:
        # clang has _Float16 only with this extension; its warnings are the compiler's business.
        flags = ["--extra-arg=-mavx512fp16", "--extra-arg=-Wno-everything"]
        command = ["clang-tidy", "--quiet", "-p", str(passed), *flags, unit]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if result.returncode:
            print(result.stdout or result.stderr, flush=True)
            return False
        (passed / tidy_key(unit, shared)).touch()
        return True

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        clean = list(pool.map(check, units))
    print(f"clang-tidy: {len(units)} units checked, {clean.count(False)} with findings")
    return all(clean)


CHECKS = {
    "format": check_format,
    "ruff": check_ruff,
    "mypy": check_mypy,
    "layers": check_layers,
    "budgets": check_budgets,
    "tidy": check_tidy,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument("checks", nargs="+", choices=CHECKS)
    arguments = parser.parse_args()
    failed = [name for name in arguments.checks if not CHECKS[name](arguments.fix)]
    print(f"lint: {', '.join(failed)} FAILED" if failed else "lint: clean")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
