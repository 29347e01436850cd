"""Gradients of convolutions as functions of their own: what a backward written by hand calls.

A convolution is bilinear, so each gradient is again a convolution of the two other tensors and can
be differentiated like any other.
"""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

    _Sizes = int | Sequence[int]


def _each(values: _Sizes, rank: int) -> tuple[int, ...]:
    """One value for each spatial dimension."""
    return (values,) * rank if isinstance(values, int) else tuple(values)


def _input_gradient(
    transposed: Callable[..., Tensor],
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    geometry: tuple[_Sizes, _Sizes, _Sizes, int],
) -> Tensor:
    """The adjoint convolution, enlarged by what the stride left over at the end."""
    rank, groups = weight.dim() - 2, geometry[3]
    stride, padding, dilation = (_each(values, rank) for values in geometry[:3])
    left_over = []
    for d in range(rank):
        reached = (grad_output.shape[d - rank] - 1) * stride[d] - 2 * padding[d]
        reached += dilation[d] * (weight.shape[d + 2] - 1) + 1
        left_over.append(input_size[d - rank] - reached)
    return transposed(grad_output, weight, None, stride, padding, left_over, groups, dilation)


def _weight_gradient(
    convolve: Callable[..., Tensor],
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    geometry: tuple[_Sizes, _Sizes, _Sizes, int],
) -> Tensor:
    """The input convolved with the gradient: batch and channels are swapped, and so do stride
    and dilation."""
    rank, groups = len(weight_size) - 2, geometry[3]
    stride, padding, dilation = (_each(values, rank) for values in geometry[:3])
    if input.dim() == rank + 1:
        input, grad_output = input.unsqueeze(0), grad_output.unsqueeze(0)
    # (N, G * C, ...) -> (C, G * N, ...) and (N, G * O, ...) -> (G * O, N, ...)
    images = input.unflatten(1, (groups, -1)).movedim(0, 2).transpose(0, 1).flatten(1, 2)
    kernels = grad_output.transpose(0, 1)
    result = convolve(images, kernels, None, dilation, padding, stride, groups).transpose(0, 1)
    for d in range(rank):  # positions that the stride left over belong to no tap of the kernel
        result = result.narrow(d + 2, 0, weight_size[d + 2])
    return result.contiguous()


def _pair(
    name: str, convolve: Callable[..., Tensor], transposed: Callable[..., Tensor]
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The two gradients of one kind of convolution."""

    def input_gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        geometry = (stride, padding, dilation, groups)
        return _input_gradient(transposed, input_size, weight, grad_output, geometry)

    def weight_gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        geometry = (stride, padding, dilation, groups)
        return _weight_gradient(convolve, input, weight_size, grad_output, geometry)

    functions: list[Any] = [input_gradient, weight_gradient]
    for function, operand in zip(functions, ("input", "weight"), strict=True):
        function.__name__ = function.__qualname__ = f"{name}_{operand}"
        function.__doc__ = f"The gradient of {name} with respect to its {operand}."
    return input_gradient, weight_gradient


conv1d_input, conv1d_weight = _pair("conv1d", _C.conv1d, _C.conv_transpose1d)
conv2d_input, conv2d_weight = _pair("conv2d", _C.conv2d, _C.conv_transpose2d)
conv3d_input, conv3d_weight = _pair("conv3d", _C.conv3d, _C.conv_transpose3d)
