"""Where autocast was before `flambeau.amp`."""

from __future__ import annotations

from flambeau.cuda.amp import autocast, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_bwd", "custom_fwd"]
