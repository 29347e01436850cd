"""The operators of torchvision's C++ library, which `ops.load_library` registers in its place."""

from __future__ import annotations

import itertools
import math

import pytest

import flambeau as torch

torch.ops.load_library("/some/folder/torchvision/_C.so")
vision = torch.ops.torchvision


def _overlap(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    both = sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in (a, b))
    return shared / (both - shared)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("count", [0, 1, 40, 1500])
def test_boxes_are_kept_one_by_one(count: int, threshold: float) -> None:
    torch.manual_seed(count)
    boxes = torch.rand(count, 4, dtype=torch.float64) * 20
    boxes[:, 2:] += boxes[:, :2]
    scores = torch.rand(count)
    listed, kept = boxes.tolist(), []
    for place in scores.sort(descending=True, stable=True).indices.tolist():
        if all(_overlap(listed[better], listed[place]) <= threshold for better in kept):
            kept.append(place)
    assert vision.nms(boxes, scores, threshold).tolist() == kept


def test_nms_refuses_other_shapes() -> None:
    boxes, scores = torch.rand(3, 4), torch.rand(3)
    for wrong in (
        (boxes[0], scores),
        (boxes[:, :3], scores),
        (boxes, boxes),
        (boxes, scores[:2]),
    ):
        with pytest.raises(RuntimeError, match=r"boxes|scores"):
            vision.nms(*wrong, 0.5)


def _pixel(image: list[list[float]], y: float, x: float) -> float:
    """The image between its pixels, as its border up to a pixel away and zero beyond."""
    height, width = len(image), len(image[0])
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = math.floor(y), math.floor(x)
    low, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = image[top][left] * (1 - x + left) + image[top][right] * (x - left)
    lower = image[low][left] * (1 - x + left) + image[low][right] * (x - left)
    return upper * (1 - y + top) + lower * (y - top)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_regions_are_means_of_samples(ratio: int, aligned: bool) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 1, 6, 7, dtype=torch.float64)
    rois = [[0, 1.0, 1.5, 5.0, 9.0], [1, -3.0, 0.0, 3.0, 4.0], [0, 2.0, 2.0, 2.1, 2.2]]
    scale, bins = 0.7, (2, 3)
    got = vision.roi_align(
        image, torch.tensor(rois, dtype=torch.float64), scale, *bins, ratio, aligned
    )
    for row, (number, x1, y1, x2, y2) in enumerate(rois):
        shift = 0.5 if aligned else 0.0
        height, width = (y2 - y1) * scale, (x2 - x1) * scale
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        tall, wide = height / bins[0], width / bins[1]
        down, across = (ratio, ratio) if ratio > 0 else (math.ceil(tall), math.ceil(wide))
        for i in range(bins[0]):
            for j in range(bins[1]):
                seen = [
                    _pixel(
                        image[int(number), 0].tolist(),
                        y1 * scale - shift + (i + (a + 0.5) / down) * tall,
                        x1 * scale - shift + (j + (b + 0.5) / across) * wide,
                    )
                    for a in range(down)
                    for b in range(across)
                ]
                assert got[row, 0, i, j].item() == pytest.approx(sum(seen) / len(seen), abs=1e-12)


def _whole_bins(start: float, size: float, bins: int, limit: int) -> list[range]:
    """The pixels of each bin of a region along one axis."""
    return [
        range(
            min(max(math.floor(i * size / bins) + int(start), 0), limit),
            min(max(math.ceil((i + 1) * size / bins) + int(start), 0), limit),
        )
        for i in range(bins)
    ]


_REGIONS = [[0, 1, 1, 5, 4], [1, 0.5, 0.2, 3.4, 6.9], [0, -3, -2, 20, 30], [1, 9, 9, 12, 12]]


def test_pooled_regions_are_the_largest_of_their_bins() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 6, 7, dtype=torch.float64)
    rois = torch.tensor(_REGIONS, dtype=torch.float64)
    got, positions = vision.roi_pool(image, rois, 1.0, 2, 3)
    assert positions.dtype is torch.int32
    for row, (number, *corners) in enumerate(_REGIONS):
        x1, y1, x2, y2 = (math.floor(corner + 0.5) for corner in corners)
        tall = _whole_bins(y1, max(y2 - y1 + 1, 1), 2, 6)
        wide = _whole_bins(x1, max(x2 - x1 + 1, 1), 3, 7)
        for c, i, j in itertools.product(range(3), range(2), range(3)):
            seen = [(-image[number, c, y, x].item(), y * 7 + x) for y in tall[i] for x in wide[j]]
            best, place = min(seen, default=(0.0, -1))
            assert got[row, c, i, j].item() == -best and positions[row, c, i, j].item() == place


