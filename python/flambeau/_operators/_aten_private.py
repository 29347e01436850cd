"""PyTorch's inner functions that programs call by name, as `torch._name` and in `ops.aten`."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor, nn
from flambeau._namespace._norms import native_batch_norm
from flambeau._operators._aten_functions import _log_softmax, _softmax

__all__ = ["_log_softmax", "_softmax"]


def _safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """softmax, which is zero where all of a row is minus infinity."""
    empty = (self == -flambeau.inf).all(dim, keepdim=True)
    made: Tensor = self.softmax(dim, dtype=dtype).masked_fill(empty, 0.0)
    return made


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm with the statistics that it took; (running_mean, running_var,) training, momentum
    and eps follow."""
    rest = rest if len(rest) == 5 else (None, None, *rest)
    return native_batch_norm(input, weight, bias, *rest)


def _native_batch_norm_legit_no_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm by the running statistics."""
    running = (running_mean, running_var, False, momentum, eps)
    return native_batch_norm(input, weight, bias, *running)


def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """batch_norm in training, and bytes that only another backend keeps."""
    running = (running_mean, running_var, True, momentum, eps)
    reserve = flambeau.empty(0, dtype=flambeau.uint8, device=input.device)
    return (*native_batch_norm(input, weight, bias, *running), reserve)


def _batch_norm_impl_index(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """batch_norm, its statistics, and which backend computed it: the first."""
    running = (running_mean, running_var, training, momentum, eps)
    reserve = flambeau.empty(0, dtype=flambeau.uint8, device=input.device)
    return (*native_batch_norm(input, weight, bias, *running), reserve, 0)


def _inside(self: Tensor, indices: Any) -> tuple[Any, ...]:
    """Indices, each within the dimension that it is for."""
    found: list[Any] = []
    for dim, index in enumerate(indices):
        size = self.shape[dim]
        found.append(slice(None) if index is None else index.clamp(0, max(size - 1, 0)))
    return tuple(found)


def _unsafe_index(self: Tensor, indices: Any) -> Tensor:
    """The elements that index tensors name, a dimension each; None takes all."""
    return self[tuple(slice(None) if index is None else index for index in indices)]


def _unsafe_masked_index(self: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """The elements at indices; those that mask leaves out may be anywhere, and are fill."""
    made: Tensor = self[_inside(self, indices)].masked_fill(~mask, fill)
    return made


def _unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Any, values: Tensor
) -> Tensor:
    """A copy to which values are added at the indices that mask holds on to."""
    kept = values.masked_fill(~mask, 0)
    made: Tensor = self.index_put(_inside(self, indices), kept, True)
    return made


def _stack(tensors: Any, dim: int = 0) -> Tensor:
    """stack."""
    return flambeau.stack(tensors, dim)


def _conj(input: Tensor) -> Tensor:
    """conj."""
    return input.conj()


def _is_all_true(self: Tensor) -> Tensor:
    """Whether no element of a mask is false."""
    return self.all()


def _is_any_true(self: Tensor) -> Tensor:
    """Whether any element of a mask is true."""
    return self.any()


def _aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """aminmax."""
    return tuple(flambeau.aminmax(input, dim=dim, keepdim=keepdim))


def _logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """logcumsumexp."""
    return flambeau.logcumsumexp(input, dim)


def _add_relu(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """relu of a sum."""
    return flambeau.add(input, other, alpha=alpha).relu()


def _reshape_from_tensor(input: Tensor, shape: Tensor) -> Tensor:
    """A view of the shape that a tensor holds."""
    return input.reshape(shape.tolist())


def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """v with the norms g along dim, and the norms that it had."""
    norms = flambeau.norm_except_dim(v, 2, dim)
    return v * (g / norms), norms


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """v with the norms g along dim."""
    return _weight_norm_interface(v, g, dim)[0]


def _index_put_impl_(
    input: Tensor, indices: Any, values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    """index_put_."""
    return input.index_put_(tuple(indices), values, accumulate)


def _unique2(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """unique, of which what is not asked for is empty."""
    values, inverse, counts = _C._unique2(input, sorted, True, True)
    nothing = inverse.new_empty(0)
    return values, inverse if return_inverse else nothing, counts if return_counts else nothing


def _unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """unique without counts."""
    return _unique2(input, sorted, return_inverse)[:2]


def _fused_rms_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """rms_norm, and the reciprocal of the root of the mean square."""
    dims = list(range(-len(normalized_shape), 0))
    small = flambeau.finfo(input.dtype).eps if eps is None else eps
    scale = (input.square().mean(dims, keepdim=True) + small).rsqrt()
    return nn.functional.rms_norm(input, normalized_shape, weight, eps), scale


def _nnpack_available() -> bool:
    """Whether one of PyTorch's backends is there: it has none here."""
    return False
