"""The half-Cauchy distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import Half
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(Half, TransformedDistribution):
    """The absolute value of a Cauchy variable around zero."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Tensor:
        return flambeau.full_like(self.scale.expand(self._extended_shape()), flambeau.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
