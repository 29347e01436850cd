"""Writes tests/python/random/random_golden.json: what PyTorch draws in each of its cases.

Run it with an interpreter that has PyTorch: `python tools/record_random.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

TESTS = Path(__file__).resolve().parent.parent / "tests" / "python" / "random"
sys.path.insert(0, str(TESTS))

import random_cases  # noqa: E402


def record(program: str) -> dict[str, object]:
    x = random_cases.run(program, torch)
    state = random_cases.digest(torch.get_rng_state().tolist())
    values = torch.view_as_real(x).flatten().tolist() if x.is_complex() else x.flatten().tolist()
    result = {"shape": list(x.shape), "dtype": str(x.dtype), "state": state}
    if len(values) > random_cases.LISTED:
        return {**result, "digest": random_cases.digest(values)}
    return {**result, "values": values}


def main() -> None:
    torch.set_num_threads(1)
    golden = {
        name: record(program)
        for name, program in {**random_cases.EXACT, **random_cases.CLOSE}.items()
    }
    rows = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in golden.items()]
    (TESTS / "random_golden.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{len(golden)} cases")


if __name__ == "__main__":
    main()
