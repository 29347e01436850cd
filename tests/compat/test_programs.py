"""Random programs mean the same under Flambeau and under PyTorch.

A difference is reported as the shortest program that still shows it. FLAMBEAU_PROGRAMS sets how
many seeds are tried and FLAMBEAU_FIRST_SEED where they begin.
"""

from __future__ import annotations

import os

import pytest
from compare import Comparison, report
from programs import program_of

BATCH = 50
COUNT = int(os.environ.get("FLAMBEAU_PROGRAMS", "2000"))
FIRST = int(os.environ.get("FLAMBEAU_FIRST_SEED", "0"))


@pytest.mark.parametrize("start", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs_agree_with_pytorch(start: int, comparison: Comparison) -> None:
    for seed in range(start, start + BATCH):
        program = program_of(seed)
        if comparison.difference(program) is not None:
            pytest.fail(f"seed {seed}\n{report(program, comparison)}", pytrace=False)
