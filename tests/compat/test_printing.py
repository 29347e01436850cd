"""Tensors, sizes, dtypes and devices print as PyTorch's, character for character."""

from __future__ import annotations

import random

import pytest
from compare import Comparison

EXPRESSIONS = (
    "torch.tensor(1)", "torch.tensor(1.5)", "torch.tensor(True)", "torch.tensor([])",
    "torch.tensor([1, 2, 3])", "torch.tensor([1.0, 2.0, 3.0])", "torch.tensor([1.5, 2.25, -3.125])",
    "torch.tensor([True, False])", "torch.tensor([1e10, 1.0])", "torch.tensor([1e-5, 1.0])",
    "torch.tensor([1e5, 1.5])", "torch.tensor([123456.0, 0.001])", "torch.tensor([inf, 1.0])",
    "torch.tensor([nan, -inf, 1.0])", "torch.tensor([nan])", "torch.tensor([1e38, 1e-38])",
    "torch.tensor([0.1, 0.2, 0.30000001])", "torch.tensor([1e-8])", "torch.tensor([1e8])",
    "torch.tensor([99999999.0])", "torch.tensor([100000.0, 1000000.0])", "torch.tensor(-0.0)",
    "torch.tensor([1+2j, 3-4j])", "torch.tensor(1j)", "torch.tensor([1e10+1e-10j, 1j])",
    "torch.tensor([1+2j], dtype=torch.complex128)", "torch.tensor([complex(nan, inf), 1])",
    "torch.zeros(2, 3)", "torch.zeros(0, 3)", "torch.zeros(3, 0)", "torch.zeros(2, 0, 3)",
    "torch.zeros(0, dtype=torch.int64)", "torch.ones(2, 2, 2)", "torch.ones(2, 2, 2, 2)",
    "torch.arange(1000)", "torch.arange(1001)", "torch.arange(10000).reshape(100, 100)",
    "torch.arange(1100.0).reshape(11, 100)", "torch.arange(2000).reshape(2, 1000)",
    "torch.arange(1200).reshape(10, 10, 12)", "torch.arange(50).float().reshape(5, 10)",
    "torch.arange(100).float() / 7", "torch.arange(40).reshape(1, 40)", "torch.arange(70)",
    "torch.tensor([1, 2], dtype=torch.int8)", "torch.tensor([1, 2], dtype=torch.uint8)",
    "torch.tensor([1.5, 2], dtype=torch.float16)", "torch.tensor([1.5, 2], dtype=torch.bfloat16)",
    "torch.tensor([1.5, 2], dtype=torch.float64)", "torch.tensor([-1, 10, -100])",
    "torch.tensor([2**62, -(2**62)])", "torch.ones(2, requires_grad=True)",
    "torch.ones(2, requires_grad=True) * 2", "torch.ones(2, requires_grad=True).sum()",
    "torch.ones(2, 3, requires_grad=True).t()", "torch.ones(2, requires_grad=True).exp()",
    "torch.zeros(2, device='meta')", "torch.zeros(2, 3, device='meta', dtype=torch.int64)",
    "torch.zeros(2, 3).size()", "torch.Size([])", "torch.Size([1])", "torch.Size([1, 2])",
    "torch.float32", "torch.int64", "torch.complex64", "torch.bool", "torch.device('cpu')",
    "torch.device('cuda:1')", "torch.device('cuda', 0)", "torch.strided", "torch.contiguous_format",
    "torch.channels_last", "torch.preserve_format", "torch.zeros(2).dtype", "torch.zeros(2).device",
    "torch.finfo(torch.float32)", "torch.iinfo(torch.int8)", "torch.zeros(2).shape",
    "torch.max(torch.tensor([[1, 2], [3, 0]]), 1)", "torch.sort(torch.tensor([3, 1, 2]))",
    "[torch.tensor(1), torch.tensor([2.5])]", "{'a': torch.zeros(2)}",
    "torch.zeros(2, 3).stride()", "torch.zeros(2).layout", "torch.nn.Parameter(torch.zeros(2))",
    "torch.tensor([1.0, 2.5]).T", "torch.tensor([[1.5, nan], [inf, -2.0]])",
)  # fmt: skip
OPTIONS = ("precision=2", "precision=8", "threshold=5", "edgeitems=1, threshold=3", "linewidth=40",
           "sci_mode=True", "sci_mode=False", "profile='short'", "profile='full'")  # fmt: skip
FORMATS = ("f'{torch.tensor(1.2345):.2f}'", "f'{torch.tensor(7):04d}'", "f'{torch.tensor(1.5)}'",
           "f'{torch.zeros(2)}'", "format(torch.tensor(3), 'x')", "str(torch.tensor([1, 2]))",
           "'%s' % torch.tensor(1)", "'%.3f' % torch.tensor(2.0)",
           "f'{torch.tensor(1.5, requires_grad=True)}'")  # fmt: skip


def check(comparison: Comparison, *statements: str) -> None:
    text = comparison.difference(list(statements))
    assert text is None, "\n".join([*statements[-1:], f"# {text}"])


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_repr(expression: str, exact: Comparison) -> None:
    check(exact, f"text = repr({expression})")


@pytest.mark.parametrize("expression", FORMATS)
def test_format(expression: str, exact: Comparison) -> None:
    check(exact, f"text = {expression}")


@pytest.mark.parametrize("options", OPTIONS)
def test_print_options(options: str, exact: Comparison) -> None:
    reset = "torch.set_printoptions(profile='default')"
    for expression in EXPRESSIONS[:45]:
        check(exact, f"torch.set_printoptions({options})", f"text = repr({expression})", reset)


def test_random_tensors_print_alike(exact: Comparison) -> None:
    rng = random.Random(0)
    for _ in range(400):
        shape = [rng.choice((1, 2, 3, 5, 12)) for _ in range(rng.randint(0, 3))]
        scale = rng.choice((1e-9, 1e-4, 1e-2, 1, 1, 10, 1e3, 1e5, 1e8, 1e20))
        dtypes = ("float32", "float64", "float16", "bfloat16", "complex64", "int32")
        dtype = rng.choice(dtypes if scale < 1e9 else dtypes[:5])  # what does not fit is undefined
        whole = rng.choice(("", "", ".round()"))
        made = f"(torch.rand({shape}, dtype=torch.float64) * {scale}){whole}"
        check(exact, f"torch.manual_seed({rng.randint(0, 99)})",
              f"text = repr({made}.to(torch.{dtype}))")  # fmt: skip
