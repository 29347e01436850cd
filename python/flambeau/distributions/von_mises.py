"""The von Mises distribution, the normal distribution of angles."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]

# Polynomials for the modified Bessel functions of order 0 and 1 (Abramowitz and Stegun, 9.8.1 to
# 9.8.4): in (x / 3.75)^2 for small x, in 3.75 / x, times exp(x) / sqrt(x), for large.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (
        0.39894228,
        0.1328592e-1,
        0.225319e-2,
        -0.157565e-2,
        0.916281e-2,
        -0.2057706e-1,
        0.2635537e-1,
        -0.1647633e-1,
        0.392377e-2,
    ),
    (
        0.39894228,
        -0.3988024e-1,
        -0.362018e-2,
        0.163801e-2,
        -0.1031555e-1,
        0.2282967e-1,
        -0.2895312e-1,
        0.1787654e-1,
        -0.420059e-2,
    ),
)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    result: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = coefficient + x * result
    return result


def _log_modified_bessel_fn(x: Tensor, order: int = 0) -> Tensor:
    """log I_0(x) or log I_1(x) for positive x."""
    small = _polynomial((x / 3.75) ** 2, _SMALL[order])
    if order == 1:
        small = x.abs() * small
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return flambeau.where(x < 3.75, small.log(), large)


def _rejection_sample(loc: Tensor, concentration: Tensor, proposal_r: Tensor, shape: Any) -> Tensor:
    """Samples by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
    x = flambeau.empty(shape, dtype=loc.dtype, device=loc.device)
    done = flambeau.zeros(shape, dtype=flambeau.bool, device=loc.device)
    while not done.all():
        u1, u2, u3 = flambeau.rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
        z = flambeau.cos(math.pi * u1)
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
        if accept.any():
            x = flambeau.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Distribution):
    """Angles around `loc`, the closer to it the larger `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, flambeau.Size(), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        loc = self.loc.expand(batch_shape)
        return type(self)(loc, self.concentration.expand(batch_shape), self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        result = self.concentration * flambeau.cos(value - self.loc)
        return result - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration)

    # Rejection needs more digits than single precision has where the concentration is small.
    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(flambeau.double)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(flambeau.double)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        exact = (1 + rho**2) / (2 * rho)
        return flambeau.where(kappa < 1e-5, 1 / kappa + kappa, exact)

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        with flambeau.no_grad():
            shape = self._extended_shape(sample_shape)
            samples = _rejection_sample(self._loc, self._concentration, self._proposal_r, shape)
            return samples.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I_1 / I_0."""
        logs = _log_modified_bessel_fn(self.concentration, order=1) - _log_modified_bessel_fn(
            self.concentration
        )
        return 1 - logs.exp()
