"""The Wishart distribution, of sums of squares of normal vectors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._shared import TriangularFactor, one_spread
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.multivariate_normal import _precision_to_scale_tril
from flambeau.distributions.utils import is_number

__all__ = ["Wishart"]


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = flambeau.arange(p, dtype=x.dtype, device=x.device)
    return flambeau.digamma(x.unsqueeze(-1) - steps.div(2)).sum(-1)


class Wishart(TriangularFactor, ExponentialFamily):
    """Random positive definite matrices with `df` degrees of freedom.

    One of covariance_matrix, precision_matrix (its inverse) and scale_tril (its Cholesky factor)
    gives the scale.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_spread(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        self.df = (
            flambeau.tensor(df, dtype=matrix.dtype, device=matrix.device) if is_number(df) else df
        )
        batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], self.df.shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        self.df = self.df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = flambeau.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._make_chi2()

    def _make_chi2(self) -> None:
        """The distributions of the squared diagonal of a sample's factor."""
        from flambeau.distributions.chi2 import Chi2

        size = self._event_shape[-1]
        steps = flambeau.arange(size, dtype=self.df.dtype, device=self.df.device)
        steps = steps.expand(self._batch_shape + (-1,))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = flambeau.Size(batch_shape)
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape))
        new.df = self.df.expand(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        self._finish(new, batch_shape)
        new._make_chi2()
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, flambeau.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view(self._batch_shape + (1, 1)) * (self.covariance_matrix.pow(2) + outer)

    def _bartlett(self, sample_shape: Any) -> Tensor:
        """Samples by Bartlett's decomposition: a triangle of normal variables with roots of
        chi-squared ones on its diagonal, times the scale, squared.
        """
        size = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = flambeau.diag_embed(roots.clamp(min=flambeau.finfo(roots.dtype).eps))
        below = flambeau.tril_indices(size, size, offset=-1)
        shape = flambeau.Size((*sample_shape, *self._batch_shape, size * (size - 1) // 2))
        noise[..., below[0], below[1]] = flambeau.randn(
            shape, dtype=noise.dtype, device=noise.device
        )
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Any = flambeau.Size(), max_try_correction: Any = None
    ) -> Tensor:
        """Samples that follow the parameters; singular ones are drawn again, but not more than
        `max_try_correction` times.
        """
        sample_shape = flambeau.Size(sample_shape)
        tries = max_try_correction
        if tries is None:
            tries = 3 if self._event_shape[-1] == 2 else 10
        sample = self._bartlett(sample_shape)
        if tries > 0:
            # PyTorch draws what is not singular a second time, so its numbers are those.
            sample = self._bartlett(sample_shape)
        for _ in range(tries - 1):
            singular = ~self.support.check(sample)
            if singular.dim() > len(sample_shape):
                singular = singular.flatten(len(sample_shape)).any(-1)
            if not singular.any():
                break
            fresh = self._bartlett(sample_shape)
            chosen = singular.view(singular.shape + (1,) * (sample.dim() - singular.dim()))
            sample = flambeau.where(chosen, fresh, sample)
        return sample

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        solved = flambeau.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (
            -nu * (p * math.log(2) / 2 + self._half_log_det())
            - flambeau.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * flambeau.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det())
            + flambeau.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        logs = p * math.log(2) - flambeau.linalg.slogdet(-2 * x).logabsdet
        return half * logs + flambeau.mvlgamma(half, p=p)
