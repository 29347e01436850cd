"""The relaxed Bernoulli distribution, also called BinConcrete."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import OddsParameter, Relaxed, one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import SigmoidTransform
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    is_number,
)

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(OddsParameter, Distribution):
    """The log-odds of RelaxedBernoulli, which are numerically more stable."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        name, given = one_of(probs, logits)
        (self._param,) = broadcast_all(given)
        self.__dict__[name] = self._param
        batch_shape = flambeau.Size() if is_number(given) else self._param.size()
        super().__init__(batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogitRelaxedBernoulli, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new.temperature = self.temperature
        for name in ("probs", "logits", "_param"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape))
        return self._finish(new, batch_shape)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        unit = clamp_probs(flambeau.rand(shape, dtype=probs.dtype, device=probs.device))
        odds = unit.log() - (-unit).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value.mul(self.temperature)
        return (
            flambeau.as_tensor(self.temperature).log() + difference - 2 * difference.exp().log1p()
        )


class RelaxedBernoulli(Relaxed, TransformedDistribution):
    """A probability close to 0 or 1, more so the lower the temperature, through which gradients
    reach `probs`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))
