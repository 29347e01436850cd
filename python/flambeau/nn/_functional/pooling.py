"""Pooling functions that need more than a call of their op."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau import _C

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


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _C._lp_pool1d(input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _C._lp_pool2d(input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _C._lp_pool3d(input, norm_type, kernel_size, stride, ceil_mode)


def _spread(value: Any, rank: int) -> tuple[Any, ...]:
    """A number for each dimension."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * rank


def _make_fractional_max_pool(rank: int) -> tuple[Any, Any]:
    """fractional_max_pool and fractional_max_pool_with_indices over ``rank`` dimensions."""
    name = f"fractional_max_pool{rank}d"
    op = getattr(_C, f"_{name}")

    def fractional_max_pool_with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Maxima of windows at random distances, and their indices."""
        if output_size is not None:
            output_ratio, output_size = (), _spread(output_size, rank)
        ratios = () if output_ratio is None else _spread(output_ratio, rank)
        return op(input, _spread(kernel_size, rank), output_size, ratios, _random_samples)

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


def _make_max_unpool(rank: int) -> Any:
    op = getattr(_C, f"_max_unpool{rank}d")

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        """Maxima put back to their positions among zeros: the inverse of max pooling."""
        kernel_size, padding = _spread(kernel_size, rank), _spread(padding, rank)
        stride = None if stride is None else _spread(stride, rank)
        return op(input, indices, kernel_size, stride, padding, output_size)

    return _named(max_unpool, f"max_unpool{rank}d")


max_unpool1d = _make_max_unpool(1)
max_unpool2d = _make_max_unpool(2)
max_unpool3d = _make_max_unpool(3)
