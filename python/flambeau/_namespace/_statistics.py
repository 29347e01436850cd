"""Functions of the top-level namespace that are compositions of ops and whose arguments, or number
of results, take more forms than an op's signature can say."""

from __future__ import annotations

import math
from collections import namedtuple

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "cdist",
    "cumulative_trapezoid",
    "gradient",
    "histogramdd",
    "segment_reduce",
    "trapezoid",
    "trapz",
    "unique",
    "unique_consecutive",
]


# --- What occurs ---------------------------------------------------------------------------------


def _asked(results: Any, return_inverse: bool, return_counts: bool) -> Any:
    output, inverse, counts = results
    if not return_inverse and not return_counts:
        return output
    parts = [output]
    if return_inverse:
        parts.append(inverse)
    if return_counts:
        parts.append(counts)
    return tuple(parts)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or slices along ``dim``, in ascending order.

    With ``return_inverse``, also the place of each element among them; with ``return_counts``, also
    how often each occurs.
    """
    if dim is None:
        found = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _C._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The first of each run of equal elements, or of equal slices along ``dim``."""
    found = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked(found, return_inverse, return_counts)


# --- Distances -----------------------------------------------------------------------------------

_COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": 0,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The p-distance of each point, a row, of ``x1`` to each of ``x2``, batch by batch."""
    mode = _COMPUTE_MODES.get(compute_mode)
    if mode is None:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _C._cdist(x1, x2, p, mode)


# --- Histograms ----------------------------------------------------------------------------------


class _HistogramDD(namedtuple("histogramdd", ["hist", "bin_edges"])):
    """Prints like the results of ops with several outputs."""

    def __repr__(self) -> str:
        return (
            f"torch.return_types.histogramdd(\nhist={self.hist!r},\nbin_edges={self.bin_edges!r})"
        )


def _edges(input: Tensor, bins: Any, range: Any) -> list[Tensor]:
    """The edges along each dimension of the points."""
    dims = input.size(-1)
    if isinstance(bins, int):
        bins = [bins] * dims
    if len(bins) != dims:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have "
            f"{2 * dims} elements, but got {len(range)}"
        )
    edges = []
    for place, count in enumerate(bins):
        column = input[..., place]
        if isinstance(count, _C.Tensor):
            edges.append(count)
        elif range is None:
            edges.append(_C.histogram(column, count)[1])
        else:
            part = list(range[2 * place : 2 * place + 2])
            edges.append(_C.histogram(column, count, range=part)[1])
    return edges


def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """How many points, the rows of ``input``, lie in each cell of a grid, and the edges of it."""
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            f"input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got input {input.dtype} and weight {weight.dtype}"
        )
    edges = _edges(input, bins, range)
    if not input.is_floating_point():
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input.dtype}'")
    points = input.detach().reshape(math.prod(input.shape[:-1]), input.size(-1))
    sizes = [edge.numel() - 1 for edge in edges]
    cell = _C.zeros(points.size(0), dtype=_C.int64, device=input.device)
    # As in PyTorch, points of no coordinates lie in no cell.
    inside = _C.full((points.size(0),), bool(edges), dtype=_C.bool, device=input.device)
    for place, edge in enumerate(edges):
        values = points[:, place].contiguous()
        # The last cell holds its upper edge too.
        index = _C.bucketize(values, edge, right=True) - 1
        index = _C.where(values == edge[-1], sizes[place] - 1, index)
        inside &= (values >= edge[0]) & (values <= edge[-1])
        cell = cell * sizes[place] + index
    amounts = points.new_ones(points.size(0)) if weight is None else weight.detach().reshape(-1)
    cells = 1
    for size in sizes:
        cells *= size
    counts = _C.bincount(cell[inside], amounts[inside], cells).to(input.dtype)
    hist = counts.reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for place, edge in enumerate(edges):
            width = edge[1:] - edge[:-1]
            hist = hist / width.reshape([-1 if d == place else 1 for d, _ in enumerate(sizes)])
    return _HistogramDD(hist, tuple(edges))


# --- Segments ------------------------------------------------------------------------------------

# What a segment without elements gives, where that is not 0.
_SEGMENT_STARTS = {"prod": 1.0, "max": -math.inf, "min": math.inf}


