"""`ops.aten.upsample_*`: the steps inside of `interpolate`, a function for each mode and number of
dimensions, with sizes or factors as positional arguments.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import Tensor, nn

# (name, mode of interpolate, dimensions, whether corners can be aligned, whether antialiased)
_KINDS = (
    *((f"upsample_nearest{n}d", "nearest", n, False, False) for n in (1, 2, 3)),
    *((f"_upsample_nearest_exact{n}d", "nearest-exact", n, False, False) for n in (1, 2, 3)),
    ("upsample_linear1d", "linear", 1, True, False),
    ("upsample_bilinear2d", "bilinear", 2, True, False),
    ("upsample_bicubic2d", "bicubic", 2, True, False),
    ("upsample_trilinear3d", "trilinear", 3, True, False),
    ("_upsample_bilinear2d_aa", "bilinear", 2, True, True),
    ("_upsample_bicubic2d_aa", "bicubic", 2, True, True),
)


def _checked_factors(name: str, self: Tensor, size: Any, factors: Any) -> Any:
    """Factors that lead to the sizes, None if there are none; others are refused."""
    if factors is None or all(factor is None for factor in factors):
        return None
    got = [None if f is None else math.floor(n * f) for n, f in zip(self.shape[2:], factors)]
    if size is not None and got != list(size):
        raise NotImplementedError(
            f"{name}: factors {list(factors)} of sizes {list(self.shape[2:])} lead to {got}, and "
            f"Flambeau cannot make {list(size)} of them"
        )
    return list(factors)


def _step_of(name: str, mode: str, dims: int, aligns: bool, antialias: bool) -> Any:
    def upsample(
        self: Tensor, output_size: Any, *rest: Any, align_corners: Any = None, **scales: Any
    ) -> Tensor:
        if self.dim() != dims + 2:
            raise RuntimeError(
                f"{name}: It is expected input_size equals to {dims + 2}, but got size {self.dim()}"
            )
        if output_size is not None and len(output_size) != dims:
            raise RuntimeError(
                f"{name}: It is expected output_size equals to {dims}, but got size "
                f"{len(output_size)}"
            )
        given = list(rest)
        if aligns and align_corners is None:
            if not given:
                raise RuntimeError(f"aten::{name}() is missing value for argument 'align_corners'")
            align_corners = given.pop(0)
        given += scales.values()
        if given and isinstance(given[0], (list, tuple)):
            given = list(given[0])
        factors = _checked_factors(name, self, output_size, given[:dims])
        if output_size is None and factors is None:
            raise RuntimeError(f"{name}: Must specify exactly one of output_size and scale_factors")
        made: Tensor = nn.functional.interpolate(
            self,
            size=None if factors else list(output_size),
            scale_factor=factors,
            mode=mode,
            align_corners=align_corners if aligns else None,
            antialias=antialias,
        )
        return made

    upsample.__name__ = name
    return upsample


globals().update({kind[0]: _step_of(*kind) for kind in _KINDS})
