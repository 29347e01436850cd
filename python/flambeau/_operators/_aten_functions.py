"""Operators of `ops.aten` that this library has no function of its own for: PyTorch's steps inside
of functions that programs call, with their arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C, Tensor, nn, preserve_format
from flambeau.nn._functional.overridable import overridable


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


def _softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """softmax, of half precision in single precision where that is asked for."""
    made: Tensor = (self.float() if half_to_float else self).softmax(dim)
    return made


def _log_softmax(self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """log_softmax, of half precision in single precision where that is asked for."""
    made: Tensor = (self.float() if half_to_float else self).log_softmax(dim)
    return made


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The gradient of softmax at its output, in the dtype that its input had."""
    slope = grad_output * output
    return (slope - output * slope.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The gradient of log_softmax at its output, in the dtype that its input had."""
    slope = grad_output - output.exp() * grad_output.sum(dim, keepdim=True)
    return slope.to(input_dtype)


def _unsafe_view(self: Tensor, size: Any) -> Tensor:
    """A view of a tensor that nobody else holds."""
    made: Tensor = self.view(size)
    return made


def slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The elements from start to end along one dimension."""
    from builtins import slice as part

    keys = [part(None)] * (dim % self.dim()) + [part(start, end, step)]
    return self[tuple(keys)]


def index(self: Tensor, indices: Any) -> Tensor:
    """The elements at the indices that tensors name, a dimension each; None takes all."""
    from builtins import slice as part

    return self[tuple(part(None) if one is None else one for one in indices)]


def _local_scalar_dense(self: Tensor) -> Any:
    """The number in a tensor that holds one."""
    return self.item()


def lift_fresh(self: Tensor) -> Tensor:
    """The tensor."""
    return self


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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(_to_copy, _softmax, _log_softmax, _unsafe_view, slice, index, _local_scalar_dense),
        *(lift_fresh, threshold_backward, nll_loss_forward, unique_consecutive),
        *(_softmax_backward_data, _log_softmax_backward_data),
    )
}


@overridable
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether ``input.data = from_`` is possible; classes of tensors say so for theirs."""
    return input.layout == from_.layout
