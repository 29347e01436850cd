"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import Odds, one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import (
    broadcast_all,
    is_number,
)
from flambeau.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Geometric"]


class Geometric(Odds, Distribution):
    """How many trials fail before the first that succeeds, with probability `probs` each."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _batch_parameters = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name, given = one_of(probs, logits)
        (parameter,) = broadcast_all(given)
        self.__dict__[name] = parameter
        batch_shape = flambeau.Size() if is_number(given) else parameter.size()
        super().__init__(batch_shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (parameter > 0).all():
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive, but found "
                f"invalid values:\n{parameter}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        tiny = flambeau.finfo(self.probs.dtype).tiny
        with flambeau.no_grad():
            unit = self.probs.new(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (unit.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # Of a certain success nothing fails before, although log(0) times 0 is no number.
        probs = probs.clone(memory_format=flambeau.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        loss = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return loss / self.probs
