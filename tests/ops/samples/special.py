"""Samples of special functions, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

from .spec import Call, call, op, t, unary_calls

Array = Any
FORMS = {"dtypes": "ihf", "result": "float", "forms": "inplace out"}
FUNCTION = {"dtypes": "if", "result": "float", "forms": "out", "tolerance": 20}


def edges(*values: float) -> Call:
    """Values at which a function has a pole, a limit or a seam between two formulas."""
    return call(t(len(values), values=values), dtypes_="f", grad_=False)


INF, NAN = float("inf"), float("nan")

op(
    "lgamma",
    unary_calls(0.1, 6),
    edges(0.0, 1.0, 2.0, -2.5, INF, NAN, 100.0),
    ref=sp.gammaln,
    tolerance=4,
    **FORMS,
)
op(
    "digamma",
    unary_calls(0.1, 6),
    edges(0.0, 1.0, -2.5, 9.5, 10.0, INF, NAN, 100.0),
    ref=sp.digamma,
    tolerance=4,
    **FORMS,
)
op(
    "erfinv",
    unary_calls(-0.95, 0.95),
    edges(0.0, 1.0, -1.0, 2.0, NAN, 0.5, 0.999999, -0.85),
    ref=sp.erfinv,
    tolerance=4,
    **FORMS,
)
op("i0", unary_calls(), edges(0.0, 8.0, 8.5, -20.0, NAN), ref=sp.i0, tolerance=4, **FORMS)

for name, function in {
    "special_i0e": sp.i0e,
    "special_i1": sp.i1,
    "special_i1e": sp.i1e,
    "special_modified_bessel_i0": sp.i0,
    "special_modified_bessel_i1": sp.i1,
    "special_ndtr": sp.ndtr,
    "special_log_ndtr": sp.log_ndtr,
    "special_erfcx": sp.erfcx,
    "special_bessel_j0": sp.j0,
    "special_bessel_j1": sp.j1,
    "special_spherical_bessel_j0": lambda x: np.sinc(x / np.pi),
}.items():
    op(
        name,
        unary_calls(nonzero=True),
        edges(0.0, 1e-3, 7.9, -8.1, 15.0),
        ref=function,
        grad="spherical" not in name,  # PyTorch gives this one no derivative
        **FUNCTION,
    )
for name, function in {
    "special_entr": sp.entr,
    "special_bessel_y0": sp.y0,
    "special_bessel_y1": sp.y1,
    "special_modified_bessel_k0": sp.k0,
    "special_modified_bessel_k1": sp.k1,
    "special_scaled_modified_bessel_k0": sp.k0e,
    "special_scaled_modified_bessel_k1": sp.k1e,
}.items():
    op(
        name,
        unary_calls(0.2, 6),
        edges(0.1, 1.9, 2.1, 30.0, 300.0),
        ref=function,
        grad="scaled" not in name,
        **FUNCTION,
    )
op(
    "special_ndtri",
    unary_calls(0.02, 0.98),
    edges(0.0, 1.0, 0.5, 1e-30, 0.925, 2.0),
    ref=sp.ndtri,
    dtypes="f",
    forms="out",
    tolerance=20,
)
op(
    "special_airy_ai",
    unary_calls(),
    edges(-5.1, -4.9, -20.0, 1.9, 2.1, 20.0, 200.0, 0.0),
    ref=lambda x: sp.airy(x)[0],
    grad=False,
    **FUNCTION,
)

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 4), (3, 4)),
    ((2, 1, 3), (4, 1)),
    ((), ()),
    ((0, 3), (3,)),
)


def degrees() -> list[Call]:
    """Polynomials of several degrees at numbers between and beyond -1 and 1."""
    calls = [
        call(t(*one, low=-1.5, high=1.5), t(*two, dtype="int64", low=-1, high=9))
        for one, two in SHAPES
    ]
    return [*calls, call(t(5, low=-0.9, high=0.9), t(5, dtype="int64", low=30, high=50))]


def polynomial(function: Any) -> Any:
    def run(x: Array, n: Array) -> Array:
        wide = np.asarray(x, dtype=np.float64)
        return np.where(n < 0, 0.0, function(np.maximum(n, 0), wide))

    return run


def third_kind(n: Array, x: Array) -> Array:
    return sp.eval_chebyu(n, x) - np.where(n > 0, sp.eval_chebyu(np.maximum(n - 1, 0), x), 0)


def fourth_kind(n: Array, x: Array) -> Array:
    return sp.eval_chebyu(n, x) + np.where(n > 0, sp.eval_chebyu(np.maximum(n - 1, 0), x), 0)


POLYNOMIALS = {
    "chebyshev_polynomial_t": sp.eval_chebyt,
    "chebyshev_polynomial_u": sp.eval_chebyu,
    "chebyshev_polynomial_v": third_kind,
    "chebyshev_polynomial_w": fourth_kind,
    "hermite_polynomial_h": sp.eval_hermite,
    "hermite_polynomial_he": sp.eval_hermitenorm,
    "laguerre_polynomial_l": sp.eval_laguerre,
    "legendre_polynomial_p": sp.eval_legendre,
}
for name, function in POLYNOMIALS.items():
    op(
        f"special_{name}",
        degrees(),
        ref=polynomial(function),
        dtypes="f",
        forms="out",
        grad=False,
        tolerance=1000,
    )
    if name.startswith("chebyshev"):
        op(
            f"special_shifted_{name}",
            degrees(),
            ref=polynomial(lambda n, x, f=function: f(n, 2 * x - 1)),
            dtypes="f",
            forms="out",
            grad=False,
            tolerance=4000,
        )

op(
    "polygamma",
    *[[call(k, one.args[0]) for one in unary_calls(0.3, 6)] for k in (0, 1, 2, 5)],
    ref=sp.polygamma,
    dtypes="if",
    result="float",
    forms="out",
    tolerance=20,
)
op(
    "mvlgamma",
    call(t(3, 4, low=2, high=6), 1),
    call(t(3, 4, low=2, high=6), 3),
    call(t(low=2, high=6), 2),
    call(t(0, 3), 2),
    ref=lambda x, p: sp.multigammaln(x, p) if x.size else x,
    dtypes="f",
    forms="inplace out",
    tolerance=20,
)


def pairs(low: float, high: float, first: bool) -> list[Call]:
    return [
        call(t(*one, low=low, high=high, differentiable=first), t(*two, low=low, high=high))
        for one, two in SHAPES
    ]


op(
    "igamma",
    pairs(0.2, 6, False),
    call(
        t(6, values=(0.5, 200.0, 200.0, 1e5, 0.0, 2.0)),
        t(6, values=(1e-5, 190.0, 240.0, 1e5, 1.0, INF)),
        dtypes_="f",
        grad_=False,
    ),
    ref=sp.gammainc,
    dtypes="f",
    forms="inplace out",
    tolerance=100,
)
op(
    "igammac",
    pairs(0.2, 6, False),
    call(
        t(6, values=(0.5, 200.0, 200.0, 1e5, 0.3, 2.0)),
        t(6, values=(1e-5, 190.0, 240.0, 1e5, 0.9, INF)),
        dtypes_="f",
        grad_=False,
    ),
    ref=sp.gammaincc,
    dtypes="f",
    forms="inplace out",
    tolerance=100,
)
op(
    "special_zeta",
    pairs(1.2, 6, False),
    ref=sp.zeta,
    dtypes="f",
    forms="out",
    tolerance=20,
)
op(
    "special_xlog1py",
    pairs(-0.9, 3, True),
    call(t(3, values=(0.0, 0.0, 1.0)), t(3, values=(-1.0, NAN, -0.5)), dtypes_="f", grad_=False),
    ref=sp.xlog1py,
    dtypes="f",
    forms="out",
    tolerance=4,
)
