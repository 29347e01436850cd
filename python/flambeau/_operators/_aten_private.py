"""PyTorch's inner functions that programs call by name, as `torch._name` and in `ops.aten`, where
the core has no op of that name."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor, nn, preserve_format
from flambeau._namespace._norms import native_batch_norm
from flambeau.nn._functional.overridable import overridable

# Where only the name is an inner one.
_stack, _conj, _logcumsumexp = flambeau.stack, flambeau.conj, flambeau.logcumsumexp
_is_all_true, _is_any_true = Tensor.all, Tensor.any
_softmax, _log_softmax = _C._softmax, _C._log_softmax


def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A copy, of another dtype or on another device."""
    place, format = device or self.device, memory_format or preserve_format
    made: Tensor = self.to(place, dtype or self.dtype, non_blocking, True, memory_format=format)
    return made


def lift_fresh(self: Tensor) -> Tensor:
    """The tensor."""
    return self


def _local_scalar_dense(self: Tensor) -> Any:
    """The number in a tensor that holds one."""
    return self.item()


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any) -> Tensor:
    """The gradient of a threshold: that of the elements above it."""
    return grad_output.where(self > threshold, grad_output.new_zeros(()))


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss of log-probabilities, and the weight of the targets that count."""
    kind = ("none", "mean", "sum")[reduction]
    loss: Tensor = nn.functional.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=kind
    )
    counted = target[target != ignore_index]
    total = self.new_tensor(counted.numel()) if weight is None else weight[counted].sum()
    return loss, total


def unique_consecutive(
    self: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[Tensor, ...]:
    """The first of each run, the run of each element, and run lengths: all three in any case."""
    found: tuple[Tensor, ...] = _C._unique_consecutive(self, return_inverse, return_counts, dim)
    return found


@overridable
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether ``input.data = from_`` is possible; classes of tensors say so for theirs."""
    return input.layout == from_.layout


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
    input: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm by the running statistics."""
    return native_batch_norm(input, weight, bias, mean, var, False, momentum, eps)


def _batch_norm_with_update(
    input: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """batch_norm in training, and bytes that only another backend keeps."""
    reserve = flambeau.empty(0, dtype=flambeau.uint8, device=input.device)
    return (*native_batch_norm(input, weight, bias, mean, var, True, momentum, eps), reserve)


def _batch_norm_impl_index(
    input: Tensor, *parameters: Any, cudnn_enabled: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """batch_norm, its statistics, and which backend computed it: the first. The parameters are
    those of native_batch_norm, and behind them whether another backend may."""
    reserve = flambeau.empty(0, dtype=flambeau.uint8, device=input.device)
    return (*native_batch_norm(input, *parameters[:7]), reserve, 0)


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


def _aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """aminmax."""
    return tuple(flambeau.aminmax(input, dim=dim, keepdim=keepdim))


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
