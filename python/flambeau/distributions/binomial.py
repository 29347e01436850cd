"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import OddsParameter, one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import (
    broadcast_all,
)

__all__ = ["Binomial"]


class Binomial(OddsParameter, Distribution):
    """How many of `total_count` trials succeed, each with probability `probs`."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _batch_parameters = ("total_count", "probs", "logits", "_param")

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, given = one_of(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(self._param)
        self.__dict__[name] = self._param
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        choices = (
            flambeau.lgamma(n + 1) - flambeau.lgamma(value + 1) - flambeau.lgamma(n - value + 1)
        )
        # k logits - n log(1 + exp(logits)), without an exponential that overflows.
        # By the magnitude rather than a clamp, for the right gradient at logits of zero.
        magnitude = flambeau.abs(self.logits)
        softplus = (self.logits + magnitude) / 2 + flambeau.log1p(flambeau.exp(-magnitude))
        return choices + value * self.logits - n * softplus

    def entropy(self) -> Tensor:
        if not (self.total_count == self.total_count.max()).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        logs = self.log_prob(self.enumerate_support(False))
        return -(flambeau.exp(logs) * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = int(self.total_count.max())
        if not (self.total_count == total).all():
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values = flambeau.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
