"""Building blocks of networks: modules, parameters, losses, and functions on them."""

from __future__ import annotations

from flambeau.nn.parameter import (  # isort: skip
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
from flambeau.nn import attention, functional, grad, init, modules, parallel, parameter, utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parallel import DataParallel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = modules.__all__ + [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments for making a tensor out of those given to a module."""
    if kwargs is None:
        return {}
    simple_keys = {"device", "dtype", "memory_format"}
    expected_keys = simple_keys | {"factory_kwargs"}
    if not kwargs.keys() <= expected_keys:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - expected_keys}")
    merged = dict(kwargs.get("factory_kwargs", {}))
    for key in simple_keys & kwargs.keys():
        if key in merged:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        merged[key] = kwargs[key]
    return merged
