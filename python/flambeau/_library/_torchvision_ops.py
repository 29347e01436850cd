"""The operators that torchvision brings compiled against PyTorch's libraries, written as ops of
this one, so that its detectors work: suppression of boxes, alignment and pooling of regions,
convolutions whose taps are moved. `ops.load_library` registers them in the place of torchvision's
own file.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.library import Library

# How many boxes are compared with each other at a time: the matrix of overlaps stays small.
_BOXES = 1024

_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_GRAD = "Tensor grad, Tensor rois, {}float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_STEPS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
_TAPS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
_MAPPED = _GRAD.format("Tensor channel_mapping, ")

# torchvision tells the shapes of all of these when it is imported. Those that are not computed here
# are names only, and calling one says so.
_SCHEMAS = (
    "_cuda_version() -> int",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    f"deform_conv2d({_TAPS}, {_STEPS}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_TAPS}, {_STEPS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward({_GRAD.format('')}, {_SIZES}, int sampling_ratio, bool aligned) "
    "-> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"_roi_pool_backward({_GRAD.format('Tensor argmax, ')}, {_SIZES}) -> Tensor",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward({_MAPPED}, int sampling_ratio, {_SIZES}) -> Tensor",
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward({_MAPPED}, {_SIZES}) -> Tensor",
)


def _overlaps(one: Tensor, other: Tensor, threshold: float) -> Tensor:
    """Which boxes (n, 4) and (m, 4) share more than `threshold` of their common area."""
    low = flambeau.maximum(one[:, None, :2], other[:, :2])
    high = flambeau.minimum(one[:, None, 2:], other[:, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area, other_area = ((box[:, 2:] - box[:, :2]).prod(-1) for box in (one, other))
    return shared / (area[:, None] + other_area - shared) > threshold


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that no better box overlaps by more than the threshold, the best ones first."""
    if dets.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.size(1) != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if dets.size(0) != scores.size(0):
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.size(0)} and {scores.size(0)}"
        )
    order = scores.sort(stable=True, descending=True)[1]
    boxes = dets[order]
    kept: list[Tensor] = []
    for begin in range(0, len(order), _BOXES):
        block = boxes[begin : begin + _BOXES]
        free = flambeau.ones(len(block), dtype=flambeau.bool, device=dets.device)
        for chosen in kept:
            free &= ~_overlaps(boxes[chosen], block, iou_threshold).any(0)
        # A box falls to a better one that stands. Each round settles at least the next in order.
        falls_to = _overlaps(block, block, iou_threshold).triu(1)
        standing = free
        while not flambeau.equal(
            settled := free & ~(falls_to & standing[:, None]).any(0), standing
        ):
            standing = settled
        kept.append(begin + standing.argwhere()[:, 0])
    return order[flambeau.cat(kept)] if kept else order


