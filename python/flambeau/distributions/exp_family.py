"""Exponential families: densities exp(<t(x), theta> - F(theta) + k(x))."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution whose entropy follows from its log normalizer F by differentiation."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """theta."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """F."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The expected value of k."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(theta) - <theta, F'(theta)> less the mean of k."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        gradients = flambeau.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = -self._mean_carrier_measure + normalizer
        for param, gradient in zip(params, gradients):
            inner = param * gradient
            result = result - inner.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
