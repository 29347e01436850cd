"""Ready-made parametrizations: weight normalization, spectral normalization, orthogonality."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A tensor as magnitudes times directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / flambeau.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return flambeau.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """w = g v / |v|, with one magnitude for each index of ``dim`` (Salimans & Kingma, 2016)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_older_names(
        state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool,
        missing_keys: Any, unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        # Files of the older weight_norm have weight_g and weight_v.
        old_g, old_v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if old_g in state_dict and old_v in state_dict:
            new = f"{prefix}parametrizations.{name}."
            state_dict[new + "original0"] = state_dict.pop(old_g)
            state_dict[new + "original1"] = state_dict.pop(old_v)

    module._register_load_state_dict_pre_hook(read_older_names)
    return module


class _SpectralNorm(Module):
    """A matrix divided by its largest singular value, which power iteration follows."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if dim >= weight.ndim or dim < -weight.ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            # Start near the singular vectors, so that the first value is about right.
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            others = (d for d in range(weight.dim()) if d != self.dim)
            weight = weight.permute(self.dim, *others)
        return weight.flatten(1)

    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        with flambeau.no_grad():
            for _ in range(n_power_iterations):
                u, v = self._u, self._v
                u.copy_(F.normalize(flambeau.mv(weight_mat, v), dim=0, eps=self.eps))
                v.copy_(F.normalize(flambeau.mv(weight_mat.H, u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the next forward pass writes to the buffers.
        u, v = self._u.clone(), self._v.clone()
        return weight / flambeau.vdot(u, flambeau.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """w / sigma(w), with sigma the largest singular value (Miyato et al., 2018)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        from flambeau.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

        transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    parametrize.register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )
    return module


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = flambeau.eye(k, dtype=q.dtype, device=q.device)
    eps = 10.0 * n * flambeau.finfo(q.dtype).eps
    return flambeau.allclose(q.mH @ q, identity, atol=eps)


def _make_orthogonal(a: Tensor) -> Tensor:
    """An orthogonal matrix near ``a``, with the same span: its Q, with R's diagonal positive."""
    x, tau = flambeau.geqrf(a)
    q = _C.linalg_householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal columns or rows, as a map of one without a constraint."""

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _skew(self, x: Tensor, k: int) -> Tensor:
        """A skew-Hermitian matrix from the entries of ``x`` below the diagonal."""
        n = x.size(-2)
        lower = x.tril()
        if n != k:
            padding = x.new_zeros((n, n - k)).expand(*x.shape[:-2], -1, -1)
            lower = flambeau.cat([lower, padding], dim=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            return flambeau.matrix_exp(skew)
        # Cayley: (I + A / 2) (I - A / 2)^-1
        identity = flambeau.eye(n, dtype=skew.dtype, device=skew.device)
        return _C.linalg_solve(
            flambeau.add(identity, skew, alpha=-0.5), flambeau.add(identity, skew, alpha=0.5)
        )

    def forward(self, x: Tensor) -> Tensor:
        n, k = x.size(-2), x.size(-1)
        transposed = n < k
        if transposed:
            x, n, k = x.mT, k, n
        if self.orthogonal_map in (_OrthMaps.matrix_exp, _OrthMaps.cayley):
            q = self._skew(x, k)
            if n != k:
                q = q[..., :k]
        else:
            a = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
            q = _C.linalg_householder_product(a, tau)
            # The diagonal keeps the signs that Householder reflections cannot give.
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if transposed else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        q_init = q
        n, k = q.size(-2), q.size(-1)
        transposed = n < k
        if transposed:
            q, n, k = q.mT, k, n
        if not hasattr(self, "base"):
            if self.orthogonal_map in (_OrthMaps.matrix_exp, _OrthMaps.cayley):
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            a, tau = flambeau.geqrf(q)
            signs = a.diagonal(dim1=-2, dim2=-1).sgn()
            # LAPACK's tau is exactly zero where it reflects nothing.
            a = a.clone()
            a.diagonal(dim1=-2, dim2=-1).copy_(flambeau.where(tau == 0.0, -signs, signs))
            return a.mT if transposed else a
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            # Completed to a square matrix, and made orthogonal if it was not.
            completion = flambeau.randn(
                *(q.size()[:-2] + (n, n - k)), dtype=q.dtype, device=q.device
            )
            q = _make_orthogonal(flambeau.cat([q, completion], dim=-1))
        self.base = q
        # The base is the value at a matrix whose reflections and skew part are the identity.
        negative = flambeau.zeros_like(q_init)
        negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return negative


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keeps a matrix orthogonal, by the matrix exponential, the Cayley map or reflections."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    map_module = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, map_module, unsafe=True)
    return module
