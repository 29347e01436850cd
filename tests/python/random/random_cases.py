"""What the random number tests draw: each case is a program over `torch`, run with a fixed seed.

tools/record_random.py runs them with PyTorch and writes random_golden.json; test_random.py runs
them with Flambeau and compares values and generator state.
"""

from __future__ import annotations

import hashlib
from typing import Any

SEED = 20240229
LISTED = 64  # of more values than these only a digest is kept

# Programs whose values must agree bit for bit. `x` is the result.
EXACT: dict[str, str] = {}
# Programs whose values may differ by two units in the last place.
CLOSE: dict[str, str] = {}

FLOATING = ("float32", "float64", "float16", "bfloat16")
INTEGRAL = ("uint8", "int8", "int16", "int32", "int64")


def _uniform_cases() -> None:
    for dtype in FLOATING:
        for size in ("()", "(1,)", "(7,)", "(700,)", "(3, 0)", "(5, 6, 7)"):
            EXACT[f"rand {size} {dtype}"] = f"x = torch.rand({size}, dtype=torch.{dtype})"
        EXACT[f"uniform_ {dtype}"] = (
            f"x = torch.empty(900, dtype=torch.{dtype}).uniform_(-1.37, 2.71)"
        )
        EXACT[f"uniform_ narrow {dtype}"] = (
            f"x = torch.empty(99, dtype=torch.{dtype}).uniform_(1, 1.02)"
        )
        EXACT[f"uniform_ point {dtype}"] = (
            f"x = torch.empty(9, dtype=torch.{dtype}).uniform_(2.5, 2.5)"
        )
        EXACT[f"rand_like {dtype}"] = f"x = torch.rand_like(torch.ones(3, 4), dtype=torch.{dtype})"
    EXACT["rand complex64"] = "x = torch.rand(9, dtype=torch.complex64)"
    EXACT["rand complex128"] = "x = torch.rand(9, dtype=torch.complex128)"
    EXACT["uniform_ transposed"] = "x = torch.empty(4, 5).t().uniform_()"
    EXACT["uniform_ permuted"] = "x = torch.empty(2, 3, 4, 5).permute(2, 0, 3, 1).uniform_()"
    EXACT["uniform_ on a slice"] = "x = torch.zeros(8, 6); x[::2, 1:4].uniform_()"
    EXACT["uniform_ on a transposed slice"] = (
        "x = torch.zeros(8, 6); x[::2, 1:4].t().uniform_(3, 4)"
    )
    EXACT["rand out"] = "x = torch.empty(0, dtype=torch.float64); torch.rand(3, 2, out=x)"
    EXACT["rand channels last"] = (
        "x = torch.rand_like(torch.empty(2, 3, 4, 5), memory_format=torch.channels_last)"
    )
    EXACT["rand crosses a block"] = "torch.rand(623); x = torch.rand(5, dtype=torch.float64)"
    EXACT["rand with a generator"] = (
        "g = torch.Generator(); g.manual_seed(-5); x = torch.rand(5, generator=g)"
    )


def _integer_cases() -> None:
    for dtype in (*INTEGRAL, *FLOATING):
        EXACT[f"randint {dtype}"] = f"x = torch.randint(100, (50,), dtype=torch.{dtype})"
        low = 0 if dtype == "uint8" else -9
        EXACT[f"randint negative {dtype}"] = (
            f"x = torch.empty(50, dtype=torch.{dtype}).random_({low}, 100)"
        )
        EXACT[f"random_ {dtype}"] = f"x = torch.empty(50, dtype=torch.{dtype}).random_()"
        EXACT[f"random_ from 3 {dtype}"] = (
            f"x = torch.empty(50, dtype=torch.{dtype}).random_(3, None)"
        )
    for dtype in ("uint16", "uint32", "uint64"):
        EXACT[f"randint {dtype}"] = f"x = torch.randint(100, (50,), dtype=torch.{dtype})"
    EXACT["random_ bool"] = "x = torch.empty(50, dtype=torch.bool).random_()"
    EXACT["randint bool"] = "x = torch.randint(0, 2, (50,), dtype=torch.bool)"
    for high in ("2**28 - 1", "2**28", "2**31", "2**32", "2**40", "2**63 - 1"):
        EXACT[f"randint {high}"] = f"x = torch.randint({high}, (50,))"
    EXACT["randint all"] = "x = torch.randint(-2**63, 2**63 - 1, (50,))"
    EXACT["random_ all"] = "x = torch.empty(50, dtype=torch.int64).random_(-2**63, None)"
    EXACT["random_ all float64"] = "x = torch.empty(5, dtype=torch.float64).random_(-2**63, None)"
    EXACT["randint_like"] = "x = torch.randint_like(torch.ones(5, dtype=torch.int16), 3, 9)"
    EXACT["randint_like float"] = "x = torch.randint_like(torch.ones(5), 9)"
    EXACT["randint keywords"] = "x = torch.randint(low=3, high=10, size=(2, 3))"
    EXACT["random_ transposed"] = "x = torch.empty(4, 5, dtype=torch.int64).t().random_(90)"
    for count in (0, 1, 2, 10, 1000):
        EXACT[f"randperm {count}"] = f"x = torch.randperm({count})"
    for dtype in (*INTEGRAL, *FLOATING):
        EXACT[f"randperm {dtype}"] = f"x = torch.randperm(100, dtype=torch.{dtype})"
    EXACT["randperm out"] = "x = torch.zeros(20, dtype=torch.int64); torch.randperm(10, out=x[::2])"


