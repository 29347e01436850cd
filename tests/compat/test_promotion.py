"""The dtype of every result of mixed operands is PyTorch's."""

from __future__ import annotations

import pytest
from compare import Comparison

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex32", "complex64", "complex128")  # fmt: skip
OPS = ("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum",
       "eq", "lt", "bitwise_and", "logical_and", "atan2", "where", "cat", "stack", "true_divide",
       "copysign", "float_power", "hypot", "lerp", "clamp_min", "mm", "isclose",
       "xlogy")  # fmt: skip
SCALARS = ("True", "2", "1.5", "1j", "2**40")

# PyTorch has a dtype of its own for bfloat16 with complex numbers; Flambeau has none and makes
# complex64, so those pairs are left out.
# Each statement fills a dictionary: the key names the operands, the value the dtype or the error.
TABLE = """
def outcome(function):
    try:
        return str(function().dtype)
    except Exception as error:
        return type(error).__name__
def call(name, x, y):
    if name == 'where':
        return torch.where(torch.ones((), dtype=torch.bool), x, y)
    if name == 'lerp':
        return torch.lerp(x, y, 0.5)
    if name in ('cat', 'stack'):
        return getattr(torch, name)([x, y])
    return getattr(torch, name)(x, y)
DTYPES = {dtypes}
def odd(one, two):
    return 'bfloat16' in one + two and 'complex' in one + two
def make(kind, dtype):
    return torch.ones((2, 2) if kind == 'tensor' else (), dtype=getattr(torch, dtype))
"""


def check(comparison: Comparison, *statements: str) -> None:
    text = comparison.difference([TABLE.format(dtypes=DTYPES), *statements])
    assert text is None, text


@pytest.mark.parametrize("op", OPS)
def test_tensor_with_tensor(op: str, exact: Comparison) -> None:
    check(
        exact,
        "table = {' '.join((k, a, m, b)): outcome(lambda: call(OP, make(k, a), make(m, b)))"
        " for k in ('tensor', 'zero-dim') for m in ('tensor', 'zero-dim')"
        " for a in DTYPES for b in DTYPES if not odd(a, b)}".replace("OP", repr(op)),
    )


@pytest.mark.parametrize("op", OPS)
def test_tensor_with_python_number(op: str, exact: Comparison) -> None:
    for scalar in SCALARS:
        check(
            exact,
            "table = {' '.join((k, a, side)): outcome(lambda: call(OP, *((make(k, a), S)"
            " if side == 'right' else (S, make(k, a)))))"
            " for k in ('tensor', 'zero-dim') for a in DTYPES for side in ('left', 'right')"
            f" if 'bfloat16' not in a or {scalar != '1j'}}}"
            .replace("OP", repr(op)).replace("S)", f"{scalar})").replace("(S,", f"({scalar},"),
        )  # fmt: skip


@pytest.mark.parametrize("symbol", ("+", "-", "*", "/", "//", "%", "**", "==", "<", "&", "<<", "@"))
def test_operators(symbol: str, exact: Comparison) -> None:
    for scalar in SCALARS:
        check(
            exact,
            f"table = {{k + a: (outcome(lambda: make(k, a) {symbol} {scalar}),"
            f" outcome(lambda: {scalar} {symbol} make(k, a)))"
            f" for k in ('tensor', 'zero-dim') for a in DTYPES"
            f" if 'bfloat16' not in a or {scalar != '1j'}}}",
        )


@pytest.mark.parametrize("op", ("add_", "sub_", "mul_", "div_", "pow_", "copy_", "eq_",
                                "bitwise_or_", "floor_divide_", "remainder_"))  # fmt: skip
def test_inplace(op: str, exact: Comparison) -> None:
    check(
        exact,
        f"table = {{' '.join((a, m, b)): outcome(lambda: make('tensor', a).{op}(make(m, b)))"
        " for m in ('tensor', 'zero-dim') for a in DTYPES for b in DTYPES if not odd(a, b)"
        f" and not ({op == 'pow_'} and 'complex' in b)}}",
        f"scalars = {{a + str(s): outcome(lambda: make('tensor', a).{op}(s))"
        " for a in DTYPES for s in (True, 2, 1.5, 1j)"
        f" if s != 1j or {'float16' if op == 'pow_' else 'bfloat16'!r} not in a}}",
    )


