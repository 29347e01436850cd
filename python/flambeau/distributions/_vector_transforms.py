"""Transforms of vectors and matrices; `transforms` has them under one name with the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._transform import Transform
from flambeau.distributions.utils import (
    _sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)


class SoftmaxTransform(Transform):
    """Probabilities in proportion to exp(x); all x that differ by a constant have the same."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        _check_vector(shape, 1)
        return shape

    inverse_shape = forward_shape


def _check_vector(shape: Any, least: int) -> None:
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


class StickBreakingTransform(Transform):
    """K numbers to K + 1 probabilities: each breaks off its share of what is left of a stick."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = Transform.__hash__

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """log of the number of parts still to come: zero breaks off an even share."""
        size = x.shape[-1]
        return flambeau.arange(size, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = flambeau.sigmoid(x - self._offset(x))
        left = (1 - share).cumprod(-1)
        pad = flambeau.nn.functional.pad
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = 1 - parts.cumsum(-1)
        left = flambeau.clamp(left, min=flambeau.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._offset(parts)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - self._offset(x)
        logs = flambeau.nn.functional.logsigmoid(shifted)
        return (-shifted + logs + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _check_vector(shape, 1)
        return flambeau.Size(tuple(shape[:-1]) + (shape[-1] + 1,))

    def inverse_shape(self, shape: Any) -> Any:
        _check_vector(shape, 1)
        return flambeau.Size(tuple(shape[:-1]) + (shape[-1] - 1,))


class LowerCholeskyTransform(Transform):
    """The lower triangle of a matrix, with the exponential of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """L L^T, with the L that LowerCholeskyTransform makes of a matrix."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(flambeau.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers to the Cholesky factor of a D x D matrix of correlations.

    tanh makes them partial correlations z, and row i is z times what the squares before it leave
    of a unit length.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = flambeau.tanh(x)
        eps = flambeau.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        size = partial.shape[-1]
        partial = partial + flambeau.eye(size, dtype=partial.dtype, device=partial.device)
        return partial * flambeau.nn.functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        squares_left = 1 - flambeau.cumsum(y * y, dim=-1)
        shifted = flambeau.nn.functional.pad(squares_left[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        # atanh
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        # What tanh contributes, and what scaling by the lengths left does.
        lengths = 1 - (y * y).cumsum(dim=-1)
        if y.shape[-1] > 2:
            scaling = 0.5 * tril_matrix_to_vec(lengths, diag=-2).log().sum(-1)
        else:
            scaling = y.new_zeros(y.shape[:-2])
        softplus = flambeau.nn.functional.softplus
        return scaling - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Any) -> Any:
        _check_vector(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return flambeau.Size(tuple(shape[:-1]) + (size, size))

    def inverse_shape(self, shape: Any) -> Any:
        _check_vector(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return flambeau.Size(tuple(shape[:-2]) + (size * (size - 1) // 2,))


class CatTransform(Transform):
    """Transforms of consecutive parts along a dimension, of the given lengths."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("CatTransform expects a sequence of transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError("CatTransform expects as many lengths as transforms")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor) -> Any:
        if value.size(self.dim) != self.length:
            raise AssertionError(
                f"expected {self.length} elements along dim {self.dim}, got {value.size(self.dim)}"
            )
        return value.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        done = [t(part) for t, part in zip(self.transforms, self._parts(x))]
        return flambeau.cat(done, dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        done = [t.inv(part) for t, part in zip(self.transforms, self._parts(y))]
        return flambeau.cat(done, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, part_x, part_y in zip(self.transforms, self._parts(x), self._parts(y)):
            term = t.log_abs_det_jacobian(part_x, part_y)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        if dim < 0:
            return flambeau.cat(terms, dim=dim)
        return sum(terms[1:], terms[0])

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("StackTransform expects a sequence of transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value: Tensor) -> list[Tensor]:
        if value.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"expected {len(self.transforms)} slices along dim {self.dim}, got "
                f"{value.size(self.dim)}"
            )
        return [value.select(self.dim, index) for index in range(len(self.transforms))]

    def _call(self, x: Tensor) -> Tensor:
        done = [t(part) for t, part in zip(self.transforms, self._slices(x))]
        return flambeau.stack(done, dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        done = [t.inv(part) for t, part in zip(self.transforms, self._slices(y))]
        return flambeau.stack(done, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(x), self._slices(y))
        return flambeau.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], dim=self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
