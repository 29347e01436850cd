"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all, is_number

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and the given rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _batch_parameters = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        plain = is_number(concentration) and is_number(rate)
        batch_shape = flambeau.Size() if plain else self.concentration.size()
        super().__init__(batch_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def sample(self, sample_shape: Any = flambeau.Size(), *, generator: Any = None) -> Tensor:
        with flambeau.no_grad():
            return self.rsample(sample_shape, generator)

    def rsample(self, sample_shape: Any = flambeau.Size(), generator: Any = None) -> Tensor:
        shape = self._extended_shape(sample_shape)
        standard = flambeau._standard_gamma(self.concentration.expand(shape), generator)
        value = standard / self.rate.expand(shape)
        # Never zero, whose log-probability would be infinite.
        value.detach().clamp_(min=flambeau.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Tensor:
        value = flambeau.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            flambeau.xlogy(self.concentration, self.rate)
            + flambeau.xlogy(self.concentration - 1, value)
            - self.rate * value
            - flambeau.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return flambeau.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        return (
            self.concentration
            - flambeau.log(self.rate)
            + flambeau.lgamma(self.concentration)
            + (1.0 - self.concentration) * flambeau.digamma(self.concentration)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return flambeau.lgamma(x + 1) + (x + 1) * flambeau.log(-y.reciprocal())
