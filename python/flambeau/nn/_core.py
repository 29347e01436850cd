"""Functions of PyTorch's core about modules, as `torch._C._nn`."""

from __future__ import annotations

import flambeau
from flambeau._utils import _flatten_dense_tensors as flatten_dense_tensors
from flambeau._utils import _unflatten_dense_tensors as unflatten_dense_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["flatten_dense_tensors", "unflatten_dense_tensors"]

# Names that are functions of nn.functional, and those that are operators of `aten`.
_FUNCTIONAL = dict.fromkeys(
    """avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot
    scaled_dot_product_attention softplus softshrink""".split()
)
_FUNCTIONAL["log_sigmoid"] = "logsigmoid"
_OPERATORS = frozenset(
    """_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d elu gelu_ glu hardsigmoid hardsigmoid_
    hardswish hardswish_ hardtanh leaky_relu mish mish_ relu6 relu6_ silu silu_
    upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_trilinear3d""".split()
)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) for the arguments of `to`."""
    from flambeau.nn.modules._convert import parse_to

    return parse_to(args, kwargs)


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONAL:
        return getattr(flambeau.nn.functional, _FUNCTIONAL[name] or name)
    if name in _OPERATORS:
        return getattr(flambeau.ops.aten, name)
    raise AttributeError(f"module 'torch._C._nn' has no attribute '{name}'")
