"""Random numbers are PyTorch's: the values, and the generator's state after every call."""

from __future__ import annotations

import copy
import json
import math
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import random_cases

import flambeau as torch

GOLDEN = json.loads((Path(__file__).parent / "random_golden.json").read_text())
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24}
SMALLEST = {"float16": -14, "bfloat16": -126, "float32": -126, "complex64": -126}


def spacing(value: float, dtype: str) -> float:
    """The distance between `value` and its neighbours in dtype."""
    name = dtype.removeprefix("torch.")
    exponent = max(math.frexp(value)[1], SMALLEST.get(name, -1022) + 1)
    return math.ldexp(1.0, exponent - MANTISSA.get(name, 53))


def plain_values(x: Any) -> list[Any]:
    return torch.view_as_real(x).flatten().tolist() if x.is_complex() else x.flatten().tolist()


def draw(program: str, want: dict[str, Any]) -> list[Any]:
    x = random_cases.run(program, torch)
    assert random_cases.digest(torch.get_rng_state().tolist()) == want["state"], "generator state"
    assert str(x.dtype) == want["dtype"]
    assert list(x.shape) == want["shape"]
    return plain_values(x)


@pytest.mark.parametrize("name", random_cases.EXACT)
def test_draws_are_pytorchs_bit_for_bit(name: str) -> None:
    want = GOLDEN[name]
    values = draw(random_cases.EXACT[name], want)
    if "digest" in want:
        assert random_cases.digest(values) == want["digest"]
    else:
        assert values == want["values"]


@pytest.mark.parametrize("name", random_cases.CLOSE)
def test_continuous_draws_are_pytorchs_to_two_units_in_the_last_place(name: str) -> None:
    want = GOLDEN[name]
    values = draw(random_cases.CLOSE[name], want)
    assert len(values) == len(want["values"])
    for got, expected in zip(values, want["values"], strict=True):
        assert abs(got - expected) <= 2 * spacing(expected, want["dtype"]), (got, expected)


def test_the_state_is_pytorchs_5056_bytes() -> None:
    generator = torch.Generator()
    generator.manual_seed(7)
    torch.rand(3, generator=generator)
    torch.empty(3).normal_(generator=generator)
    state = bytes(generator.get_state().tolist())
    assert len(state) == 5056
    seed, left, seeded, position = struct.unpack_from("<QiiQ", state)
    assert (seed, left, seeded, position) == (7, 614, 1, 11)
    waiting, valid = struct.unpack_from("<d8xi", state, 5024)
    assert valid == 1 and waiting != 0


def test_a_state_taken_is_a_state_restored() -> None:
    torch.manual_seed(1)
    torch.randn(3)
    state = torch.get_rng_state()
    first = torch.randn(5)
    torch.set_rng_state(state)
    assert torch.equal(torch.randn(5), first)


def test_seeds_wrap_as_unsigned_64_bit_numbers() -> None:
    generator = torch.Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.manual_seed(-1).initial_seed() == 2**64 - 1
    assert generator.manual_seed(2**63).initial_seed() == 2**63
    assert torch.manual_seed(2**32 + 7).initial_seed() == 2**32 + 7
    assert torch.initial_seed() == 2**32 + 7
    low = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(3), low), "the twister takes the low 32 bits"


def test_seed_is_unpredictable_and_returned() -> None:
    generator = torch.Generator()
    assert generator.seed() != generator.seed()
    assert generator.seed() == generator.initial_seed()


def test_generators_copy_and_pickle() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    copies = [
        generator.clone_state(),
        pickle.loads(pickle.dumps(generator)),
        copy.deepcopy(generator),
    ]
    want = torch.rand(4, generator=generator)
    for copied in copies:
        assert torch.equal(torch.rand(4, generator=copied), want)


