"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.multivariate_normal import _batch_mahalanobis
from flambeau.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _capacitance_tril(factor: Tensor, diagonal: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W."""
    size = factor.size(-1)
    scaled = factor.mT / diagonal.unsqueeze(-2)
    identity = flambeau.eye(size, dtype=factor.dtype, device=factor.device)
    return flambeau.linalg.cholesky(scaled @ factor + identity)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance W W^T + D: W is cov_factor, D has cov_diag on its diagonal.

    Works with matrices of the rank of W only, by the Woodbury identity.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = flambeau.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        batch_shape = flambeau.Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new.cov_diag = self.cov_diag.expand(batch_shape + self.event_shape)
        new.cov_factor = self.cov_factor.expand(batch_shape + self.cov_factor.shape[-2:])
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return self._finish(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        # The factor of D^1/2 (I + U U^T) D^1/2 with U = D^-1/2 W: the inner matrix is well scaled.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        size = self._event_shape[0]
        inner = scaled @ scaled.mT + flambeau.eye(size, dtype=root.dtype, device=root.device)
        return self._whole(root * flambeau.linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + flambeau.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        half = flambeau.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        diagonal = flambeau.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._whole(diagonal - half.mT @ half)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        low_shape = shape[:-1] + self.cov_factor.shape[-1:]
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        low, full = _standard_normal(low_shape, **like), _standard_normal(shape, **like)
        factor, diagonal = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        return self.loc + (factor @ low.unsqueeze(-1)).squeeze(-1) + diagonal.sqrt() * full

    def _log_det(self) -> Tensor:
        tril = self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 2 * tril + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        offset = value - self.loc
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        projected = (scaled @ offset.unsqueeze(-1)).squeeze(-1)
        distance = (offset.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - _batch_mahalanobis(
            self._capacitance_tril, projected
        )
        size = self._event_shape[0]
        return -0.5 * (size * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        entropy = 0.5 * (size * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
