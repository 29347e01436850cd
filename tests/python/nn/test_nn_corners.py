"""Rare arguments and shapes of layers; the numbers are PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def test_infinite_norms_of_windows_are_their_extreme_magnitudes() -> None:
    x = torch.tensor([[[1.0, -5.0, 2.0, -3.0, -4.0, 0.5]]])
    assert F.lp_pool1d(x, math.inf, 2).tolist() == [[[5.0, 3.0, 4.0]]]
    assert F.lp_pool1d(x, -math.inf, 2).tolist() == [[[1.0, 2.0, 0.5]]]
    assert nn.LPPool2d(math.inf, (1, 2), (1, 3), True)(x).tolist() == [[[5.0, 4.0]]]
    for call in (lambda: nn.LPPool1d(0, 2), lambda: F.lp_pool1d(x, 0, 2)):
        with pytest.raises(ValueError, match="non-zero"):
            call()


def test_single_averages_take_any_number_of_dimensions() -> None:
    x = torch.arange(720.0).reshape(2, 3, 4, 5, 6)
    pooled = F.adaptive_avg_pool2d(x, 1)
    assert pooled.shape == (2, 3, 4, 1, 1)
    assert torch.equal(pooled, x.mean((-1, -2), keepdim=True))
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        F.adaptive_avg_pool2d(x, 2)


def test_padding_does_not_make_up_for_a_volume_smaller_than_the_window() -> None:
    with pytest.raises(RuntimeError, match="smaller than kernel size"):
        F.avg_pool3d(torch.ones(1, 1, 1, 1, 1), 3, 2, 1)


def test_cross_map_normalization_keeps_the_first_channel() -> None:
    x = torch.arange(1.0, 8.0).view(1, 7, 1, 1)
    expected = [3 / 8, 6 / 17, 3 / 11, 4 / 18, 5 / 27, 6 / 38]
    torch.testing.assert_close(
        nn.CrossMapLRN2d(3, 1.0, 1.0, 1.0)(x).ravel()[:6], torch.tensor(expected)
    )


def test_lazy_norms_change_their_dtype_before_they_have_a_shape() -> None:
    norm = nn.LazyBatchNorm1d().double()
    assert norm.running_mean.dtype == torch.float64
    y = norm(torch.randn(4, 3, dtype=torch.float64))
    assert y.dtype == torch.float64 and norm.running_var.dtype == torch.float64
    assert norm.weight.shape == norm.running_mean.shape == (3,)


def test_a_cubic_sample_at_a_voxel_is_the_voxel() -> None:
    x = torch.randn(1, 2, 3, 4, 5, dtype=torch.float64)
    identity = torch.eye(3, 4, dtype=torch.float64)[None]
    grid = F.affine_grid(identity, list(x.shape), align_corners=True)
    torch.testing.assert_close(F.grid_sample(x, grid, "bicubic", align_corners=True), x)


def test_an_uneven_same_padding_warns_once() -> None:
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="padding='same' with even kernel"):
            F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same")
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
@pytest.mark.parametrize("pad", [(1, 2, 3, 0), (0, 0, 0, 4), (0, 0, 0, 0), (5, 5, 5, 5)])
def test_large_images_are_padded_like_small_ones(
    mode: str, numpy_mode: str, pad: tuple[int, int, int, int]
) -> None:
    x = torch.arange(2 * 3 * 80 * 90.0).reshape(2, 3, 80, 90)
    left, right, above, below = pad
    want = np.pad(x.numpy(), ((0, 0), (0, 0), (above, below), (left, right)), numpy_mode)
    padded = F.pad(x, pad, mode=mode)
    assert padded.is_contiguous() and padded.data_ptr() != x.data_ptr()
    assert np.array_equal(padded.numpy(), want)
    with_history = F.pad(x.requires_grad_(), pad, mode=mode)
    assert np.array_equal(with_history.detach().numpy(), want)


def test_large_images_are_not_padded_beyond_themselves() -> None:
    x = torch.zeros(1, 2, 200, 100)
    for mode, sentence in (("reflect", "Padding size should be less"), ("circular", "wrapping")):
        with pytest.raises(RuntimeError, match=sentence):
            F.pad(x, (0, 0, 201, 0), mode=mode)