def _mask_cases() -> None:
    for dtype in (*INTEGRAL, *FLOATING, "bool"):
        EXACT[f"bernoulli_ {dtype}"] = f"x = torch.empty(60, dtype=torch.{dtype}).bernoulli_(0.3)"
        EXACT[f"bernoulli_ tensor {dtype}"] = (
            f"x = torch.empty(60, dtype=torch.{dtype}).bernoulli_(torch.linspace(0, 1, 60))"
        )
    for dtype in FLOATING:
        EXACT[f"bernoulli {dtype}"] = (
            f"x = torch.bernoulli(torch.linspace(0, 1, 60).to(torch.{dtype}))"
        )
        EXACT[f"bernoulli p {dtype}"] = (
            f"x = torch.bernoulli(torch.ones(60, dtype=torch.{dtype}), 0.7)"
        )
        EXACT[f"bernoulli_ by {dtype}"] = (
            f"x = torch.empty(60).bernoulli_(torch.linspace(0, 1, 60).to(torch.{dtype}))"
        )
        EXACT[f"dropout {dtype}"] = (
            f"x = torch.nn.functional.dropout(torch.linspace(1, 2, 60).to(torch.{dtype}), 0.3)"
        )
    EXACT["bernoulli_ broadcast"] = "x = torch.empty(5, 4).bernoulli_(torch.linspace(0, 1, 4))"
    EXACT["bernoulli_ scalar tensor"] = "x = torch.empty(30).bernoulli_(torch.tensor(0.5))"
    EXACT["bernoulli_ transposed"] = (
        "x = torch.empty(4, 5).t().bernoulli_(torch.linspace(0, 1, 20).view(5, 4))"
    )
    EXACT["bernoulli transposed"] = "x = torch.bernoulli(torch.linspace(0, 1, 20).view(4, 5).t())"
    EXACT["bernoulli out"] = (
        "x = torch.empty(0, dtype=torch.int32); torch.bernoulli(torch.full((9,), 0.5), out=x)"
    )
    EXACT["dropout all"] = "x = torch.dropout(torch.ones(9), 1.0, True)"
    EXACT["dropout none"] = "x = torch.dropout(torch.ones(9), 0.0, True)"
    EXACT["dropout_"] = "x = torch.dropout_(torch.ones(9), 0.4, True)"
    EXACT["feature_dropout"] = "x = torch.feature_dropout(torch.ones(3, 4, 5), 0.5, True)"
    EXACT["alpha_dropout"] = "x = torch.alpha_dropout(torch.ones(20), 0.25, True)"
    EXACT["feature_alpha_dropout"] = (
        "x = torch.feature_alpha_dropout(torch.ones(3, 4, 2), 0.25, True)"
    )
    EXACT["native_dropout"] = "x, m = torch.native_dropout(torch.ones(9), 0.4, True)"
    EXACT["native_dropout mask"] = "m, x = torch.native_dropout(torch.ones(9), 0.4, True)"


