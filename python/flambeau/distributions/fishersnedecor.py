"""The F-distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all, is_number

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared variables, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        plain = is_number(df1) and is_number(df2)
        super().__init__(flambeau.Size() if plain else self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(FisherSnedecor, _instance)
        batch_shape = flambeau.Size(batch_shape)
        for name in ("df1", "df2", "_gamma1", "_gamma2"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return self._finish(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return flambeau.where(self.df2 > 2, self.df2 / (self.df2 - 2), flambeau.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return flambeau.where(self.df1 > 2, mode, flambeau.nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2
        variance = 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))
        return flambeau.where(df2 > 4, variance, flambeau.nan)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        upper = self._gamma1.rsample(sample_shape).view(shape)
        lower = self._gamma2.rsample(sample_shape).view(shape)
        lower.detach().clamp_(min=flambeau.finfo(self.df2.dtype).tiny)
        quotient = upper / lower
        quotient.detach().clamp_(min=flambeau.finfo(self.df2.dtype).tiny)
        return quotient

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        power = half1 * ratio.log() + (half1 - 1) * flambeau.log(value)
        return normalizer + power - (half1 + half2) * flambeau.log1p(ratio * value)
