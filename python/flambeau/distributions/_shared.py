"""Parts that several distributions are made of: a probability given as such or by its log-odds, a
triangular factor of a covariance, and parameters that a relaxed distribution takes from its base.
"""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and the value of the one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


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