def test_bins_with_channels_of_their_own() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 12, 6, 7, dtype=torch.float64)
    rois = torch.tensor(_REGIONS, dtype=torch.float64)
    got, channels = vision.ps_roi_pool(image, rois, 1.0, 2, 3)
    aligned, same_channels = vision.ps_roi_align(image, rois, 1.0, 2, 3, 2)
    every = vision.roi_align(image, rois, 1.0, 2, 3, 2, True)
    assert torch.equal(channels, same_channels) and channels.dtype is torch.int32
    assert got.shape == aligned.shape == (4, 2, 2, 3)
    for row, (number, *corners) in enumerate(_REGIONS):
        x1, y1, x2, y2 = (math.floor(corner + 0.5) for corner in corners)
        tall = _whole_bins(y1, max(y2 - y1, 1), 2, 5)
        wide = _whole_bins(x1, max(x2 - x1, 1), 3, 6)
        for c, i, j in itertools.product(range(2), range(2), range(3)):
            own = (c * 2 + i) * 3 + j
            seen = [image[number, own, y, x].item() for y in tall[i] for x in wide[j]]
            want = sum(seen) / max(len(seen), 1)
            assert got[row, c, i, j].item() == pytest.approx(want, abs=1e-12)
            assert channels[row, c, i, j].item() == own
            assert aligned[row, c, i, j].item() == every[row, own, i, j].item()
    for pool in (vision.ps_roi_pool, lambda *given: vision.ps_roi_align(*given, 2)):
        with pytest.raises(RuntimeError, match="multiple of pooling height"):
            pool(image, rois, 1.0, 5, 1)


def test_gradients_of_pooled_regions() -> None:
    torch.manual_seed(0)
    image = torch.randn(1, 4, 5, 5, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor([[0, 0.3, 0.4, 3.1, 3.7]], dtype=torch.float64)
    for pool in (vision.roi_pool, vision.ps_roi_pool):
        assert torch.autograd.gradcheck(lambda x, pool=pool: pool(x, rois, 1.0, 2, 2)[0], (image,))
    assert torch.autograd.gradcheck(
        lambda x: vision.ps_roi_align(x, rois, 1.0, 2, 2, 2)[0], (image,)
    )


def test_gradients_of_regions_and_moved_taps() -> None:
    torch.manual_seed(0)
    image = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor([[0, 0.3, 0.4, 3.1, 3.7]], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: vision.roi_align(x, rois, 1.0, 2, 2, 2, True), (image,)
    )
    weight, offset, mask, bias = (
        torch.randn(*size, dtype=torch.float64, requires_grad=True)
        for size in ((2, 2, 2, 2), (1, 8, 4, 4), (1, 4, 4, 4), (2,))
    )
    assert torch.autograd.gradcheck(
        lambda *inputs: vision.deform_conv2d(*inputs, 1, 1, 0, 0, 1, 1, 1, 1, True),
        (image, weight, offset, mask, bias),
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_taps_that_stay_make_a_convolution(groups: int) -> None:
    torch.manual_seed(0)
    image, weight, bias = torch.randn(2, 4, 9, 8), torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    want = torch.nn.functional.conv2d(image, weight, bias, (2, 1), (1, 2), (1, 3), groups)
    offset = image.new_zeros(2, 2 * 6 * 2, *want.shape[2:])
    mask = image.new_zeros(2, 0)
    got = vision.deform_conv2d(
        image, weight, offset, mask, bias, 2, 1, 1, 2, 1, 3, groups, 2, False
    )
    torch.testing.assert_close(got, want)


def test_what_is_not_computed_says_so() -> None:
    with pytest.raises(NotImplementedError, match="torchvision"):
        vision.box_iou_rotated(torch.rand(1, 5), torch.rand(1, 5))
    with pytest.raises(OSError, match="compiled against PyTorch"):
        torch.ops.load_library("/some/folder/other/_C.so")
