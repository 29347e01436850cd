"""The CPU allocator: a loop finds the memory of its last pass again, and memory that nobody used
for some time goes back to the system."""

from __future__ import annotations

import subprocess
import sys

LOOP = """
import resource
import flambeau as torch

sizes = [65536 * (1 + i % 37) // 4 for i in range(400)]  # about 0.5 GB in blocks of many sizes

def once():
    kept = [torch.ones(size) for size in sizes]
    while kept:
        kept.pop()

once()
once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    once()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5)
"""

RELEASE = """
import flambeau as torch

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

before = resident()
torch.ones(100 << 20)
kept = resident() - before
for _ in range(8000):
    torch.empty(1 << 20)
print(kept, resident() - before)
"""


def run(program: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100
    )
    return [float(word) for word in done.stdout.split()]


def test_a_loop_finds_its_memory_again() -> None:
    (faults,) = run(LOOP)
    assert faults < 1000  # of 120,000 pages


def test_old_memory_goes_back() -> None:
    kept, left = run(RELEASE)
    assert kept > 350
    assert left < 150


def test_what_no_machine_holds_is_refused_and_not_counted() -> None:
    program = """
import flambeau as torch
for _ in range(3):
    try:
        torch.zeros(1 << 44)
    except RuntimeError as error:
        assert "you tried to allocate" in str(error)
    else:
        raise AssertionError
for step in range(40):  # each size anew: none may wait for a peak that never was
    torch.ones((50 << 20) + step * (4 << 20), dtype=torch.uint8)
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096 / 2**20)
"""
    assert run(program)[0] < 1000
