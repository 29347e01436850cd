"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import OddsParameter, one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import (
    broadcast_all,
    lazy_property,
)

__all__ = ["NegativeBinomial"]


class NegativeBinomial(OddsParameter, Distribution):
    """How many trials succeed before `total_count` have failed, each with probability `probs`."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _batch_parameters = ("total_count", "probs", "logits", "_param")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, given = one_of(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(self._param)
        self.__dict__[name] = self._param
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * flambeau.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / flambeau.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        # A Poisson variable whose rate has this distribution is one of ours.
        rate = flambeau.exp(-self.logits)
        return Gamma(concentration=self.total_count, rate=rate, validate_args=False)

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        with flambeau.no_grad():
            return flambeau.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logsigmoid = flambeau.nn.functional.logsigmoid
        unnormalized = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = (
            -flambeau.lgamma(self.total_count + value)
            + flambeau.lgamma(1.0 + value)
            + flambeau.lgamma(self.total_count)
        )
        normalizer = normalizer.masked_fill(self.total_count + value == 0.0, 0.0)
        return unnormalized - normalizer
