"""functional_call under its older name; see ``flambeau.func.functional_call``."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.func._functional_call import functional_call as _functional_call
from flambeau.func._functional_call import reparametrized as _reparametrize_module
from flambeau.nn.modules.module import Module

__all__ = ["_functional_call", "_reparametrize_module", "functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other parameters and buffers than its own."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead, "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