def _bilinear(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Images (n, c, h, w) at points (n, p) between their pixels, with zeros around them."""
    height, width = image.shape[-2:]
    flat, top, left = image.flatten(-2), y.floor(), x.floor()
    down, right = y - top, x - left
    total = flat.new_zeros((*flat.shape[:2], y.size(1)))
    for row, row_weight in ((top, 1 - down), (top + 1, down)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            index = place.long().unsqueeze(1).expand(-1, flat.size(1), -1)
            weight = (row_weight * column_weight * inside).unsqueeze(1)
            total = total + flat.gather(2, index) * weight
    return total


def _samples(
    start: Tensor, size: Tensor, bins: int, ratio: int, limit: int
) -> tuple[Tensor, Tensor]:
    """Where regions are sampled along one axis: points (k, bins, s) and what each counts for.

    Regions of different sizes have different numbers of samples, unless `ratio` sets it; points
    beyond a region's number, and points outside of the image, count for nothing.
    """
    width = size / bins
    counts = flambeau.full_like(size, ratio) if ratio > 0 else width.ceil()
    most = max(int(counts.max()), 1) if counts.numel() else 1
    steps = flambeau.arange(most, dtype=size.dtype, device=size.device)
    bin = flambeau.arange(bins, dtype=size.dtype, device=size.device)
    within = (steps + 0.5) * (width / counts)[:, None]
    points = (start[:, None] + bin * width[:, None])[:, :, None] + within[:, None]
    used = (steps < counts[:, None])[:, None] & (points >= -1) & (points <= limit)
    weights = used / counts.clamp(min=1)[:, None, None]
    return points.nan_to_num(0.0, 0.0, 0.0).clamp(0, limit - 1), weights


def _check_regions(op: str, input: Tensor, rois: Tensor) -> None:
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError(f"{op}: rois must have shape as Tensor[K, 5], got {rois.shape}")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"{op}: Expected tensor for input to have the same type as tensor for rois; but type "
            f"{input.dtype} does not equal {rois.dtype}"
        )


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """The mean of an image around points of each bin of regions (image, x1, y1, x2, y2)."""
    _check_regions("roi_align", input, rois)
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    sizes = corners[:, 2:] - corners[:, :2]
    sizes = sizes if aligned else sizes.clamp(min=1.0)
    height, width = input.shape[-2:]
    y, y_weight = _samples(corners[:, 1], sizes[:, 1], pooled_height, sampling_ratio, height)
    x, x_weight = _samples(corners[:, 0], sizes[:, 0], pooled_width, sampling_ratio, width)
    shape = (*y.shape, *x.shape[1:])
    out = input.new_zeros((len(rois), input.size(1), pooled_height, pooled_width))
    for number in range(input.size(0)):
        own = (rois[:, 0] == number).argwhere()[:, 0]
        grid = (len(own), *shape[1:])
        points = [
            axis.expand(grid).reshape(1, -1)
            for axis in (y[own][:, :, :, None, None], x[own][:, None, None])
        ]
        seen = _bilinear(input[number : number + 1], *points)[0].unflatten(1, grid)
        weighted = flambeau.einsum("ckisjt,kis,kjt->kcij", seen, y_weight[own], x_weight[own])
        out = out.index_copy(0, own, weighted)
    return out


def _covered(start: Tensor, size: Tensor, bins: int, length: int, limit: int) -> Tensor:
    """Which of `length` pixels along one axis belong to each bin of regions: (k, bins, length).

    Bins are widened to whole pixels; pixels from `limit` on belong to none.
    """
    width = (size / bins)[:, None]
    bin = flambeau.arange(bins, dtype=size.dtype, device=size.device)
    begin = ((bin * width).floor() + start[:, None]).clamp(0, limit)
    end = (((bin + 1) * width).ceil() + start[:, None]).clamp(0, limit)
    pixel = flambeau.arange(length, dtype=size.dtype, device=size.device)
    return (pixel >= begin[:, :, None]) & (pixel < end[:, :, None])


def _round(x: Tensor) -> Tensor:
    """The nearest whole number, the one farther from zero of two."""
    return flambeau.copysign((x.abs() + 0.5).floor(), x)


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest value in each bin of regions (image, x1, y1, x2, y2), and where it stands."""
    _check_regions("roi_pool", input, rois)
    corners = _round(rois[:, 1:] * spatial_scale)
    sizes = (corners[:, 2:] - corners[:, :2] + 1).clamp(min=1)
    height, width = input.shape[-2:]
    rows = _covered(corners[:, 1], sizes[:, 1], pooled_height, height, height)
    columns = _covered(corners[:, 0], sizes[:, 0], pooled_width, width, width)
    shape = (len(rois), input.size(1), pooled_height, pooled_width)
    pooled = input.new_zeros(shape)
    argmax = flambeau.full(shape, -1, dtype=flambeau.int32, device=input.device)
    lowest = -float("inf")
    for number, (row, column) in enumerate(zip(rows, columns)):
        image = input[int(rois[number, 0])]
        # The largest of each row in the columns of a bin, then the largest of these.
        seen = image.detach()[:, :, None].masked_fill(~column, lowest)  # (c, h, columns, w)
        best, at_column = seen.max(-1)
        lines = best.transpose(1, 2)[:, None].masked_fill(~row[:, None], lowest)
        at_row = lines.max(-1)[1]  # (c, rows, columns)
        at_column = at_column.transpose(1, 2)[:, None].expand_as(lines)
        place = at_row * width + at_column.gather(-1, at_row[..., None])[..., 0]
        taken = image.flatten(1).gather(1, place.flatten(1)).view_as(place)
        empty = ~(row.any(-1)[:, None] & column.any(-1))
        pooled = pooled.select_scatter(taken.masked_fill(empty, 0), 0, number)
        argmax[number] = place.masked_fill(empty, -1)
    return pooled, argmax


def _channel_mapping(rois: Tensor, channels: int, height: int, width: int) -> Tensor:
    """The channel from which each bin of each region is taken."""
    mapping = flambeau.arange(channels, dtype=flambeau.int32, device=rois.device)
    return mapping.view(1, -1, height, width).expand(len(rois), -1, -1, -1).contiguous()


def _check_channels(op: str, input: Tensor, height: int, width: int) -> None:
    if input.size(1) % (height * width):
        raise RuntimeError(
            f"{op}: input channels must be a multiple of pooling height * pooling width, got "
            f"{input.size(1)} channels for bins of {height} x {width}"
        )


def ps_roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:
    """`roi_align` in which each bin has channels of its own."""
    _check_channels("ps_roi_align", input, pooled_height, pooled_width)
    bins = (pooled_height, pooled_width)
    every = roi_align(input, rois, spatial_scale, *bins, sampling_ratio, True)
    own = every.unflatten(1, (-1, *bins)).diagonal(dim1=2, dim2=4).diagonal(dim1=2, dim2=3)
    return own.contiguous(), _channel_mapping(rois, input.size(1), *bins)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The mean of each bin of regions, each bin in channels of its own."""
    _check_regions("ps_roi_pool", input, rois)
    _check_channels("ps_roi_pool", input, pooled_height, pooled_width)
    corners = _round(rois[:, 1:] * spatial_scale)
    sizes = (corners[:, 2:] - corners[:, :2]).clamp(min=1)
    height, width = input.shape[-2:]
    rows = _covered(corners[:, 1], sizes[:, 1], pooled_height, height, height - 1)
    columns = _covered(corners[:, 0], sizes[:, 0], pooled_width, width, width - 1)
    area = rows.sum(-1)[:, :, None] * columns.sum(-1)[:, None]
    images = input.unflatten(1, (-1, pooled_height, pooled_width))
    pooled = input.new_zeros((len(rois), images.size(1), pooled_height, pooled_width))
    for number in range(input.size(0)):
        own = (rois[:, 0] == number).argwhere()[:, 0]
        weights = [mask[own].to(input.dtype) for mask in (rows, columns)]
        total = flambeau.einsum("cijhw,kih,kjw->kcij", images[number], *weights)
        pooled = pooled.index_copy(0, own, total / area[own].clamp(min=1)[:, None])
    return pooled, _channel_mapping(rois, input.size(1), pooled_height, pooled_width)


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution whose taps are moved by `offset` and weighted by `mask`."""
    batch, channels = input.shape[:2]
    out_height, out_width = offset.shape[-2:]
    kernel_h, kernel_w = weight.shape[-2:]
    taps = kernel_h * kernel_w
    dtype, device = input.dtype, input.device
    moved = offset.view(batch * offset_groups, taps, 2, out_height, out_width)
    rows = flambeau.arange(out_height, dtype=dtype, device=device) * stride_h - pad_h
    columns = flambeau.arange(out_width, dtype=dtype, device=device) * stride_w - pad_w
    tap = flambeau.arange(taps, device=device)
    down = (tap // kernel_w * dilation_h)[:, None, None]
    right = (tap % kernel_w * dilation_w)[:, None, None]
    y = moved[:, :, 0] + (rows[:, None] + down)
    x = moved[:, :, 1] + (columns + right)
    image = input.reshape(batch * offset_groups, channels // offset_groups, *input.shape[2:])
    seen = _bilinear(image, y.flatten(1), x.flatten(1))
    if use_mask:
        seen = seen * mask.reshape(batch * offset_groups, 1, -1)
    seen = seen.reshape(batch, groups, -1, out_height * out_width)
    out = weight.flatten(1).unflatten(0, (groups, -1)) @ seen
    return out.reshape(batch, -1, out_height, out_width) + bias.view(-1, 1, 1)


_library = Library("torchvision", "DEF")
for _schema in _SCHEMAS:
    _library.define(_schema)
for _function in (nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d):
    _library.impl(_function.__name__, _function, "CompositeImplicitAutograd")
# No version: torchvision compares it with the toolkit that the library was built with.
_library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