def test_gradients_of_draws() -> None:
    x = torch.linspace(0.1, 0.9, 5).requires_grad_()
    for draw_from in (
        lambda: torch.bernoulli(x),
        lambda: torch.poisson(x),
        lambda: (x * 1).uniform_(),
        lambda: (x * 1).normal_(),
        lambda: (x * 1).bernoulli_(0.5),
        lambda: (x * 1).exponential_(),
    ):
        x.grad = None
        draw_from().sum().backward()
        assert x.grad.tolist() == [0.0] * 5
    x.grad = None
    torch.manual_seed(0)
    torch.dropout(x, 0.5, True).sum().backward()
    torch.manual_seed(0)
    assert x.grad.tolist() == (torch.empty(5).bernoulli_(0.5) * 2).tolist()


BAD_CALLS = [
    ("torch.rand(2, -1)", RuntimeError,
     "Trying to create tensor with negative dimension -1: [2, -1]"),
    ("torch.rand(2, dtype=torch.int64)", NotImplementedError,
     "\"check_uniform_bounds\" not implemented for 'Long'"),
    ("torch.randn(2, dtype=torch.int64)", NotImplementedError,
     "\"normal_kernel_cpu\" not implemented for 'Long'"),
    ("torch.rand(3, out=torch.empty(0, dtype=torch.half), dtype=torch.float32)", RuntimeError,
     "dtype Float does not match dtype of out parameter (Half)"),
    ("torch.empty(3).uniform_(2, 1)", RuntimeError,
     "uniform_ expects to return a [from, to) range, but found from=2 > to=1"),
    ("torch.empty(3).uniform_(0, math.inf)", RuntimeError, "to is out of bounds for float"),
    ("torch.empty(3).uniform_(math.nan, 1)", RuntimeError, "from is out of bounds for float"),
    ("torch.empty(3).uniform_(-3e38, 3e38)", RuntimeError,
     "uniform_ expects to-from <= std::numeric_limits<Float>::max(), but found to=3e+38 and "
     "from=-3e+38 which result in to-from to exceed the limit"),
    ("torch.empty(1).expand(9).uniform_()", RuntimeError,
     "unsupported operation: more than one element of the written-to tensor refers to a single "
     "memory location. Please clone() the tensor before performing the operation."),
    ("torch.empty(3).normal_(0, -1)", RuntimeError, "normal expects std >= 0.0, but found std -1"),
    ("torch.empty(3).log_normal_(0, 0)", RuntimeError,
     "log_normal_ expects std > 0.0, but found std=0"),
    ("torch.empty(3).cauchy_(0, -1)", RuntimeError,
     "cauchy_ expects sigma > 0.0, but found sigma=-1"),
    ("torch.empty(3).exponential_(0)", RuntimeError,
     "exponential_ expects lambda > 0.0, but found lambda=0"),
    ("torch.empty(3, dtype=torch.int64).exponential_()", RuntimeError,
     "Exponential distribution is a continuous probability distribution. dtype must be a floating "
     "point but you specified Long"),
    ("torch.empty(3, dtype=torch.int64).cauchy_()", RuntimeError,
     "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
     "point but you specified long int"),
    ("torch.empty(3, dtype=torch.int64).log_normal_()", NotImplementedError,
     "\"log_normal_cpu\" not implemented for 'Long'"),
    ("torch.empty(3).geometric_(1)", RuntimeError,
     "geometric_ expects p to be in (0, 1), but got p=1"),
    ("torch.empty(3).bernoulli_(1.5)", RuntimeError,
     "bernoulli_ expects p to be in [0, 1], but got p=1.5"),
    ("torch.bernoulli(torch.tensor([1.5]))", RuntimeError,
     "Expected p_in >= 0 && p_in <= 1 to be true, but got false."),
    ("torch.bernoulli(torch.ones(3, dtype=torch.int64))", NotImplementedError,
     "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'"),
    ("torch.empty(4, 5).bernoulli_(torch.ones(5, 4))", RuntimeError,
     "The expanded size of the tensor (5) must match the existing size (4) at non-singleton "
     "dimension 1.  Target sizes: [4, 5].  Tensor sizes: [5, 4]"),
    ("torch.empty(3).random_(5, 3)", RuntimeError,
     "random_ expects 'from' to be less than 'to', but got from=5 >= to=3"),
    ("torch.randint(0, (2,))", RuntimeError,
     "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
    ("torch.randint(300, (2,), dtype=torch.uint8)", RuntimeError,
     "to - 1 is out of bounds for unsigned char"),
    ("torch.empty(2, dtype=torch.uint8).random_(-1, 9)", RuntimeError,
     "from is out of bounds for unsigned char"),
    ("torch.empty(2, dtype=torch.complex64).random_(1)", RuntimeError,
     "check_random_bounds handles only integral, floating-point and boolean types"),
    ("torch.empty(2).random_(2**24 + 3, None)", RuntimeError,
     "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, "
     "but got from=16777219 > to_inc=16777216"),
    ("torch.randint(10, (3,), requires_grad=True)", RuntimeError,
     "Only Tensors of floating point and complex dtype can require gradients"),
    ("torch.randperm(-1)", RuntimeError,
     "Trying to create tensor with negative dimension -1: [-1]"),
    ("torch.randperm(257, dtype=torch.uint8)", RuntimeError,
     "value cannot be converted to type uint8_t without overflow"),
    ("torch.randperm(2050, dtype=torch.half)", RuntimeError,
     "n cannot be greater than 2049 for Half type."),
    ("torch.randperm(2, dtype=torch.bool)", NotImplementedError,
     "\"randperm\" not implemented for 'Bool'"),
    ("torch.poisson(torch.tensor([-1.0]))", RuntimeError,
     "invalid Poisson rate, expected rate to be non-negative"),
    ("torch.normal(torch.zeros(2), -torch.ones(2))", RuntimeError,
     "normal expects all elements of std >= 0.0"),
    ("torch.normal(torch.zeros(2), torch.ones(3))", RuntimeError,
     "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"),
    ("torch.normal(0.0, -1.0, (2,))", RuntimeError, "normal expects std >= 0.0, but found std -1"),
    ("torch.dropout(torch.ones(2), 1.5, True)", RuntimeError,
     "dropout probability has to be between 0 and 1, but got 1.5"),
    ("torch.dropout(torch.ones(2, dtype=torch.int64), 0.5, True)", RuntimeError,
     "result type Float can't be cast to the desired output type Long"),
    ("torch.feature_dropout(torch.ones(2), 0.5, True)", RuntimeError,
     "Feature dropout requires at least 2 dimensions in the input"),
    ("torch.multinomial(torch.ones(3), 0)", RuntimeError, "cannot sample n_sample <= 0 samples"),
    ("torch.multinomial(torch.ones(3), 4)", RuntimeError,
     "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
    ("torch.multinomial(torch.zeros(3), 1)", RuntimeError,
     "invalid multinomial distribution (sum of probabilities <= 0)"),
    ("torch.multinomial(torch.tensor([-1.0, 2]), 1)", RuntimeError,
     "probability tensor contains either `inf`, `nan` or element < 0"),
    ("torch.multinomial(torch.ones(2, 2, 2), 1)", RuntimeError, "prob_dist must be 1 or 2 dim"),
    ("torch.multinomial(torch.ones(2, dtype=torch.int64), 1)", RuntimeError,
     "multinomial only supports floating-point dtypes for input, got: Long"),
    ("torch.Generator().set_state(torch.zeros(100, dtype=torch.uint8))", RuntimeError,
     "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 100"),
    ("torch.Generator().set_state(torch.zeros(5056, dtype=torch.uint8))", RuntimeError,
     "Invalid mt19937 state"),
    ("torch.Generator().set_state(torch.zeros(5056))", TypeError,
     "RNG state must be a torch.ByteTensor"),
    ("torch.Generator().manual_seed(2**64)", ValueError, "Overflow when unpacking long long"),
    ("torch.Generator().get_offset()", RuntimeError, "CPU Generator does not use offset"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS, ids=[row[0] for row in BAD_CALLS])
def test_bad_calls_raise_what_pytorch_raises(
    call: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        eval(call, {"torch": torch, "math": math})
    assert caught.type is error
    assert message in str(caught.value)
