"""The random numbers of a seed are those that PyTorch gives on the same device, where it is
installed, and the generator stands where PyTorch's stands after each call."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

# Each makes a tensor after a seed; `torch` is the library, `F` its nn.functional. More than a
# million elements are more than the threads that are resident at once draw in one round.
CASES = {
    "uniform": "torch.rand(1000)",
    "many uniform": "torch.rand(3_000_000)",
    "uniform between": "torch.empty(1000).uniform_(-3, 5)",
    "uniform of a shape": "torch.rand_like(torch.empty(2, 3, 5, 7, memory_format=CHANNELS_LAST))",
    "uniform transposed": "torch.empty(30, 41).t().uniform_()",
    "uniform of every third": "torch.zeros(3000)[::3].uniform_()",
    "uniform complex": "torch.view_as_real(torch.rand(500, dtype=torch.complex64))",
    "none uniform": "torch.rand(0)",
    "one uniform": "torch.rand(())",
    "uniform of a generator": "torch.rand(9, generator=torch.Generator('cuda').manual_seed(5))",
    "normal": "torch.randn(1001)",
    "many normal": "torch.randn(3_000_001)",
    "normal about": "torch.empty(1001).normal_(2, 3)",
    "normal of a size": "torch.normal(2.0, 3.0, (40, 41), device='cuda')",
    "normal of means": "torch.normal(torch.linspace(-5, 5, 1001), 0.5)",
    "normal of deviations": "torch.normal(1.0, torch.linspace(0, 5, 1001))",
    "normal of both": "torch.normal(torch.zeros(30, 1), torch.linspace(0, 5, 20))",
    "normal complex": "torch.view_as_real(torch.randn(500, dtype=torch.complex64))",
    "normal complex double": "torch.view_as_real(torch.randn(500, dtype=torch.complex128))",
    "normal like": "torch.randn_like(torch.empty(20, 30).t())",
    "log normal": "torch.empty(1000).log_normal_(0.5, 0.25)",
    "Cauchy": "torch.empty(1000).cauchy_(1, 2)",
    "exponential": "torch.empty(1000).exponential_(2.0)",
    "many exponential": "torch.empty(2_500_000).exponential_()",
    "geometric": "torch.empty(1000).geometric_(0.3)",
    "integers": "torch.randint(0, 1000, (999,))",
    "many integers": "torch.randint(-50, 1000, (3_000_000,))",
    "integers like": "torch.randint_like(torch.empty(999, dtype=torch.int16), 3, 90)",
    "integers up to": "torch.empty(999).random_(77)",
    "bernoulli": "torch.empty(1000).bernoulli_(0.3)",
    "many bernoulli": "torch.empty(3_000_000).bernoulli_(0.3)",
    "bernoulli of a shape": "torch.bernoulli(torch.empty(999), 0.7)",
    "bernoulli of a tensor": "torch.bernoulli(torch.linspace(0, 1, 1003))",
    "bernoulli of many": "torch.bernoulli(torch.linspace(0, 1, 3_000_001))",
    "bernoulli by a tensor": "torch.empty(1003).bernoulli_(torch.linspace(0, 1, 1003))",
    "bernoulli by doubles": "torch.empty(1003).bernoulli_(torch.linspace(0, 1, 1003).double())",
    "bernoulli of integers": "torch.zeros(1003).int().bernoulli_(torch.linspace(0, 1, 1003))",
    "bernoulli of truths": "torch.zeros(1003).bool().bernoulli_(0.4)",
    "bernoulli transposed": "torch.bernoulli(torch.linspace(0, 1, 1200).view(30, 40).t())",
    "dropout of many": "F.dropout(torch.ones(4_000_000), 0.4)",
    "dropout of an odd number": "F.dropout(torch.ones(1023), 0.4)",
    "dropout of pairs": "F.dropout(torch.ones(1022), 0.4)",
    "dropout of matrices": "F.dropout(torch.ones(64, 768), 0.1)",
    "dropout transposed": "F.dropout(torch.ones(64, 71).t(), 0.3)",
    "dropout of every second": "F.dropout(torch.ones(640)[::2], 0.3)",
    "dropout in place": "F.dropout(torch.ones(1000), 0.3, inplace=True)",
    "dropout of all": "F.dropout(torch.ones(1000), 1.0)",
    "dropout with its mask": "torch.native_dropout(torch.ones(1000), 0.3, True)[1]",
    "feature dropout": "F.dropout2d(torch.ones(8, 40, 3, 3), 0.5)",
    "feature dropout of lines": "F.dropout1d(torch.ones(8, 40, 3), 0.5)",
    "feature dropout of volumes": "F.dropout3d(torch.ones(8, 40, 3, 2, 2), 0.5)",
    "alpha dropout": "F.alpha_dropout(torch.ones(1000), 0.4, training=True)",
    "feature alpha dropout": "F.feature_alpha_dropout(torch.ones(8, 40, 3), 0.5, training=True)",
    "dropped weights of attention": "drop(13, 13, 64)",
    "dropped weights of causal attention": "drop(16, 16, 64, is_causal=True)",
    "dropped weights of masked attention": "drop(16, 16, 64, attn_mask=torch.zeros(16, 16))",
    "dropped weights of keys that four does not divide": "drop(70, 37, 40)",
    "dropped weights in rows that vectors do not divide": "drop(9, 20, 33)",
    "leaky units": "F.rrelu(torch.linspace(-1, 0.1, 1000), training=True)",
    "leaky double units": "F.rrelu(torch.linspace(-1, 0.1, 1000).double(), training=True)",
    "many leaky units": "F.rrelu(torch.linspace(-1, 0.1, 3_000_000), training=True)",
    "noisy maxima": "F.gumbel_softmax(torch.linspace(-2, 2, 600).view(30, 20))",
    "fractional pooling": "F.fractional_max_pool2d(torch.arange(900.0).view(1, 4, 15, 15), 2, 7)",
    "permutation of one": "torch.randperm(1)",
    "permutation of few": "torch.randperm(10)",
    "permutation": "torch.randperm(5000)",
    "permutation of many": "torch.randperm(1_000_000)",
    "permutation in int32": "torch.randperm(100_000, dtype=torch.int32)",
    "permutation in int16": "torch.randperm(30_000, dtype=torch.int16)",
    "permutation in floats": "torch.randperm(1000, dtype=torch.float32)",
    "multinomial": "torch.multinomial(torch.arange(1.0, 50.0), 10)",
    "one of many": "torch.multinomial(torch.arange(1.0, 5000.0), 1)",
    "multinomial of rows without": "torch.multinomial(torch.ones(7, 30), 20)",
    "multinomial with replacement": "torch.multinomial(torch.arange(1.0, 50.0), 300, True)",
    "multinomial of rows": "torch.multinomial(torch.ones(7, 30), 40, replacement=True)",
    "multinomial of doubles": "torch.multinomial(torch.arange(1.0, 50.0).double(), 300, True)",
    "initial weights": "torch.nn.init.kaiming_uniform_(torch.empty(60, 50))",
    "Poisson": "torch.poisson(torch.linspace(0, 63.9, 3000))",
    "Poisson of larger rates": "torch.poisson(torch.linspace(64, 4000, 3000))",
    "Poisson of large rates": "torch.poisson(torch.linspace(4001, 100_000, 3000))",
    "Poisson of many": "torch.poisson(torch.linspace(0, 10, 1_500_000))",
    "Poisson transposed": "torch.poisson(torch.linspace(0, 90, 1200).view(30, 40).t())",
    "gamma": "torch._standard_gamma(torch.linspace(0.01, 20, 4000))",
    "gamma of small shapes": "torch._standard_gamma(torch.linspace(0, 1, 4000))",
    "gamma of many": "torch._standard_gamma(torch.linspace(0.5, 90, 1_500_000))",
    "gamma transposed": "torch._standard_gamma(torch.linspace(0.1, 9, 1200).view(30, 40).t())",
    "gamma by distribution": "D.Gamma(torch.linspace(0.1, 9, 90), torch.tensor(2.0)).sample((7,))",
    "beta by distribution": "D.Beta(torch.linspace(0.1, 9, 90), torch.tensor(2.0)).sample((7,))",
    "Student's t": "D.StudentT(torch.linspace(1, 9, 90)).sample((7,))",
    "negative binomial": "D.NegativeBinomial(torch.tensor(5.0), torch.tensor(0.3)).sample((99,))",
    "Dirichlet": "torch._sample_dirichlet(torch.linspace(0.1, 20, 1200).view(30, 40))",
    "Dirichlet of small": "torch._sample_dirichlet(torch.full((50, 4), 0.001))",
    "Dirichlet of wide rows": "torch._sample_dirichlet(torch.linspace(0.1, 5, 9000).view(3, 3000))",
    "binomial": "torch.binomial(torch.full((4000,), 20.0), torch.linspace(0, 1, 4000))",
    "binomial of much": "torch.binomial(torch.full((4000,), 900.0), torch.linspace(0, 1, 4000))",
    "binomial of many": (
        "torch.binomial(torch.linspace(0, 90, 900_000).floor(), torch.full((900_000,), 0.4))"
    ),
    "binomial transposed": (
        "torch.binomial(torch.full((40, 30), 60.0).t(), torch.linspace(0, 1, 1200).view(30, 40))"
    ),
    "binomial by distribution": "D.Binomial(9, torch.linspace(0.1, 0.9, 90)).sample((7,))",
}
CASES["dropout between layers"] = "recurrent(torch.nn.LSTM)"
CASES["dropout between layers, drawn on"] = "recurrent(torch.nn.GRU) + recurrent(torch.nn.LSTM)"
CASES["dropped weights by the formula"] = "by_formula(13, 16, 64)"
for floating in ("float16", "bfloat16", "float64"):
    empty = f"torch.empty(1001, dtype=torch.{floating})"
    rates = f"torch.linspace(0, 80, 1001, dtype=torch.{floating})"
    CASES |= {
        f"uniform {floating}": f"torch.rand(1001, dtype=torch.{floating})",
        f"many uniform {floating}": f"torch.rand(1_500_000, dtype=torch.{floating})",
        f"normal {floating}": f"torch.randn(1001, dtype=torch.{floating})",
        f"log normal {floating}": f"{empty}.log_normal_()",
        f"exponential {floating}": f"{empty}.exponential_()",
        f"Cauchy {floating}": f"{empty}.cauchy_()",
        f"geometric {floating}": f"{empty}.geometric_(0.2)",
        f"bernoulli {floating}": f"{empty}.bernoulli_(0.2)",
        f"bernoulli of a tensor {floating}": f"torch.bernoulli({rates} / 80)",
        f"dropout {floating}": f"F.dropout(torch.ones(4096, dtype=torch.{floating}), 0.1)",
        f"many dropped {floating}": f"F.dropout(torch.ones(2**21, dtype=torch.{floating}), 0.1)",
        f"Poisson {floating}": f"torch.poisson({rates})",
        f"gamma {floating}": f"torch._standard_gamma({rates} / 8)",
        f"Dirichlet {floating}": f"torch._sample_dirichlet(({rates} + 1).view(77, 13))",
    }
for floating in ("float16", "bfloat16", "float32", "float64"):
    # How the running sums of weights are rounded shows in what many draws find.
    weights = f"(torch.arange(60_000) % 997 + 1).to(torch.{floating}) / 997"
    for rows, size in ((1, 50), (1, 6000), (2, 1024), (7, 200), (40, 1000), (600, 99)):
        CASES[f"multinomial {rows} x {size} {floating}"] = (
            f"torch.multinomial(({weights})[:{rows * size}].view({rows}, {size}), 3000, True)"
        )
    for count in (20, 200):
        CASES[f"binomial {count} {floating}"] = (
            f"torch.binomial(torch.full((8192,), {count}.0, dtype=torch.{floating}),"
            f" torch.linspace(0, 1, 8192).to(torch.{floating}))"
        )
for dtype in ("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32"):
    CASES[f"any {dtype}"] = f"torch.empty(1001, dtype=torch.{dtype}).random_()"
    CASES[f"some {dtype}"] = f"torch.empty(1001, dtype=torch.{dtype}).random_(0, 2)"
    if "int" in dtype:
        CASES[f"geometric {dtype}"] = f"torch.empty(1001, dtype=torch.{dtype}).geometric_(0.3)"
CASES["any float64"] = "torch.empty(1001, dtype=torch.float64).random_()"
for bits in (27, 28, 29, 31, 32, 33, 40, 62):
    CASES[f"integers of {bits} bits"] = f"torch.randint(0, (1 << {bits}) - 1, (999,))"
    CASES[f"integers of {bits} bits and one"] = f"torch.randint(0, 1 << {bits}, (999,))"

PROGRAM = """
import importlib, json, sys
torch = importlib.import_module(sys.argv[1])
F, D, CHANNELS_LAST = torch.nn.functional, torch.distributions, torch.channels_last
torch.set_default_device("cuda")

