"""Training loops of C++ programs (loops.cpp): Flambeau beside libtorch.

    python benchmarks/cpp/loops.py [--oracle /path/to/python-with-torch] [--rounds 5] [--threads 2]

Both are built from one text and take turns, each row in a process of its own. A row shows the best
step of all rounds in microseconds, and how many times longer libtorch's took, by the clock and by
the CPU time of the process. On a machine with other work the latter counts; `nice -n -20` and
OMP_PROC_BIND=true (threads that stay where they are) help the former. Without an oracle (or the
environment variable FLAMBEAU_ORACLE) only Flambeau's times are printed.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "python" / "flambeau"
LEAST, LEAST_OF_MLP, LEAST_OF_ALL = 1.0, 2.0, 1.1  # libtorch's time over ours
START = (20.0, 40.0)  # hello: milliseconds of CPU, megabytes


class Cost(NamedTuple):
    wall: float = math.inf
    cpu: float = math.inf

    def best(self, other: Cost) -> Cost:
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu))


def flags_of_flambeau(prefix: Path) -> list[str]:
    include, libraries = prefix / "include", prefix / "lib" if (prefix / "lib").is_dir() else prefix
    return [
        *(f"-I{include}", f"-I{include}/flambeau/compat", f"-L{libraries}"),
        *(f"-Wl,-rpath,{libraries}", "-lflambeau_nn", "-lflambeau_torch", "-lflambeau"),
    ]


def flags_of_libtorch(oracle: str) -> list[str]:
    find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    torch = subprocess.check_output([oracle, "-c", find], text=True).strip()
    return [
        *(f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"),
        *(f"{torch}/lib/libtorch_cpu.so", f"{torch}/lib/libc10.so", f"-Wl,-rpath,{torch}/lib"),
        "-Wl,--allow-shlib-undefined",
    ]


def built(folder: Path, name: str, compiler: str, flags: list[str]) -> str:
    program = str(folder / name)
    command = [compiler, "-std=c++20", "-O2", "-w", str(HERE / "loops.cpp"), "-o", program, *flags]
    subprocess.run(command, check=True)
    return program


def run(program: str, folder: Path, threads: int, seconds: float, row: str) -> Cost:
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    command = [program, str(folder), str(threads), str(seconds), row]
    output = subprocess.check_output(command, text=True, env=environment)
    wall, cpu, _ = map(float, output.split())
    return Cost(wall, cpu)


def start(program: str) -> tuple[float, float]:
    """Milliseconds of CPU and megabytes of a program that prints a tensor."""
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen([program, "hello"], stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return 1e3 * (usage.ru_utime + usage.ru_stime), usage.ru_maxrss / 1024


def print_start(programs: list[str], rounds: int) -> bool:
    best = [(math.inf, math.inf)] * len(programs)
    for _ in range(rounds):
        for i, program in enumerate(programs):
            milliseconds, megabytes = start(program)
            best[i] = (min(best[i][0], milliseconds), min(best[i][1], megabytes))
    print("hello: " + ", ".join(f"{ms:.0f} ms of CPU and {mb:.0f} MB" for ms, mb in best))
    return best[0][0] <= START[0] and best[0][1] <= START[1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oracle", default=os.environ.get("FLAMBEAU_ORACLE"))
    parser.add_argument("--prefix", type=Path, default=PACKAGE, help="an installed Flambeau")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a row in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows that match this expression")
    parser.add_argument("--build", type=Path, help="a folder for the programs, to be kept")
    parser.add_argument("--strict", action="store_true", help="fail when a limit is exceeded")
    arguments = parser.parse_args()

    kept = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        place = arguments.build or folder
        place.mkdir(parents=True, exist_ok=True)
        flags = flags_of_flambeau(arguments.prefix)
        programs = [built(place, "flambeau", arguments.compiler, flags)]
        if arguments.oracle:
            flags = flags_of_libtorch(arguments.oracle)
            programs.append(built(place, "libtorch", arguments.compiler, flags))
        subprocess.run([programs[0], str(folder)], check=True)
        kept &= print_start(programs, arguments.rounds)

        print(f"{'a step, microseconds':24}{'Flambeau':>12}{'libtorch':>12}{'times':>8}{'CPU':>8}")
        names = subprocess.check_output([programs[0]], text=True).splitlines()
        ratios: list[float] = []
        for row in (name for name in names if re.search(arguments.only, name)):
            best = [Cost() for _ in programs]
            for _ in range(arguments.rounds):
                for i, program in enumerate(programs):
                    cost = run(program, folder, arguments.threads, arguments.seconds, row)
                    best[i] = best[i].best(cost)
            line = f"{row:24}{best[0].wall:12.1f}"
            if len(best) > 1:
                wall, cpu = best[1].wall / best[0].wall, best[1].cpu / best[0].cpu
                line += f"{best[1].wall:12.1f}{wall:8.2f}{cpu:8.2f}"
                ratios.append(wall)
                kept &= wall >= (LEAST_OF_MLP if row.startswith("mlp") else LEAST)
            print(line, flush=True)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"over all: {mean:.2f} times")
            kept &= mean >= LEAST_OF_ALL
    return 1 if arguments.strict and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
