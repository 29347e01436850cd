"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of dim x dim correlation matrices with a density in proportion to
    det^(concentration - 1): uniform for 1, close to the identity for large concentrations.

    Samples are made row by row ("onion" method of Lewandowski, Kurowicka and Joe, 2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch_shape = self.concentration.size()
        marginal = self.concentration + 0.5 * (self.dim - 2)
        offset = flambeau.arange(
            self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        offset = flambeau.cat([offset.new_zeros((1,)), offset])
        first, second = offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(first, second)
        super().__init__(batch_shape, flambeau.Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        return self._finish(new, batch_shape)

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        # Row i has a squared length below its diagonal from a beta distribution, and a direction
        # from the sphere.
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normal = flambeau.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        # The first row has no direction.
        direction[..., 0, :].fill_(0.0)
        w = flambeau.sqrt(y) * direction
        eps = flambeau.finfo(w.dtype).tiny
        diagonal = flambeau.clamp(1 - flambeau.sum(w**2, dim=-1), min=eps).sqrt()
        return w + flambeau.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = flambeau.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = flambeau.sum(order * diagonal.log(), dim=-1)
        # The normalization of a product of beta densities.
        size = self.dim - 1
        alpha = self.concentration + 0.5 * size
        denominator = flambeau.lgamma(alpha) * size
        numerator = flambeau.mvlgamma(alpha - 0.5, size)
        pi_constant = 0.5 * size * math.log(math.pi)
        return unnormalized - (pi_constant + numerator - denominator)
