"""Parts that several distributions are made of: a probability given as such or by its log-odds, a
triangular factor of a covariance, parameters that a relaxed distribution takes from its base, and
what is left of a distribution around zero.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and the value of the one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


def one_spread(**spreads: Tensor | None) -> tuple[str, Tensor]:
    """The name and the value of the one matrix that is given."""
    given = [(name, matrix) for name, matrix in spreads.items() if matrix is not None]
    if len(given) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    ((name, matrix),) = given
    if matrix.dim() < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions"
        )
    return name, matrix


class Odds:
    """A probability and its log-odds; the one that was not given is computed when asked for."""

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=True)


class OddsParameter(Odds):
    """The same, with the one that was given as `_param`."""

    _param: Tensor

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Any:
        return self._param.size()


class TriangularFactor:
    """A covariance, its inverse and its factor, from `_unbroadcasted_scale_tril`; a distribution
    says in `_whole` which shape they are expanded to.
    """

    _unbroadcasted_scale_tril: Tensor

    def _whole(self, matrix: Tensor) -> Tensor:
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        identity = flambeau.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        inverse = flambeau.linalg.solve_triangular(factor, identity, upper=False)
        return self._whole(inverse.mT @ inverse)


class Relaxed:
    """The parameters of a relaxed distribution, which are its base's."""

    base_dist: Any

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class Half:
    """The upper half of a distribution around zero, which is `base_dist`."""

    base_dist: Any
    _validate_args: bool
    _validate_sample: Any

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return flambeau.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = flambeau.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        doubled = self.base_dist.log_prob(value) + math.log(2)
        return flambeau.where(value >= 0, doubled, -flambeau.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
