"""Samples of the random functions.

What they draw is compared with PyTorch in tests/compat; here the reference is a property: the range
of the values, checked by `within`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import DTYPE, call, ints, op, t

Array = Any


class Within:
    """Stands for any values between two bounds."""

    def __init__(self, low: float, high: float, whole: bool = False) -> None:
        self.low, self.high, self.whole = low, high, whole

    def holds(self, values: Array) -> bool:
        values = np.asarray(values, dtype=np.float64)
        inside = bool(np.all((values >= self.low) & (values <= self.high)))
        return inside and (not self.whole or bool(np.all(values == np.floor(values))))


def within(low: float, high: float, whole: bool = False) -> Any:
    return lambda *_, **__: Within(low, high, whole)


SIZES = [
    call(2, 3, dtype=DTYPE),
    call((40,), dtype=DTYPE),
    call((), dtype=DTYPE),
    call(0, 3, dtype=DTYPE),
    call(3, dtypes_="float32"),
]
LIKE = [call(t(3, 4)), call(t()), call(t(0, 3)), call(t(40))]
DRAWN = {"forms": "creation random out", "grad": False}
DRAWN_LIKE = {"forms": "creation random", "grad": False}
FILLED = {"forms": "mutating random method-only", "grad": False}

op("rand", SIZES, ref=within(0, 1), dtypes="hf", **DRAWN)
op("randn", SIZES, ref=within(-9, 9), dtypes="hf", **DRAWN)
op(
    "randint",
    call(10, (2, 3), dtype=DTYPE),
    call(3, 7, (4,), dtype=DTYPE),
    call(1, (), dtype=DTYPE),
    call(5, (0, 2), dtype=DTYPE),
    call(0, 9, [2], dtypes_="int64"),
    ref=within(0, 9, True),
    dtypes="ihf",
    **DRAWN,
)
op(
    "randperm",
    call(5, dtype=DTYPE),
    call(0, dtype=DTYPE),
    call(60, dtype=DTYPE),
    call(7, dtypes_="int64"),
    ref=within(0, 59, True),
    dtypes="if",
    zero_dim="it makes a vector",
    **DRAWN,
)
op("rand_like", LIKE, ref=within(0, 1), dtypes="hf", **DRAWN_LIKE)
op("randn_like", LIKE, ref=within(-9, 9), dtypes="hf", **DRAWN_LIKE)
op(
    "randint_like",
    call(t(3, 4), 5),
    call(t(), 2, 4),
    call(t(0, 2), 3),
    ref=within(0, 4, True),
    dtypes="ihf",
    **DRAWN_LIKE,
)
op(
    "normal",
    call(t(3, 4), 1.0),
    call(t(3), t(3, low=0.1)),
    call(0.0, t(3, low=0.1)),
    call(t(), 1.0),
    call(t(0, 2), 1.0),
    ref=within(-40, 40),
    dtypes="float32",
    forms="random",
    grad=False,
)
op(
    "bernoulli",
    call(t(3, 4, low=0, high=1)),
    call(t(low=0, high=1)),
    call(t(0, 2)),
    call(t(3), 0.5),
    ref=within(0, 1, True),
    dtypes="f",
    forms="random",
    grad=False,
)
op(
    "uniform_",
    call(t(3, 4)),
    call(t(40), -2.0, 3.0),
    call(t()),
    call(t(0, 2)),
    ref=within(-2, 3),
    dtypes="hf",
    **FILLED,
)
op(
    "normal_",
    call(t(3, 4)),
    call(t(40), 1.0, 2.0),
    call(t()),
    call(t(0, 2)),
    ref=within(-20, 20),
    dtypes="hf",
    **FILLED,
)
op(
    "bernoulli_",
    call(t(3, 4)),
    call(t(40), 0.3),
    call(t()),
    call(t(0, 2)),
    call(t(3), t(3, dtype="float32", low=0, high=1)),
    ref=within(0, 1, True),
    dtypes="bihf",
    **FILLED,
)
op(
    "random_",
    call(t(3, 4), 5),
    call(t(40), 2, 7),
    call(t(), 5),
    call(t(0, 2), 5),
    ref=within(0, 6, True),
    dtypes="ihf",
    **FILLED,
)
op(
    "exponential_",
    call(t(3, 4)),
    call(t(40), 2.0),
    call(t()),
    call(t(0, 2)),
    ref=within(0, 100),
    dtypes="hf",
    **FILLED,
)
op(
    "cauchy_",
    call(t(3, 4)),
    call(t(40), 1.0, 2.0),
    call(t()),
    call(t(0, 2)),
    ref=within(-1e9, 1e9),
    dtypes="hf",
    **FILLED,
)
op(
    "geometric_",
    call(t(3, 4), 0.5),
    call(t(), 0.5),
    call(t(0, 2), 0.5),
    ref=within(1, 99, True),
    dtypes="ihf",
    **FILLED,
)
op(
    "log_normal_",
    call(t(3, 4)),
    call(t()),
    call(t(0, 2)),
    ref=within(0, 1e5),
    dtypes="hf",
    **FILLED,
)
op(
    "multinomial",
    call(t(6, low=0.1, high=1), 3),
    call(t(2, 6, low=0.1, high=1), 9, True),
    call(t(0, 6, low=0.1, high=1), 2),
    ref=within(0, 5, True),
    dtypes="f",
    result="int64",
    forms="random",
    grad=False,
    zero_dim="it takes rows of weights",
)
op(
    "poisson",
    call(t(3, 4, low=0.1)),
    call(t(low=0.1)),
    call(t(0, 2, low=0.1)),
    ref=within(0, 30, True),
    dtypes="f",
    forms="random",
    grad=False,
)
op(
    "_standard_gamma",
    call(t(3, 4, low=0.1)),
    call(t(low=0.1)),
    call(t(0, 2, low=0.1)),
    ref=within(0, 60),
    dtypes="f",
    forms="random",
    grad=False,
)
op(
    "_sample_dirichlet",
    call(t(3, 4, low=0.1)),
    call(t(low=0.1)),
    call(t(0, 2, low=0.1)),
    ref=within(0, 1),
    dtypes="f",
    forms="random",
    grad=False,
)
op(
    "binomial",
    call(t(3, 4, low=0, high=40), t(4, low=0, high=1)),
    call(t(low=0, high=9), t(low=0, high=1)),
    call(t(0, 2, low=0, high=9), t(0, 2, low=0, high=1)),
    ref=within(0, 40),
    dtypes="f",
    forms="random",
    grad=False,
)


def gamma_gradient(a: Array, x: Array) -> Array:
    """-(dP/da) / p by a difference quotient of the incomplete gamma function in double."""
    from scipy import special, stats

    a, x = np.asarray(a, np.float64), np.asarray(x, np.float64)
    h = 1e-5 * a
    slope = (special.gammainc(a + h, x) - special.gammainc(a - h, x)) / (2 * h)
    return -slope / stats.gamma.pdf(x, a)


def dirichlet_gradient(x: Array, alpha: Array, total: Array) -> Array:
    """-(dI/dalpha) / p / (1 - x), I the incomplete beta function, by a difference quotient."""
    from scipy import special, stats

    x, a, b = np.asarray(x, np.float64), np.asarray(alpha, np.float64), np.asarray(total - alpha)
    h = 1e-5 * a
    slope = (special.betainc(a + h, b, x) - special.betainc(a - h, b, x)) / (2 * h)
    return -slope / stats.beta.pdf(x, a, b) / (1 - x)


op(
    "_standard_gamma_grad",
    call(t(3, 4, low=0.3, high=4), t(4, low=0.2, high=4)),
    call(t(low=0.3, high=4), t(low=0.2, high=4)),
    call(t(0, 2, low=0.3), t(0, 2, low=0.2)),
    ref=gamma_gradient,
    dtypes="f",
    tolerance=1000,
    grad=False,
)
op(
    "_dirichlet_grad",
    call(t(3, 4, low=0.1, high=0.9), t(4, low=0.3, high=2), t(3, 1, low=2.5, high=6)),
    call(t(low=0.1, high=0.9), t(low=0.3, high=2), t(low=2.5, high=6)),
    call(t(0, 4, low=0.1, high=0.9), t(4, low=0.3, high=2), t(0, 1, low=2.5, high=6)),
    ref=dirichlet_gradient,
    dtypes="f",
    tolerance=1000,
    grad=False,
)


def sobol(quasi: Array, n: int, state: Array, dimension: int, done: int, _: Any) -> Any:
    """The points one by one: each step turns the direction of the lowest bit that is zero."""
    quasi, points = quasi.copy(), np.zeros((n, dimension))
    for k in range(n):
        number, bit = done + k, 0
        while number >> bit & 1:
            bit += 1
        quasi ^= state[:, bit]
        points[k] = quasi.astype(np.float64) / 2**30
    return points.astype(np.float32), quasi


op(
    "_sobol_engine_draw",
    call(ints(2, high=1 << 29), 6, ints(2, 30, high=1 << 29), 2, 0, None),
    call(ints(3, high=1 << 29), 3, ints(3, 30, high=1 << 29), 3, 7, None),
    call(ints(2, high=1 << 29), 0, ints(2, 30, high=1 << 29), 2, 0, None),
    ref=sobol,
    dtypes="f",
    result="any",
    grad=False,
    zero_dim="it takes a table of directions",
    empty="it takes a direction for each dimension",
)
