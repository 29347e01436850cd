"""Mixed precision on CUDA, under the names it had before `flambeau.amp`."""

from __future__ import annotations

from flambeau import amp
from flambeau.amp._older_names import warn_older_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`flambeau.amp.autocast` for CUDA."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        warn_older_name("autocast", "cuda")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`flambeau.amp.GradScaler` for CUDA."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_older_name("GradScaler", "cuda")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`flambeau.amp.custom_fwd` for CUDA."""
    warn_older_name("custom_fwd", "cuda")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`flambeau.amp.custom_bwd` for CUDA."""
    warn_older_name("custom_bwd", "cuda")
    return amp.custom_bwd(bwd, device_type="cuda")


def __getattr__(name: str) -> object:
    if name == "amp_definitely_not_available":
        from flambeau.cuda.amp.common import amp_definitely_not_available

        return amp_definitely_not_available
    if name in ("autocast_mode", "common", "grad_scaler"):
        import importlib

        return importlib.import_module(f"flambeau.cuda.amp.{name}")
    raise AttributeError(f"module 'flambeau.cuda.amp' has no attribute '{name}'")