def drop(queries, keys, width, **options):
    # The weights that attention of float32 keeps, all of which are the same.
    q, k = torch.zeros(2, 3, queries, width), torch.zeros(2, 3, keys, width)
    v = torch.eye(keys, width).expand(2, 3, keys, width).contiguous()
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.25, **options)

def by_formula(*sizes):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return drop(*sizes)

def recurrent(kind):
    # So small that the rounding of products does not show.
    return kind(8, 64, 2, dropout=0.5)(torch.ones(4, 8, 8))[0] / 100

for name, text in json.load(sys.stdin).items():
    torch.manual_seed(1234)
    try:
        drawn = eval(text)
        assert drawn.is_cuda
        drawn, state = drawn.double().flatten(), torch.cuda.get_rng_state()
        answer = [drawn[:: max(1, drawn.numel() // 5000)].tolist(), state.tolist()]
    except Exception as error:
        answer = repr(error)
    print(json.dumps([name, answer]), flush=True)
"""

Answers = dict[str, list[list[float]] | str]


def answers_of(library: str) -> Answers:
    """What a library answers to all cases: numbers and a state, or how it failed."""
    answers: Answers = {}
    while left := {name: text for name, text in CASES.items() if name not in answers}:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, library],
            input=json.dumps(left),
            capture_output=True,
            text=True,
            check=False,
        )
        answers |= dict(map(json.loads, done.stdout.splitlines()))
        if done.returncode != 0:  # it ended in the first case that has no answer
            ended = next((name for name in left if name not in answers), "at its end")
            answers[ended] = f"ended with {done.returncode}: {done.stderr[-500:]}"
    return answers


@pytest.fixture(scope="module")
def answers() -> tuple[Answers, Answers]:
    return answers_of("flambeau"), answers_of("torch")


@pytest.mark.parametrize("name", CASES)
def test_draws_are_those_of_pytorch(name: str, answers: tuple[Answers, Answers]) -> None:
    ours, theirs = (of_library[name] for of_library in answers)
    assert not isinstance(ours, str), ours
    assert not isinstance(theirs, str), theirs
    assert len(ours[0]) == len(theirs[0])
    differing = [
        (place, mine, wanted)
        for place, (mine, wanted) in enumerate(zip(ours[0], theirs[0], strict=True))
        if not math.isclose(mine, wanted, rel_tol=1e-6, abs_tol=1e-6)
    ]
    assert not differing, f"{len(differing)} of {len(ours[0])} differ, first {differing[:6]}"
    assert ours[1] == theirs[1], "the generator stands elsewhere"
