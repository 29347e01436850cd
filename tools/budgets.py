"""Fails when something outgrew its budget.

budgets.py sizes          files within 600 lines, functions within 60
budgets.py import         time of `import flambeau` beyond a bare interpreter, without NumPy
budgets.py wheel          size of the wheels in dist/
budgets.py compile        a clean build for the CPU, all instruction sets: CPU time
"""

from __future__ import annotations

import ast
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sources import CPP_SUFFIXES, ROOT, source_files

FILE_LINES = 600
FUNCTION_LINES = 60
IMPORT_SECONDS = 0.2
WHEEL_MEGABYTES = 25
BUILD_CPU_SECONDS = 6 * 60
UNIT_SECONDS = 60

# Kernels are long because loops for several layouts stand side by side.
FUNCTION_EXEMPT_FOLDERS = ("flambeau/cpu/kernels/", "flambeau/cuda/")

# Single files or functions beyond the budget, as "path" or "path:function", and why.
EXCEPTIONS: dict[str, str] = {}


def blank_out_text(source: str) -> str:
    """The C++ source with comments, strings and directives replaced by spaces, same length."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
        r"|^[ \t]*#(?:\\\n|[^\n])*",
        re.S | re.M,
    )
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def skip_balanced(text: str, begin: int, pair: str) -> int:
    """The position behind the bracket that closes the one at `begin`."""
    depth, end = 1, begin + 1
    while depth and end < len(text):
        depth += (text[end] == pair[0]) - (text[end] == pair[1])
        end += 1
    return end


def without_preamble(head: str) -> str:
    """A declaration without the `template <...>`, and the macros such as OP(...), before it."""
    head = head.lstrip()
    while match := re.match(r"template\s*<|[A-Z][A-Z0-9_]*\(", head):
        pair = "<>" if match[0].endswith("<") else "()"
        head = head[skip_balanced(head, match.end() - 1, pair) :].lstrip()
    return head


def cpp_functions(source: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function body outside other functions.

    A brace after a parenthesis opens a function; after namespace, class or `=` it does not. That
    is a heuristic, but one that clang-format's output satisfies.
    """
    text = blank_out_text(source)
    head_start = 0
    inside = 0  # depth of braces within the current function, 0 outside
    first = ""
    start = 0
    for position, char in enumerate(text):
        if inside:
            inside += (char == "{") - (char == "}")
            if not inside:
                yield first, text.count("\n", 0, start) + 1, text.count("\n", 0, position) + 1
                head_start = position + 1
        elif char == "{":
            head = text[head_start:position]
            declared = without_preamble(head)
            named = re.search(r"([\w~:]+|operator\s*\S+)\s*\(", declared)
            transparent = re.match(r"(namespace|class|struct|union|enum|extern)\b", declared)
            if named and not transparent and not declared.rstrip().endswith("="):
                inside, first = 1, named[1]
                start = position - len(declared)
            head_start = position + 1
        elif char in "};":
            head_start = position + 1


def python_functions(source: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function, its docstring not counted."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.lineno
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                first += (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
            yield node.name, first, node.end_lineno or node.lineno


def check_sizes() -> list[str]:
    problems = []
    for path in source_files(*CPP_SUFFIXES, ".py"):
        name = str(path)
        source = (ROOT / path).read_text()
        lines = source.count("\n")
        if lines > FILE_LINES and name not in EXCEPTIONS:
            problems.append(f"{name}: {lines} lines, the budget is {FILE_LINES}")
        if name.startswith(FUNCTION_EXEMPT_FOLDERS):
            continue
        functions = python_functions if path.suffix == ".py" else cpp_functions
        for function, first, last in functions(source):
            length = last - first + 1
            if length > FUNCTION_LINES and f"{name}:{function}" not in EXCEPTIONS:
                problems.append(
                    f"{name}:{first}: {function} has {length} lines, the budget is {FUNCTION_LINES}"
                )
    return problems


def best_seconds(code: str, runs: int = 7) -> float:
    best = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", check=True)
        best = min(best, time.perf_counter() - begin)
    return best


def check_import() -> list[str]:
    best_seconds("import flambeau", runs=1)  # writes the byte code
    beyond = best_seconds("import flambeau") - best_seconds("pass")
    print(f"import flambeau: {beyond * 1e3:.0f} ms beyond a bare interpreter")
    problems = []
    if beyond > IMPORT_SECONDS:
        problems.append(f"import takes {beyond:.3f} s, the budget is {IMPORT_SECONDS} s")
    code = "import flambeau, sys; sys.exit('numpy' in sys.modules)"
    if subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python").returncode:
        problems.append("import flambeau imports NumPy")
    return problems


def check_wheel() -> list[str]:
    problems = []
    for wheel in sorted((ROOT / "dist").glob("*.whl")):
        megabytes = wheel.stat().st_size / 1e6
        print(f"{wheel.name}: {megabytes:.1f} MB")
        if megabytes > WHEEL_MEGABYTES:
            problems.append(f"{wheel.name} has {megabytes:.1f} MB, the budget is {WHEEL_MEGABYTES}")
    return problems


# Runs a compiler and appends its CPU time and its object to a file.
TIMED_COMPILER = """#!/bin/bash
TIMEFORMAT="%U %S $(sed -n 's/.* -o \\([^ ]*\\).*/\\1/p' <<< "$*")"
{ time "$@" 2>&3; } 3>&2 2>> "{log}"
"""


def unit_seconds(log: Path) -> dict[str, float]:
    """CPU time of each unit, as the timed compiler wrote it down."""
    rows = (line.split() for line in log.read_text().splitlines())
    return {row[2]: float(row[0]) + float(row[1]) for row in rows if len(row) == 3}


def check_compile() -> list[str]:
    build = ROOT / "build" / "timing"
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    compiler, log = build / "timed_compiler", build / "units.log"
    compiler.write_text(TIMED_COMPILER.replace("{log}", str(log)))
    compiler.chmod(0o755)
    options = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={compiler}", "-DFLAMBEAU_TESTS=OFF"]
    options += ["-DFLAMBEAU_CUDA=OFF", f"-DFLAMBEAU_PACKAGE_DIR={build}/python/flambeau"]
    configure = ["cmake", "--preset", "release", "-G", "Ninja", "-B", str(build)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*configure, *options], cwd=ROOT, check=True)
    jobs = f"-j{os.cpu_count()}"
    subprocess.run(["cmake", "--build", str(build), jobs], cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    units = unit_seconds(log)
    slowest = sorted(units, key=lambda unit: -units[unit])
    print(f"clean CPU build: {total / 60:.1f} CPU-minutes, {len(units)} units, the slowest:")
    for unit in slowest[:15]:
        print(f"  {units[unit]:6.1f} s  {unit}")
    problems = [
        f"{unit} took {units[unit]:.0f} s, the budget is {UNIT_SECONDS} s"
        for unit in slowest
        if units[unit] > UNIT_SECONDS
    ]
    if total > BUILD_CPU_SECONDS:
        problems.append(f"clean build took {total:.0f} s, the budget is {BUILD_CPU_SECONDS} s")
    return problems


CHECKS = {
    "sizes": check_sizes,
    "import": check_import,
    "wheel": check_wheel,
    "compile": check_compile,
}


def main() -> int:
    names = sys.argv[1:]
    if not names or any(name not in CHECKS for name in names):
        print(__doc__)
        return 2
    problems = [problem for name in names for problem in CHECKS[name]()]
    print("\n".join(problems) if problems else f"budgets: {', '.join(names)} clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
