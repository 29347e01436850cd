"""Pooling functions that need more than a call of their op."""

from __future__ import annotations

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]


def _list_with_default(out_size: Any, defaults: Any) -> Any:
    """An output size with the input's own size where None was given."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    own = defaults[-len(out_size) :]
    return [given if given is not None else size for given, size in zip(out_size, own, strict=True)]


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window; with ``return_indices``, where it is as well."""
    stride = kernel_size if stride is None else stride
    if return_indices:
        return _C.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window; with ``return_indices``, where it is as well."""
    stride = kernel_size if stride is None else stride
    if return_indices:
        return _C.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window; with ``return_indices``, where it is as well."""
    stride = kernel_size if stride is None else stride
    if return_indices:
        return _C.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Any:
    """max_pool1d and the indices of the maxima."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Any:
    """max_pool2d and the indices of the maxima."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Any:
    """max_pool3d and the indices of the maxima."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows chosen so that the output has the given size."""
    return _C.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows chosen so that the output has the given size."""
    return _C.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of windows chosen so that the output has the given size."""
    pooled = _C.adaptive_max_pool1d(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of windows chosen so that the output has the given size."""
    pooled = _C.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))
    return pooled if return_indices else pooled[0]


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of windows chosen so that the output has the given size."""
    pooled = _C.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))
    return pooled if return_indices else pooled[0]


def _lp_pool(pool: Any, input: Tensor, norm_type: float, windows: int, *pool_args: Any) -> Tensor:
    """The p-norm of each window, from an average pool of p-th powers."""
    mean = pool(input.pow(norm_type), *pool_args)
    # The sign keeps windows whose sum is negative (odd powers) at zero.
    return (flambeau.sign(mean) * mean.abs().relu()).mul(windows).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(_C.avg_pool1d, input, norm_type, kernel_size, kernel_size, stride, 0, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    height, width = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
    return _lp_pool(
        _C.avg_pool2d, input, norm_type, height * width, kernel_size, stride, 0, ceil_mode
    )


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    depth, height, width = (kernel_size,) * 3 if isinstance(kernel_size, int) else kernel_size
    return _lp_pool(
        _C.avg_pool3d, input, norm_type, depth * height * width, kernel_size, stride, 0, ceil_mode
    )
