"""The random numbers of a seed are those that PyTorch gives on the same device, where it is
installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import flambeau

# Each makes a tensor after a seed; `torch` is the library.
CASES = {
    "uniform": "torch.rand(1000, device='cuda')",
    "many uniform": "torch.rand(3_000_000, device='cuda')",
    "uniform half": "torch.rand(1001, device='cuda', dtype=torch.float16)",
    "uniform double": "torch.rand(1001, device='cuda', dtype=torch.float64)",
    "normal": "torch.randn(1001, device='cuda')",
    "integers": "torch.randint(0, 1000, (999,), device='cuda')",
    "wide integers": "torch.randint(0, 1 << 40, (999,), device='cuda')",
    "exponential": "torch.empty(1000, device='cuda').exponential_(2.0)",
    "geometric": "torch.empty(1000, device='cuda').geometric_(0.3)",
    "bernoulli": "torch.empty(1000, device='cuda').bernoulli_(0.3)",
    "bernoulli of a tensor": "torch.bernoulli(torch.linspace(0, 1, 1003, device='cuda'))",
    "dropout": "torch.nn.functional.dropout(torch.ones(1024, device='cuda'), 0.4)",
    "dropout of many": "torch.nn.functional.dropout(torch.ones(4_000_000, device='cuda'), 0.4)",
    "dropout of an odd number": "torch.nn.functional.dropout(torch.ones(1023, device='cuda'), 0.4)",
    "dropout of pairs": "torch.nn.functional.dropout(torch.ones(1022, device='cuda'), 0.4)",
    "dropout half": (
        "torch.nn.functional.dropout(torch.ones(4096, device='cuda', dtype=torch.float16), 0.1)"
    ),
    "dropout of matrices": "torch.nn.functional.dropout(torch.ones(64, 768, device='cuda'), 0.1)",
    "feature dropout": (
        "torch.nn.functional.dropout2d(torch.ones(8, 40, 3, 3, device='cuda'), 0.5)"
    ),
    "permutation of few": "torch.randperm(10, device='cuda')",
    "permutation": "torch.randperm(5000, device='cuda')",
    "permutation of many": "torch.randperm(1_000_000, device='cuda')",
    "multinomial": "torch.multinomial(torch.arange(1., 50., device='cuda'), 10)",
    "multinomial with replacement": (
        "torch.multinomial(torch.arange(1., 50., device='cuda'), 300, replacement=True)"
    ),
    "multinomial of rows": (
        "torch.multinomial(torch.ones(7, 30, device='cuda'), 40, replacement=True)"
    ),
}

PROGRAM = """
import importlib, json, sys
torch = importlib.import_module(sys.argv[1])
answers = {}
for name, text in json.load(sys.stdin).items():
    torch.manual_seed(1234)
    drawn = eval(text).double().flatten()
    after = torch.rand(3, device="cuda")
    stride = max(1, drawn.numel() // 5000)
    answers[name] = [drawn[::stride].tolist(), after.tolist()]
json.dump(answers, sys.stdout)
"""


def answers_of(library: str) -> dict[str, list[list[float]]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers() -> tuple[dict[str, list[list[float]]], dict[str, list[list[float]]]]:
    return answers_of("flambeau"), answers_of("torch")


@pytest.mark.parametrize("name", CASES)
def test_draws_are_those_of_pytorch(name: str, answers: tuple[dict, dict]) -> None:
    ours, theirs = (torch_answers[name] for torch_answers in answers)
    assert flambeau.tensor(ours[0]).sub(flambeau.tensor(theirs[0])).abs().max() < 1e-6
    assert ours[1] == theirs[1], "the generator stands elsewhere"
