"""Resizing and sampling of images, and windows as columns."""

from __future__ import annotations

import math
import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "affine_grid",
    "fold",
    "grid_sample",
    "interpolate",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# Which modes blend neighbours, and the rank of the input that each needs.
_LINEAR_MODES = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
_ANTIALIAS_MODES = ("bilinear", "bicubic", "lanczos")


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the spatial dimensions of (N, C, ...) to ``size`` or by ``scale_factor``."""
    if align_corners is not None and mode in _COPYING_MODES:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if antialias and (mode not in _ANTIALIAS_MODES or input.dim() != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if isinstance(size, (list, tuple)) and len(size) != max(input.dim() - 2, 0):
        _target(input, size, scale_factor, recompute_scale_factor)
    if input.dim() not in (3, 4, 5) or mode not in (*_LINEAR_MODES, *_COPYING_MODES):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for "
            "the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
            f"nearest-exact (got {mode})"
        )
    output_size, scales = _target(input, size, scale_factor, recompute_scale_factor)
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    needed = _LINEAR_MODES.get(mode, input.dim())
    if needed != input.dim():
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {needed}D input"
        )
    if mode == "area":
        pool = (_C.adaptive_avg_pool1d, _C.adaptive_avg_pool2d, _C.adaptive_avg_pool3d)
        return pool[input.dim() - 3](input, output_size)
    return _C._upsample(input, output_size, scales, mode, bool(align_corners), antialias)


_COPYING_MODES = ("nearest", "nearest-exact", "area")


def _target(
    input: Tensor, size: Any, scale_factor: Any, recompute_scale_factor: bool | None
) -> tuple[list[int], list[float]]:
    """The output's spatial sizes, and the factors that coordinates are to be computed by if any."""
    spatial = list(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if not isinstance(size, (list, tuple)):
            return [size] * len(spatial), []
        if any(isinstance(length, (float, _C.Tensor)) for length in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types {[type(n) for n in size]}"
            )
        if len(size) != len(spatial):
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {spatial} and output size of {size}. Please provide "
                "input tensor in (N, C, d1, d2, ...,dK) format and output size in "
                "(o1, o2, ...,oK) format."
            )
        return list(size), []
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != len(spatial):
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {spatial} and scale_factor of shape "
                f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
                "and scale_factor in (s1, s2, ...,sK) format."
            )
        factors = [float(factor) for factor in scale_factor]
    else:
        factors = [float(scale_factor)] * len(spatial)
    output = [math.floor(n * factor) for n, factor in zip(spatial, factors, strict=True)]
    if any(abs(length) >= 1 << 63 for length in output):
        raise RuntimeError(
            "interpolate: value cannot be converted to type int64_t without overflow: sizes "
            f"{spatial} times scale_factor {factors}"
        )
    return output, [] if recompute_scale_factor else factors


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The older name of interpolate."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with the nearest neighbour."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Bilinear interpolate with corners aligned."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


_SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_SAMPLE_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` at the points of ``grid``, whose coordinates go from -1 to 1."""
    if mode not in _SAMPLE_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _SAMPLE_PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False "
            "since 1.3.0. Please specify align_corners=True if the old behavior is desired. See "
            "the documentation of grid_sample for details.",
            stacklevel=2,
        )
    return _C.grid_sampler(
        input, grid, _SAMPLE_MODES[mode], _SAMPLE_PADDINGS[padding_mode], bool(align_corners)
    )


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid for grid_sample of a batch of affine maps."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False "
            "since 1.3.0. Please specify align_corners=True if the old behavior is desired. See "
            "the documentation of grid_sample for details.",
            stacklevel=2,
        )
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    rank = len(size) - 2
    if theta.dim() != 3 or theta.shape[1:] != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True: their only place is the middle. See the documentation of "
            "affine_grid for details.",
            stacklevel=2,
        )
    return _C.affine_grid_generator(theta, size, bool(align_corners))


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Every window of (N, C, H, W) as a column of (N, C * window, windows)."""
    return _C.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The image to which columns of windows add up."""
    return _C.col2im(input, output_size, kernel_size, dilation, padding, stride)
