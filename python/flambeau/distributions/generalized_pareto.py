"""The generalized Pareto distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all, is_number

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """How far values beyond a high threshold `loc` exceed it, with a tail as `concentration` says.

    Args:
        loc: the threshold.
        scale: the scale.
        concentration: the shape: heavy tails where it is positive, an upper end where negative.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _batch_parameters = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        plain = is_number(loc) and is_number(scale) and is_number(concentration)
        super().__init__(flambeau.Size() if plain else self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        upper = flambeau.where(self.concentration < 0, end, flambeau.inf)
        return constraints.interval(self.loc, upper)

    @property
    def _is_exponential(self) -> Tensor:
        """Where the shape is zero, and the tail that of an exponential distribution."""
        return flambeau.isclose(self.concentration, flambeau.zeros_like(self.concentration))

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        unit = flambeau.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(unit)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        near = self._is_exponential
        c = flambeau.where(near, flambeau.ones_like(self.concentration), self.concentration)
        logs = -(1 / c + 1) * flambeau.log1p(c * z) - self.scale.log()
        return flambeau.where(near, -z - self.scale.log(), logs)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than a value."""
        z = (value - self.loc) / self.scale
        near = self._is_exponential
        c = flambeau.where(near, flambeau.ones_like(self.concentration), self.concentration)
        return flambeau.where(near, -z, -flambeau.log1p(c * z) / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of at most a value."""
        return flambeau.log1p(-flambeau.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -flambeau.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        near = self._is_exponential
        c = flambeau.where(near, flambeau.ones_like(self.concentration), self.concentration)
        logs = -flambeau.log1p(-value)
        return self.loc + self.scale * flambeau.where(near, logs, flambeau.expm1(c * logs) / c)

    @property
    def mean(self) -> Tensor:
        mean = self.loc + self.scale / (1 - self.concentration)
        return flambeau.where(self.concentration < 1, mean, flambeau.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.scale.pow(2) / ((1 - c).pow(2) * (1 - 2 * c))
        return flambeau.where(c < 0.5, variance, flambeau.inf)

    def entropy(self) -> Tensor:
        entropy = flambeau.log(self.scale) + self.concentration + 1
        return flambeau.broadcast_to(entropy, self._batch_shape)
