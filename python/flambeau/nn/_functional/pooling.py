"""Pooling functions that need more than a call of their op."""

from __future__ import annotations

import math
from collections.abc import Iterable

import flambeau
from flambeau import _C
from flambeau.nn._functional.precision import single

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _list_with_default(out_size: Any, defaults: Any) -> Any:
    """An output size with the input's own size where None was given."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    own = defaults[len(defaults) - len(out_size) :]
    return [given if given is not None else size for given, size in zip(out_size, own, strict=True)]


def _named(function: Any, name: str) -> Any:
    """A function made for one of several ranks, under its own name."""
    function.__name__ = function.__qualname__ = name
    return function


def _make_max_pool(rank: int) -> tuple[Any, Any]:
    """max_pool and max_pool_with_indices over ``rank`` dimensions."""
    name = f"max_pool{rank}d"
    plain, indexed = getattr(_C, name), getattr(_C, f"{name}_with_indices")

    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The maximum of each window; with ``return_indices``, where it is as well."""
        pool = indexed if return_indices else plain
        stride = kernel_size if stride is None else stride
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    def max_pool_with_indices(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The maximum of each window and its place."""
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return _named(max_pool, name), _named(max_pool_with_indices, f"{name}_with_indices")


max_pool1d, max_pool1d_with_indices = _make_max_pool(1)
max_pool2d, max_pool2d_with_indices = _make_max_pool(2)
max_pool3d, max_pool3d_with_indices = _make_max_pool(3)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows chosen so that the output has the given size."""
    return _C.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows chosen so that the output has the given size."""
    return _C.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def _make_adaptive_max_pool(rank: int) -> tuple[Any, Any]:
    """adaptive_max_pool and adaptive_max_pool_with_indices over ``rank`` dimensions."""
    name = f"adaptive_max_pool{rank}d"
    op = getattr(_C, name)

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> Any:
        """The maxima of windows chosen so that the output has the given size, and their indices."""
        if rank > 1:
            output_size = _list_with_default(output_size, input.size())
        return op(input, output_size)

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The maxima of windows chosen so that the output has the given size."""
        pooled = adaptive_max_pool_with_indices(input, output_size)
        return pooled if return_indices else pooled[0]

    return (
        _named(adaptive_max_pool, name),
        _named(adaptive_max_pool_with_indices, f"{name}_with_indices"),
    )


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _make_adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _make_adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _make_adaptive_max_pool(3)


def _lp_pool(
    rank: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    """The p-norm of each window, from an average pool of p-th powers, or from a maximum."""
    if norm_type == 0:
        raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
    if math.isinf(norm_type):
        sign = math.copysign(1.0, norm_type)  # the least magnitude is the largest negated one
        max_pool = getattr(_C, f"max_pool{rank}d")
        return max_pool(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
    window = kernel_size**rank if isinstance(kernel_size, int) else math.prod(kernel_size)
    avg_pool = getattr(_C, f"avg_pool{rank}d")
    mean = avg_pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    # The sign keeps windows whose sum is negative (odd powers) at zero.
    return (flambeau.sign(mean) * mean.abs().relu()).mul(window).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _check_lengths(name: str, rank: int, **sizes: tuple[Any, ...]) -> None:
    for what, values in sizes.items():
        if len(values) != rank:
            count = "three " if rank == 3 else ""
            raise RuntimeError(
                f"{name}: {what} must either be a single Int or tuple of {count}Ints, but got "
                f"{values}"
            )


def _make_fractional_max_pool(rank: int) -> tuple[Any, Any]:
    """fractional_max_pool and fractional_max_pool_with_indices over ``rank`` dimensions."""
    name = f"fractional_max_pool{rank}d"

    def spread(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * rank

    def fractional_max_pool_with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Maxima of windows at random distances, and their indices."""
        if output_size is None:
            if output_ratio is None:
                raise ValueError(
                    f"{name} requires specifying either an output_size or an output_ratio"
                )
            ratios = spread(output_ratio)
            if len(ratios) != rank:
                raise ValueError(
                    f"{name} requires output_ratio to either be a single Int or tuple of Ints, "
                    f"{rank} of them, but got {ratios}"
                )
            output_size = [
                int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios, strict=True)
            ]
        kernel_size, output_size = spread(kernel_size), spread(output_size)
        _check_lengths(name, rank, kernel_size=kernel_size, output_size=output_size)
        if _random_samples is None:
            batch = 1 if input.dim() == rank + 1 else input.size(0)
            _random_samples = flambeau.rand(
                (batch, input.size(-rank - 1), rank), dtype=input.dtype, device=input.device
            )
        return _C._fractional_max_pool(input, kernel_size, output_size, _random_samples)

    def fractional_max_pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Maxima of windows at random distances."""
        pooled = fractional_max_pool_with_indices(
            input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
        )
        return pooled if return_indices else pooled[0]

    return (
        _named(fractional_max_pool, name),
        _named(fractional_max_pool_with_indices, f"{name}_with_indices"),
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = _make_fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _make_fractional_max_pool(3)


def _unpooled_size(
    input: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> list[int]:
    """The spatial size before pooling: that given if it can be, else the smallest."""
    rank = len(kernel_size)
    usual = [
        (size - 1) * stride[d] + kernel_size[d] - 2 * padding[d]
        for d, size in enumerate(input.shape[-rank:])
    ]
    if output_size is None:
        if min(usual) < 0:
            raise RuntimeError(
                f"max_unpool{rank}d: input of shape {list(input.shape)} with kernel_size "
                f"{list(kernel_size)}, stride {list(stride)} and padding {list(padding)} has no "
                f"output: its size would be {usual}"
            )
        return usual
    if len(output_size) == rank + 2:
        output_size = output_size[2:]
    if len(output_size) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it "
            f"has a length of '{len(output_size)}'"
        )
    for d in range(rank):
        low, high = usual[d] - stride[d], usual[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
            )
    return list(output_size)


def _is_channels_last(x: Tensor) -> bool:
    contiguous = x.is_contiguous()
    return not contiguous and x.is_contiguous(memory_format=flambeau.channels_last)


def _make_max_unpool(rank: int) -> Any:

    def spread(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * rank

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        """Maxima put back to their positions among zeros: the inverse of max pooling."""
        (input,) = single(input, devices=("cpu",))
        kernel_size = spread(kernel_size)
        stride = kernel_size if stride is None else spread(stride)
        for what, values in (("kernel_size", kernel_size), ("stride", stride)):
            if len(values) != rank:
                raise RuntimeError(
                    f"max_unpool{rank}d: there should be exactly {rank} elements in {what}, but "
                    f"got {len(values)} elements"
                )
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Input to max_unpooling{max(rank, 2)}d should be a {rank + 1}d or {rank + 2}d "
                f"Tensor, but got a tensor with {input.dim()} dimensions."
            )
        if rank == 3 and min(stride) <= 0:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {stride}")
        size = _unpooled_size(input, kernel_size, stride, spread(padding), output_size)
        if indices.dtype != flambeau.int64:
            raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
        if indices.shape != input.shape:
            raise RuntimeError(
                "Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            )
        outer = input.shape[: input.dim() - rank]
        planes = flambeau.zeros((*outer, math.prod(size)), dtype=input.dtype, device=input.device)
        start = input.dim() - rank
        placed = planes.scatter(-1, indices.flatten(start), input.flatten(start))
        result = placed.view((*outer, *size))
        if rank == 2 and input.dim() == 4 and _is_channels_last(input):
            return result.contiguous(memory_format=flambeau.channels_last)
        return result

    return _named(max_unpool, f"max_unpool{rank}d")


max_unpool1d = _make_max_unpool(1)
max_unpool2d = _make_max_unpool(2)
max_unpool3d = _make_max_unpool(3)