def _segment_lengths(data: Tensor, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Tensor:
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if lengths is None:
        lengths = offsets.diff(dim=-1)
    if lengths.dim() != axis + 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths, got axis {axis} "
            f"for lengths of {lengths.dim()} dimensions."
        )
    if not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((lengths.sum(-1) != data.size(axis)).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return lengths.to(_C.int64)


def _segment_reduce_by(
    reduce: str, data: Tensor, axis: int, segment: Tensor, start: Tensor
) -> Tensor:
    """What ``scatter_reduce`` gives, with the gradients of segments that hold NaN."""
    if reduce in ("amax", "amin"):
        from flambeau._namespace._segment_extremes import SegmentExtremes

        return SegmentExtremes.apply(data, start, segment, axis, reduce)
    unknown = data.detach().isnan()
    if reduce == "prod" and data.requires_grad and bool(unknown.any()):
        # The derivative in an element that is NaN is the product of the others.
        known = _C.scatter_reduce(start, axis, segment, data.masked_fill(unknown, 1), reduce)
        poison = _C.zeros_like(start).scatter_add(axis, segment, data.masked_fill(~unknown, 0))
        return known * _C.where(poison == 0, 1, poison)
    return _C.scatter_reduce(start, axis, segment, data, reduce)


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """The sum, mean, product or extreme of consecutive segments along ``axis``.

    ``lengths`` says how long the segments are, or ``offsets`` where they begin and end.
    """
    word = reduce.removeprefix("a")  # amax is max
    if word not in _SEGMENT_STARTS and word not in ("sum", "mean"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.is_floating_point():
        name = data.type().split(".")[-1].removesuffix("Tensor")
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{name}'")
    axis = axis % max(data.dim(), 1)
    sizes = _segment_lengths(data, lengths, offsets, axis, unsafe)
    positions = _C.arange(data.size(axis), device=sizes.device)
    positions = positions.expand(*sizes.shape[:-1], -1).contiguous()
    segment = _C.searchsorted(sizes.cumsum(-1), positions, right=True)
    trailing = [1] * (data.dim() - axis - 1)
    segment = segment.reshape(*segment.shape, *trailing).expand(data.shape)
    # What lies behind the last segment, as only unsafe lengths leave it, goes into one more.
    count = sizes.size(-1)
    shape = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    kind = {"max": "amax", "min": "amin", "mean": "sum"}.get(word, word)
    empty = _SEGMENT_STARTS.get(word, 0.0)
    start = data.new_full(shape, empty if initial is None else initial)
    result = _segment_reduce_by(kind, data, axis, segment, start).narrow(axis, 0, count)
    if reduce != "mean":
        return result.contiguous()
    counts = sizes.reshape(*sizes.shape, *trailing)
    empty = float("nan") if initial is None else initial
    return _C.where(counts == 0, empty, result / counts.clamp(min=1))


# --- Integrals and derivatives -------------------------------------------------------------------


def _check_points(op: str, y: Any, x: Any, dx: Any) -> None:
    """Raises unless points are a tensor, or steps a number, and not both are given."""
    if not isinstance(y, _C.Tensor):
        raise TypeError(f"{op}(): argument 'y' (position 1) must be Tensor, not {type(y).__name__}")
    both = x is not None and dx is not None
    fits = x is None or isinstance(x, _C.Tensor)
    if both or not fits or not isinstance(dx, (int, float, complex, _C.Tensor, type(None))):
        raise TypeError(
            f"{op}() received an invalid combination of arguments: expected (Tensor y, Tensor x, "
            f"*, int dim) or (Tensor y, *, Number dx, int dim), got x of type {type(x).__name__} "
            f"and dx of type {type(dx).__name__}"
        )


def _steps(op: str, y: Tensor, x: Any, dx: Any, dim: int) -> Any:
    """The distances of neighbouring sample points: a number, or a tensor that fits y."""
    dx = 1 if dx is None else dx
    if y.dtype == _C.bool:
        raise NotImplementedError(f"{op}: received a bool input for `y`, but bool is not supported")
    if x is None:
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{op}: Currently, we only support dx as a real number.")
        return dx
    if x.dtype == _C.bool:
        raise NotImplementedError(f"{op}: received a bool input for `x`, but bool is not supported")
    if x.dim() == 1:
        if x.size(0) != y.size(dim):
            raise RuntimeError(f"{op}: There must be one `x` value for each sample point")
        shape = [1] * y.dim()
        shape[dim] = x.size(0)
        x = x.reshape(shape)
    elif x.dim() < y.dim():
        x = x.reshape([1] * (y.dim() - x.dim()) + list(x.shape))
    if x.size(dim) == 0:
        return 0
    length = x.size(dim) - 1
    return x.narrow(dim, 1, length) - x.narrow(dim, 0, length)


def _pair_sums(y: Tensor, dim: int) -> Tensor:
    length = y.size(dim) - 1
    return y.narrow(dim, 1, length) + y.narrow(dim, 0, length)


def _checked_dim(y: Tensor, dim: int) -> int:
    if y.dim() == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -y.dim() <= dim < y.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-y.dim()}, {y.dim() - 1}], "
            f"but got {dim})"
        )
    return dim % y.dim()


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of ``y`` along ``dim`` by the trapezoidal rule, from points or their steps,
    which are 1 unless given."""
    _check_points("trapezoid", y, x, dx)
    dim = _checked_dim(y, dim)
    if y.size(dim) == 0:
        return y.new_zeros([n for d, n in enumerate(y.shape) if d != dim])
    steps = _steps("trapezoid", y, x, dx, dim)
    if x is None:  # all points count whole but those at both ends
        return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * steps
    return (steps * _pair_sums(y, dim)).sum(dim) / 2.0


def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Another name of trapezoid."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The integrals of ``y`` from the first point to each other one, by the trapezoidal rule."""
    _check_points("cumulative_trapezoid", y, x, dx)
    dim = _checked_dim(y, dim)
    steps = _steps("cumulative_trapezoid", y, x, dx, dim)
    if y.size(dim) == 0:
        return y.new_zeros(y.shape)
    if x is None:
        return _pair_sums(y, dim).cumsum(dim) * (steps / 2.0)
    return (steps * _pair_sums(y, dim)).cumsum(dim) / 2.0


