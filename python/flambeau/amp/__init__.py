"""Mixed precision: `autocast` chooses a dtype for each op, `GradScaler` keeps small gradients."""

from __future__ import annotations

from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
