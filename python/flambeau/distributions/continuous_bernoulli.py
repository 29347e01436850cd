"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import OddsParameter, one_of
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    is_number,
    lazy_property,
    logits_to_probs,
)
from flambeau.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(OddsParameter, ExponentialFamily):
    """The density in proportion to p^x (1 - p)^(1 - x) for x in [0, 1].

    Args:
        probs: p; it is not the mean.
        logits: or its log-odds.
        lims: between these values of p, where the exact formulas lose all digits, series around
            1/2 are used.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        _, given = one_of(probs, logits)
        (parameter,) = broadcast_all(given)
        if probs is not None:
            if validate_args and not self.arg_constraints["probs"].check(parameter).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = parameter = clamp_probs(parameter)
        else:
            self.logits = parameter
        self._param, self._lims = parameter, lims
        batch_shape = flambeau.Size() if is_number(given) else parameter.size()
        super().__init__(batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ContinuousBernoulli, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new._lims = self._lims
        for name in ("probs", "logits", "_param"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape))
        return self._finish(new, batch_shape)

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """p, moved to the edge of the region where the formulas are unstable."""
        edge = self._lims[0] * flambeau.ones_like(self.probs)
        return flambeau.where(self._outside_unstable_region(), self.probs, edge)

    def _cont_bern_log_norm(self) -> Tensor:
        """log(2 atanh(1 - 2 p) / (1 - 2 p))."""
        cut = self._cut_probs()
        below = flambeau.where(cut <= 0.5, cut, flambeau.zeros_like(cut))
        above = flambeau.where(cut >= 0.5, cut, flambeau.ones_like(cut))
        numerator = flambeau.log(flambeau.abs(flambeau.log1p(-cut) - flambeau.log(cut)))
        log_norm = numerator - flambeau.where(
            cut <= 0.5, flambeau.log1p(-2.0 * below), flambeau.log(2.0 * above - 1.0)
        )
        x = flambeau.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return flambeau.where(self._outside_unstable_region(), log_norm, series)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        means = cut / (2.0 * cut - 1.0) + 1.0 / (flambeau.log1p(-cut) - flambeau.log(cut))
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return flambeau.where(self._outside_unstable_region(), means, series)

    @property
    def stddev(self) -> Tensor:
        return flambeau.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        variances = cut * (cut - 1.0) / flambeau.pow(1.0 - 2.0 * cut, 2) + 1.0 / flambeau.pow(
            flambeau.log1p(-cut) - flambeau.log(cut), 2
        )
        x = flambeau.pow(self.probs - 0.5, 2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return flambeau.where(self._outside_unstable_region(), variances, series)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _units(self, sample_shape: Any) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return flambeau.rand(shape, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        unit = self._units(sample_shape)
        with flambeau.no_grad():
            return self.icdf(unit)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        return self.icdf(self._units(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -loss + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        cdfs = (flambeau.pow(cut, value) * flambeau.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (
            2.0 * cut - 1.0
        )
        unbounded = flambeau.where(self._outside_unstable_region(), cdfs, value)
        at_most_one = flambeau.where(value >= 1.0, flambeau.ones_like(unbounded), unbounded)
        return flambeau.where(value <= 0.0, flambeau.zeros_like(unbounded), at_most_one)

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = (flambeau.log1p(-cut + value * (2.0 * cut - 1.0)) - flambeau.log1p(-cut)) / (
            flambeau.log(cut) - flambeau.log1p(-cut)
        )
        return flambeau.where(self._outside_unstable_region(), exact, value)

    def entropy(self) -> Tensor:
        log_not = flambeau.log1p(-self.probs)
        logit = flambeau.log(self.probs) - log_not
        return self.mean * (-logit) - self._cont_bern_log_norm() - log_not

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = flambeau.where(outside, x, (self._lims[0] - 0.5) * flambeau.ones_like(x))
        exact = flambeau.log(flambeau.abs(flambeau.expm1(cut))) - flambeau.log(flambeau.abs(cut))
        series = 0.5 * x + flambeau.pow(x, 2) / 24.0 - flambeau.pow(x, 4) / 2880.0
        return flambeau.where(outside, exact, series)
