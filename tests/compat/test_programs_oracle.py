"""Programs that hypothesis draws and shrinks, against PyTorch itself."""

from __future__ import annotations

import random

import hypothesis
from compare import Comparison
from hypothesis import strategies
from programs import generate


def test_programs_drawn_by_hypothesis_agree_with_pytorch(comparison: Comparison) -> None:
    @hypothesis.settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @hypothesis.given(strategies.randoms(use_true_random=False))
    def check(rng: random.Random) -> None:
        program = generate(rng, 6)
        text = comparison.difference(program)
        assert text is None, "\n".join([*program, f"# {text}"])

    check()