def _normal_cases() -> None:
    for dtype in FLOATING:
        for count in (1, 2, 15, 16, 17, 40):
            CLOSE[f"randn {count} {dtype}"] = f"x = torch.randn({count}, dtype=torch.{dtype})"
        CLOSE[f"normal_ {dtype}"] = f"x = torch.empty(50, dtype=torch.{dtype}).normal_(1.5, 0.7)"
        CLOSE[f"normal_ few {dtype}"] = f"x = torch.empty(5, dtype=torch.{dtype}).normal_(1.5, 0.7)"
        CLOSE[f"log_normal_ {dtype}"] = (
            f"x = torch.empty(9, dtype=torch.{dtype}).log_normal_(0.5, 0.2)"
        )
        CLOSE[f"exponential_ {dtype}"] = (
            f"x = torch.empty(50, dtype=torch.{dtype}).exponential_(2.3)"
        )
        CLOSE[f"cauchy_ {dtype}"] = f"x = torch.empty(50, dtype=torch.{dtype}).cauchy_(0.5, 2.0)"
        EXACT[f"geometric_ {dtype}"] = f"x = torch.empty(50, dtype=torch.{dtype}).geometric_(0.03)"
        EXACT[f"poisson {dtype}"] = (
            f"x = torch.poisson(torch.tensor([0, 0.5, 3, 9.99, 10, 11, 50, 200] * 4, "
            f"dtype=torch.{dtype}))"
        )
        CLOSE[f"normal tensors {dtype}"] = (
            f"x = torch.normal(torch.ones(20, dtype=torch.{dtype}), "
            f"torch.linspace(0, 2, 20).to(torch.{dtype}))"
        )
    for dtype in INTEGRAL:
        EXACT[f"geometric_ {dtype}"] = f"x = torch.empty(50, dtype=torch.{dtype}).geometric_(0.3)"
    for count in (3, 9):
        CLOSE[f"randn complex64 {count}"] = f"x = torch.randn({count}, dtype=torch.complex64)"
        CLOSE[f"randn complex128 {count}"] = f"x = torch.randn({count}, dtype=torch.complex128)"
    CLOSE["normal_ complex"] = "x = torch.empty(3, dtype=torch.complex64).normal_(1.0, 2.0)"
    CLOSE["a waiting sample is used"] = "torch.randn(3); x = torch.randn(4)"
    CLOSE["a waiting sample is skipped by blocks"] = (
        "torch.randn(3); torch.randn(16); x = torch.randn(2)"
    )
    CLOSE["normal_ transposed"] = "x = torch.empty(6, 5).t().normal_()"
    CLOSE["normal_ on a slice"] = "x = torch.zeros(8, 6); x[::2, 1:4].normal_()"
    CLOSE["randn_like channels last"] = (
        "x = torch.randn_like(torch.empty(2, 3, 2, 2).to(memory_format=torch.channels_last))"
    )
    CLOSE["normal mean tensor"] = "x = torch.normal(torch.arange(20.0), 0.5)"
    CLOSE["normal mean tensor alone"] = "x = torch.normal(torch.arange(5.0))"
    CLOSE["normal std tensor"] = "x = torch.normal(2.0, torch.arange(1.0, 6.0))"
    CLOSE["normal broadcast"] = "x = torch.normal(torch.zeros(2, 1), torch.ones(3))"
    CLOSE["normal size"] = "x = torch.normal(2.0, 3.0, (2, 9))"
    CLOSE["normal size float64"] = "x = torch.normal(2, 3, (2,), dtype=torch.float64)"
    CLOSE["normal out"] = "x = torch.empty(0); torch.normal(torch.zeros(2), torch.ones(2), out=x)"
    CLOSE["randn out"] = "x = torch.empty(0); torch.randn(2, 3, out=x)"
    CLOSE["poisson transposed"] = "x = torch.poisson(torch.arange(20.0).view(4, 5).t())"


def _multinomial_cases() -> None:
    for dtype in FLOATING:
        weights = f"torch.linspace(0, 1, 40).to(torch.{dtype})"
        EXACT[f"multinomial one {dtype}"] = f"x = torch.multinomial({weights}, 1)"
        EXACT[f"multinomial some {dtype}"] = f"x = torch.multinomial({weights}, 7)"
        EXACT[f"multinomial replaced {dtype}"] = (
            f"x = torch.multinomial({weights}, 99, replacement=True)"
        )
    EXACT["multinomial rows"] = "x = torch.multinomial(torch.arange(1.0, 21.0).view(4, 5), 3)"
    EXACT["multinomial rows replaced"] = (
        "x = torch.multinomial(torch.arange(20.0).view(4, 5), 9, True)"
    )
    EXACT["multinomial transposed"] = (
        "x = torch.multinomial(torch.arange(1.0, 21.0).view(4, 5).t(), 2)"
    )
    EXACT["multinomial zeros"] = (
        "x = torch.multinomial(torch.tensor([0.0, 0.5, 0, 0.5, 0]), 20, True)"
    )


_uniform_cases()
_integer_cases()
_mask_cases()
_normal_cases()
_multinomial_cases()


def run(program: str, torch: Any) -> Any:
    """Seeds, runs one case and gives its result."""
    torch.manual_seed(SEED)
    names = {"torch": torch}
    exec(program, names)
    return names["x"]


def digest(values: list[Any]) -> str:
    """A short fingerprint of a list of numbers."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
