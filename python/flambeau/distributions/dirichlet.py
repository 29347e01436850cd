"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors of probabilities, spread as `concentration` along the last dimension says."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Dirichlet, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new.concentration = self.concentration.expand(batch_shape + self.event_shape)
        return self._finish(new, batch_shape)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return flambeau._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (
            flambeau.xlogy(a - 1.0, value).sum(-1)
            + flambeau.lgamma(a.sum(-1))
            - flambeau.lgamma(a).sum(-1)
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        less_one = (self.concentration - 1).clamp(min=0.0)
        mode = less_one / less_one.sum(-1, True)
        # Where all concentrations are below one, the density has no bound at any corner.
        corner = (self.concentration < 1).all(dim=-1)
        one_hot = flambeau.nn.functional.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        return flambeau.where(corner.unsqueeze(-1), one_hot, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        size, a = self.concentration.size(-1), self.concentration
        total = a.sum(-1)
        return (
            flambeau.lgamma(a).sum(-1)
            - flambeau.lgamma(total)
            - (size - total) * flambeau.digamma(total)
            - ((a - 1.0) * flambeau.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - flambeau.lgamma(x.sum(-1))
