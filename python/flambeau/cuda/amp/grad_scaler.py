"""Where GradScaler was before `flambeau.amp`."""

from __future__ import annotations

from flambeau.amp.grad_scaler import OptState, _refresh_per_optimizer_state
from flambeau.cuda.amp import GradScaler

__all__ = ["GradScaler", "OptState", "_refresh_per_optimizer_state"]