def test_out(exact: Comparison) -> None:
    check(
        exact,
        "table = {' '.join((op, a, b)): outcome(lambda: getattr(torch, op)(make('tensor', a),"
        " make('tensor', a), out=torch.empty(2, 2, dtype=getattr(torch, b))))"
        " for op in ('add', 'mul', 'div', 'eq', 'maximum', 'mm') for a in DTYPES for b in DTYPES"
        # Of two mistakes, a dtype without division and one that does not fit, either may be told.
        " if op != 'div' or a != 'complex32'}",
    )


UNARY = ("sin", "exp", "sqrt", "abs", "neg", "sign", "floor", "round", "sigmoid", "reciprocal",
         "square", "erf", "angle", "real", "isnan", "logical_not", "bitwise_not", "relu", "tanh",
         "log", "rsqrt", "conj_physical", "positive", "signbit", "sgn", "frac",
         "lgamma")  # fmt: skip
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "argmax", "any", "all", "var", "std", "norm",
              "amax", "median", "nansum", "logsumexp", "cumsum", "cumprod", "softmax", "sort",
              "count_nonzero", "trace", "aminmax")  # fmt: skip


def test_unary(exact: Comparison) -> None:
    check(
        exact,
        f"table = {{op + k + a: outcome(lambda: getattr(torch, op)(make(k, a)))"
        f" for op in {UNARY} for k in ('tensor', 'zero-dim') for a in DTYPES"
        # Angles of complex32 are had here.
        " if op != 'angle' or a != 'complex32'}",
    )


def test_reductions(exact: Comparison) -> None:
    check(
        exact,
        "def first(x): return x[0] if isinstance(x, tuple) else x",
        f"table = {{op + a: outcome(lambda: first(getattr(make('tensor', a), op)()))"
        f" for op in {REDUCTIONS} for a in DTYPES}}",
        f"along = {{op + a: outcome(lambda: first(getattr(make('tensor', a), op)(0)))"
        f" for op in {REDUCTIONS} for a in DTYPES}}",
        "typed = {op + a + b: outcome(lambda: getattr(make('tensor', a), op)(0,"
        " dtype=getattr(torch, b))) for op in ('sum', 'mean', 'prod', 'cumsum', 'softmax')"
        " for a in DTYPES for b in DTYPES}",
    )


def test_functions_of_dtypes(exact: Comparison) -> None:
    check(
        exact,
        "types = {a + b: str(torch.promote_types(getattr(torch, a), getattr(torch, b)))"
        " for a in DTYPES for b in DTYPES if not odd(a, b)}",
        "casts = {a + b: torch.can_cast(getattr(torch, a), getattr(torch, b))"
        " for a in DTYPES for b in DTYPES}",
        "results = {k + a + m + b: str(torch.result_type(make(k, a), make(m, b)))"
        " for k in ('tensor', 'zero-dim') for m in ('tensor', 'zero-dim')"
        " for a in DTYPES for b in DTYPES if not odd(a, b)}",
        "scalars = {k + a + str(s): str(torch.result_type(make(k, a), s))"
        " for k in ('tensor', 'zero-dim') for a in DTYPES for s in (True, 1, 1.5, 1j)"
        " if s != 1j or 'bfloat16' not in a}",
        "infos = {a: (torch.finfo(getattr(torch, a)).eps, torch.finfo(getattr(torch, a)).max,"
        " torch.finfo(getattr(torch, a)).tiny, torch.finfo(getattr(torch, a)).bits,"
        " str(torch.finfo(getattr(torch, a)))) for a in DTYPES if 'float' in a}",
        "whole = {a: (torch.iinfo(getattr(torch, a)).min, torch.iinfo(getattr(torch, a)).max,"
        " torch.iinfo(getattr(torch, a)).bits, str(torch.iinfo(getattr(torch, a))))"
        " for a in DTYPES if 'int' in a}",
        "facts = {a: (getattr(torch, a).is_floating_point, getattr(torch, a).is_complex,"
        " getattr(torch, a).is_signed, getattr(torch, a).itemsize) for a in DTYPES}",
    )


@pytest.mark.parametrize("default", ("float32", "float64"))
def test_default_dtype(default: str, exact: Comparison) -> None:
    check(
        exact,
        f"torch.set_default_dtype(torch.{default})",
        "made = [torch.zeros(2), torch.tensor(1.5), torch.tensor([1, 2.5]), torch.arange(2.0),"
        " torch.ones(2, dtype=torch.int64) / 2, torch.ones(2, dtype=torch.int64) * 1.5,"
        " torch.tensor(1j), torch.ones(2, dtype=torch.int64).sqrt(), torch.rand(2),"
        " torch.full((2,), 1.5), torch.linspace(0, 1, 3), torch.eye(2)]",
        "torch.set_default_dtype(torch.float32)",
    )
