"""The same seed draws PyTorch's numbers, and leaves the generator in PyTorch's state.

Uniform draws, integers, permutations and masks are compared bit for bit; normal draws to 2 units in
the last place, because PyTorch's own last bit depends on the instruction set.
"""

from __future__ import annotations

import pytest
from compare import Comparison

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
SIZES = (*range(41), 63, 64, 65, 100)
# A number that depends on every byte of the generator's state.
STATE = "state = sum((k + 1) * b for k, b in enumerate(torch.get_rng_state().tolist()))"
AFTER = "after = torch.rand(3)"


def program(*expressions: str) -> list[str]:
    """Draws one after another from one seed, each kept."""
    drawn = [f"d{k} = {text}" for k, text in enumerate(expressions)]
    return ["torch.manual_seed(1234)", *drawn, STATE, AFTER]


def check(comparison: Comparison, statements: list[str]) -> None:
    text = comparison.difference(statements)
    assert text is None, "\n".join([*statements, f"# {text}"])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand(dtype: str, exact: Comparison) -> None:
    check(exact, program(*(f"torch.rand({n}, dtype=torch.{dtype})" for n in SIZES)))
    check(
        exact, program(*(f"torch.empty({n}, dtype=torch.{dtype}).uniform_(-2, 3)" for n in SIZES))
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_randn(dtype: str, nearly: Comparison) -> None:
    for n in SIZES:
        check(nearly, program(f"torch.randn({n}, dtype=torch.{dtype})"))
        check(nearly, program(f"torch.empty({n}, dtype=torch.{dtype}).normal_(1, 0.5)"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_draws_of_odd_and_even_counts_share_a_cached_value(
    dtype: str, nearly: Comparison
) -> None:
    sizes = (1, 2, 1, 3, 15, 1, 16, 1, 17, 5)
    check(nearly, program(*(f"torch.randn({n}, dtype=torch.{dtype})" for n in sizes)))


@pytest.mark.parametrize("dtype", ("complex64", "complex128"))
def test_complex_draws(dtype: str, nearly: Comparison) -> None:
    for n in (0, 1, 7, 8, 9, 20):
        check(nearly, program(f"torch.randn({n}, dtype=torch.{dtype})",
                              f"torch.rand({n}, dtype=torch.{dtype})"))  # fmt: skip


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_randint(dtype: str, exact: Comparison) -> None:
    check(exact, program(*(f"torch.randint(0, 100, ({n},), dtype=torch.{dtype})" for n in SIZES)))
    check(exact, program(
        f"torch.randint(3, 4, (5,), dtype=torch.{dtype})",
        f"torch.zeros(20, dtype=torch.{dtype}).random_()",
        f"torch.zeros(20, dtype=torch.{dtype}).random_(7)",
        f"torch.zeros(20, dtype=torch.{dtype}).random_(2, 9)",
    ))  # fmt: skip


def test_randint_over_wide_ranges(exact: Comparison) -> None:
    check(exact, program(
        "torch.randint(-(2**63), 2**63 - 1, (20,))", "torch.randint(0, 2**40, (20,))",
        "torch.randint(0, 2**32, (20,))", "torch.randint(0, 2**32 - 1, (20,))",
        "torch.randint(-5, 5, (20,))", "torch.zeros(20, dtype=torch.int64).random_()",
        "torch.zeros(9, dtype=torch.bool).random_()",
    ))  # fmt: skip


@pytest.mark.parametrize("dtype", (*INTS[2:], "float32", "float64"))
def test_randperm(dtype: str, exact: Comparison) -> None:
    check(exact, program(*(f"torch.randperm({n}, dtype=torch.{dtype})" for n in SIZES)))


@pytest.mark.parametrize("dtype", ("bool", *INTS, *FLOATS))
def test_bernoulli(dtype: str, exact: Comparison) -> None:
    check(exact, program(
        *(f"torch.zeros({n}, dtype=torch.{dtype}).bernoulli_(0.3)" for n in SIZES),
        f"torch.zeros(30, dtype=torch.{dtype}).bernoulli_(torch.linspace(0, 1, 30))",
        f"torch.zeros(5, dtype=torch.{dtype}).bernoulli_(0)",
        f"torch.zeros(5, dtype=torch.{dtype}).bernoulli_(1)",
        "torch.bernoulli(torch.linspace(0, 1, 33))",
        "torch.bernoulli(torch.linspace(0, 1, 33, dtype=torch.float64))",
    ))  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(dtype: str, exact: Comparison) -> None:
    check(exact, program(
        *(f"torch.dropout(torch.ones({n}, dtype=torch.{dtype}), 0.4, True)" for n in SIZES),
        f"torch.nn.functional.dropout(torch.ones(4, 5, dtype=torch.{dtype}).t(), 0.5)",
        f"torch.dropout(torch.ones(5, dtype=torch.{dtype}), 0.0, True)",
        f"torch.dropout(torch.ones(5, dtype=torch.{dtype}), 1.0, True)",
        f"torch.dropout(torch.ones(5, dtype=torch.{dtype}), 0.5, False)",
        f"torch.nn.functional.dropout(torch.ones(5, dtype=torch.{dtype}), inplace=True)",
    ))  # fmt: skip


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_draws_into_tensors_that_are_not_contiguous(dtype: str, nearly: Comparison) -> None:
    for shape in ("3, 4", "5, 7", "2, 3, 4"):
        base = f"torch.zeros({shape}, dtype=torch.{dtype})"
        for view in (f"{base}.transpose(0, 1)", f"{base}[:, ::2]", f"{base}[1:]"):
            for draw in ("uniform_()", "normal_()", "bernoulli_(0.4)", "random_(9)",
                         "exponential_()"):  # fmt: skip
                check(nearly, program(f"{view}.{draw}"))


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_other_distributions(dtype: str, nearly: Comparison) -> None:
    empty = f"torch.zeros(40, dtype=torch.{dtype})"
    check(nearly, program(f"{empty}.exponential_(1.5)"))
    check(nearly, program(f"{empty}.geometric_(0.3)"))
    check(nearly, program(f"torch.normal(torch.arange(20.0).to(torch.{dtype}), 0.5)",
                          f"torch.normal(1.0, torch.arange(20.0).to(torch.{dtype}))",
                          "torch.normal(0.0, 2.0, (3, 4))"))  # fmt: skip


def test_likes_and_sizes(nearly: Comparison) -> None:
    check(nearly, program("torch.rand(2, 3, 4)", "torch.rand_like(torch.zeros(4, 5).t())",
                          "torch.randn_like(torch.zeros(4, 5).t())", "torch.rand(())",
                          "torch.randn(())", "torch.randint_like(torch.zeros(3, 3).t(), 9)",
                          "torch.randn(4, 4)", "torch.randn(16)", "torch.rand(0)"))  # fmt: skip


def test_generators_are_independent_and_restorable(nearly: Comparison) -> None:
    check(nearly, [
        "g = torch.Generator()", "seed = g.initial_seed()", "g.manual_seed(7)",
        "a = torch.rand(3, generator=g)", "b = torch.randn(3, generator=g)",
        "kept = g.get_state()", "c = torch.randn(20, generator=g)", "g.set_state(kept)",
        "d = torch.randn(20, generator=g)", "e = torch.randperm(9, generator=g)",
        "f = torch.randint(0, 5, (4,), generator=g)", "h = torch.empty(5).normal_(generator=g)",
        "after = sum((k + 1) * b for k, b in enumerate(g.get_state().tolist()))",
        "again = g.manual_seed(-3).initial_seed()",
        "outside = torch.get_rng_state()", "torch.manual_seed(2**63 - 1)", "i = torch.rand(3)",
        "torch.manual_seed(-1)", "j = torch.rand(3)", "s = torch.initial_seed()",
        "torch.set_rng_state(outside)", "k = torch.rand(3)",
        "torch.random.fork_rng().__enter__()", "m = torch.rand(2)",
        "default = torch.equal(torch.default_generator.get_state(), torch.get_rng_state())",
        "del kept, outside",
    ])  # fmt: skip
