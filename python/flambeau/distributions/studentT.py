"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """The t-distribution of `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(StudentT, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new.df = self.df.expand(batch_shape)
        new.loc = self.loc.expand(batch_shape)
        new.scale = self.scale.expand(batch_shape)
        new._chi2 = self._chi2.expand(batch_shape)
        return self._finish(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return flambeau.where(self.df > 1, self.loc, flambeau.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        unbounded = flambeau.where(
            self.df > 1, flambeau.full_like(self.df, flambeau.inf), flambeau.nan
        )
        return flambeau.where(self.df > 2, finite, unbounded)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * flambeau.rsqrt(chi2 / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + flambeau.lgamma(0.5 * self.df)
            - flambeau.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * flambeau.log1p(y**2.0 / self.df) - normalizer

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        log_beta = flambeau.lgamma(0.5 * self.df) + math.lgamma(0.5) - flambeau.lgamma(half)
        return (
            self.scale.log()
            + half * (flambeau.digamma(half) - flambeau.digamma(0.5 * self.df))
            + 0.5 * self.df.log()
            + log_beta
        )