def _spacings(input: Tensor, spacing: Any, dims: list[int]) -> list[Any]:
    if spacing is None:
        spacing = 1
    if isinstance(spacing, (int, float, complex)):
        return [spacing] * len(dims)
    if isinstance(spacing, _C.Tensor):
        spacing = [spacing]
    if len(spacing) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            "arguments to have the same length, but got a spacing argument of length "
            f"{len(spacing)} and a dim argument of length {len(dims)}."
        )
    for place, dim in enumerate(dims):
        points = spacing[place]
        if isinstance(points, _C.Tensor):
            if points.dim() != 1:
                raise RuntimeError(
                    "torch.gradient expected each element of spacing to have one dimension, but "
                    f"got an element with {points.dim()} dimensions!"
                )
            if points.size(0) != input.size(dim):
                raise RuntimeError(
                    "torch.gradient expected each element of spacing to have as many points as "
                    f"dimension {dim} of the input, {input.size(dim)}, but got {points.size(0)}"
                )
    return list(spacing)


def _slope(input: Tensor, points: Any, dim: int, edge_order: int) -> Tensor:
    """The derivative along one dimension: central differences inside, one-sided at the ends."""

    def part(start: int, length: int) -> Tensor:
        return input.narrow(dim, start, length)

    n = input.size(dim)
    shape = [1] * input.dim()
    if isinstance(points, _C.Tensor):
        steps = points[1:] - points[:-1]
        shape[dim] = -1
        before, after = steps[:-1].reshape(shape), steps[1:].reshape(shape)
        total = before + after
        inside = (
            part(0, n - 2) * (-after / (before * total))
            + part(1, n - 2) * ((after - before) / (before * after))
            + part(2, n - 2) * (before / (after * total))
        )
        h0, h1, k0, k1 = steps[0], steps[min(1, n - 2)], steps[-1], steps[max(-2, 1 - n)]
    else:
        inside = (part(2, n - 2) - part(0, n - 2)) / (2 * points)
        h0 = h1 = k0 = k1 = points
    if edge_order == 1:
        first = (part(1, 1) - part(0, 1)) / h0
        last = (part(n - 1, 1) - part(n - 2, 1)) / k0
    else:
        first = (
            part(0, 1) * (-(2 * h0 + h1) / (h0 * (h0 + h1)))
            + part(1, 1) * ((h0 + h1) / (h0 * h1))
            + part(2, 1) * (-h0 / (h1 * (h0 + h1)))
        )
        last = (
            part(n - 3, 1) * (k0 / (k1 * (k0 + k1)))
            + part(n - 2, 1) * (-(k0 + k1) / (k0 * k1))
            + part(n - 1, 1) * ((2 * k0 + k1) / (k0 * (k0 + k1)))
        )
    return _C.cat([first, inside, last], dim)


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative of samples along each dimension, exact for parabolas.

    ``spacing`` is the step between samples, or their positions: one for all dimensions or one each.
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if dim is None:
        dims = list(range(input.dim()))
    else:
        dims = [_checked_dim(input, d) for d in ([dim] if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError("dim 0 appears multiple times in the list of dims")
    for d in dims:
        if input.size(d) < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    if input.dtype in (_C.uint8, _C.bool):
        raise NotImplementedError(f"torch.gradient does not support {input.dtype} input.")
    positions = _spacings(input, spacing, dims)
    whole = not input.is_floating_point() and not input.is_complex()
    values = input.to(_C.get_default_dtype()) if whole else input
    slopes = (
        _slope(values, place, d, edge_order) for place, d in zip(positions, dims, strict=True)
    )
    return tuple(slopes)
