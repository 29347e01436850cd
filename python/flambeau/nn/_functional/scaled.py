"""How factors of scaled products of low precision are laid out. The products themselves are absent:
libraries choose by these names what to do on a GPU, when they are imported.
"""

from __future__ import annotations

import enum

from flambeau._absent import absent

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.Enum):
    """How many elements share a factor."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """In which order factors lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2


_WHY = "Flambeau has no products of scaled float8 tensors"
scaled_mm = absent("flambeau.nn.functional", "scaled_mm", _WHY)
scaled_grouped_mm = absent("flambeau.nn.functional", "scaled_grouped_mm", _WHY)
